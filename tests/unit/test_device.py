"""GPUs of one machine are shared out to processes, one each; here by their names, without GPUs."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

TAKES_ONE = """
import sys, time
from pathlib import Path
from isotropy.device import lock_one
print("ready", flush=True)
print(lock_one(["GPU-a", "GPU-b"], Path(sys.argv[1]) / "locks"), flush=True)
time.sleep(600)
"""


def taker(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES_ONE, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert taken(process) == "ready"
    return process


def taken(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_each_takes_its_own_and_the_third_waits(tmp_path: Path) -> None:
    """What a killed process held is free again."""
    holders: list[subprocess.Popen[str]] = []
    try:
        holders += [taker(tmp_path), taker(tmp_path)]
        held = [taken(holder) for holder in holders]
        assert sorted(held) == ["0", "1"]
        holders.append(taker(tmp_path))
        late = holders[-1].stdout
        assert late is not None
        assert not select.select([late], [], [], 2)[0]
        holders[0].kill()
        assert taken(holders[-1]) == held[0]
        assert holders[1].poll() is None
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
