"""Speed of the audit: compared with sha256sum on the same files, and on a synthetic study of 5,000
records.

python benchmarks/audit.py [FOLDER OF A RUN] [--records N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from isotropy.files import record_path, write_json
from replication.provenance.audit import GOOD, verify_all
from replication.provenance.environment import describe_environment
from replication.provenance.identity import File, describe_files
from replication.provenance.ledger import append_job
from replication.provenance.lineage import Lineage
from replication.provenance.record import Record

THREADS = 2
REPEATS = 5


def best(function: Callable[[], object]) -> float:
    """Return the shortest of several timings, in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def throughput(root: Path) -> None:
    """Time `verify --all`, in this process and as a command, and sha256sum on the same files."""
    findings = verify_all(root, threads=THREADS)
    paths = [str(root / f.path) for f in findings if f.state == "intact"]
    megabytes = sum(Path(p).stat().st_size for p in paths) / 1e6
    peer = best(
        lambda: subprocess.run(["sha256sum", "--", *paths], stdout=subprocess.DEVNULL, check=True)
    )
    ours = best(lambda: verify_all(root, threads=THREADS))
    command = [
        sys.executable,
        "-m",
        "isotropy",
        "audit",
        "verify",
        "--all",
        "--root",
        str(root),
        "--threads",
        str(THREADS),
    ]
    command_seconds = best(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False))
    print(f"{len(paths)} files, {megabytes:.0f} MB, {THREADS} threads, best of {REPEATS}")
    for name, seconds in (
        ("sha256sum", peer),
        ("verify_all", ours),
        ("isotropy audit verify --all", command_seconds),
    ):
        print(
            f"{name:28} {seconds:7.3f} s {megabytes / seconds:8.0f} MB/s {peer / seconds:6.2f} of "
            "sha256sum"
        )


def write_records(n: int) -> None:
    """Write records of a chain of small jobs, each of which reads the output of the one before."""
    environment = describe_environment(1)
    before: tuple[Path, File, Record] | None = None
    for i in range(n):
        output = Path(f"results/chain/{i}.json")
        write_json(output, i)
        path = record_path(output)
        record = Record(
            id=f"{i:064x}",
            rule="chain",
            wildcards={"i": str(i)},
            spec={"i": i},
            code={
                "files": {f"isotropy/module{j}.py": "0" * 64 for j in range(25)},
                "sha256": {f"isotropy/module{j}.py": "0" * 64 for j in range(25)},
                "infrastructure": {f"isotropy/base{j}.py": "0" * 64 for j in range(12)},
                "rule": "0" * 64,
                "modules": [],
            },
            inputs=[before[1]] if before else [],
            input_records={before[0].as_posix(): before[2].identity()} if before else {},
            outputs=describe_files([output]),
            input_names={},
            output_names={"output": output.as_posix()},
            lineage=Lineage(),
            determinism="bitwise",
            seeds={},
            measurements={},
            environment=environment,
            started="",
            ended="",
            seconds=0.0,
            peak_memory_bytes=0,
            exit="completed",
        )
        write_json(path, record.model_dump(mode="json"))
        before = (path, record.outputs[0], record)
    # Appended at the end: entries are synced to the disk, which is not timed here.
    for i in range(n):
        append_job(Path("results"), Path(f"results/chain/{i}.record.json"))


def main() -> None:
    """Print the throughput on a finished study, and the time for synthetic records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=Path(), metavar="FOLDER OF A RUN")
    parser.add_argument("--records", type=int, default=5000)
    options = parser.parse_args()
    root = options.root.resolve()
    if (root / "results").is_dir():
        throughput(root)
    else:
        print(f"{root / 'results'} does not exist: the throughput needs a finished study")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_records(options.records)
        seconds = best(lambda: verify_all(Path(), threads=THREADS))
        assert all(f.state in GOOD for f in verify_all(Path()))
        print(f"{options.records:,} records: {seconds:.2f} s")


if __name__ == "__main__":
    main()
