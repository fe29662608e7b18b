"""Random mutations of a configuration, a registry, records, a ledger and a bundle, in this process.

python -m tests.campaign.mutations [--n 5000] [--seed 0]

A mutation replaces or removes a value at a random place. It must lead to a finding, or to an error
message of one line. Counted as missed: an audit without findings, and any other exception, which a
user would see as a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import logging
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from isotropy.errors import IsotropyError
from isotropy.printable import escape_for_terminal
from isotropy.provenance.audit import GOOD, verify_all
from isotropy.provenance.bundle import export
from isotropy.provenance.checkout import Checkout
from isotropy.provenance.format import LEDGER, UNREADABLE, line_sha256
from isotropy.provenance.verify_bundle import METADATA, ZIP_ERRORS, verify
from isotropy.sources.registry import load_registry
from isotropy.workflow.config import load_study, read_configuration
from tests.conftest import PROJECT
from tests.unit.jobs import write_note

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 5, 1e308, 10**40, float("nan"), "", ".", "..", "/", "a\nb", "\x1b[2J"),
    *("\0", "\ud800", "\u202e", "x" * 300, "a/" * 700, "../../etc/passwd", "results/../x", "{x}"),
    *("results/note.txt", "0" * 64, [], {}, [[]], {"": ""}, [None], {"a": {"b": []}}),
]


class Mutation(NamedTuple):
    """A value with one change, and a description of the change."""

    value: Any
    change: str


def mutate(value: Any, draw: random.Random) -> Mutation:
    """Change a JSON value at one randomly drawn place."""
    changed = copy.deepcopy(value)
    places = list(_places(changed))
    if not places:
        return Mutation(draw.choice(HOSTILE), "the whole")
    holder, key = draw.choice(places)
    operation = draw.choice(["replace", "replace", "remove", "nest", "swap type", "add"])
    if operation == "remove":
        del holder[key]
    elif operation == "nest":
        nested: Any = holder[key]
        for _ in range(draw.choice([1, 3, 2000])):
            nested = [nested]
        holder[key] = nested
    elif operation == "swap type":
        holder[key] = str(holder[key]) if not isinstance(holder[key], str) else [holder[key]]
    elif operation == "add" and isinstance(holder, dict):
        holder[str(draw.choice(HOSTILE))[:400]] = draw.choice(HOSTILE)
    else:
        holder[key] = copy.deepcopy(draw.choice(HOSTILE))
    return Mutation(changed, f"{operation} at {str(key)[:40]!r}")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Iterate over all nested values as pairs of container and key."""
    if not isinstance(value, dict | list):
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key])


class Run:
    """A small finished run with its bundle. Each method mutates a file of one kind, and returns a
    message if the mutation was missed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.chdir(folder):
            write_note(PROJECT, "source")
            write_note(PROJECT, "note", inputs={"source": "results/source.txt"})
            export(folder, PROJECT, folder / "bundle.zip", with_data=False)
        self.checkout = Checkout(PROJECT)
        self.configuration = read_configuration([PROJECT / "config.yaml"], {})
        self.registries = {
            path.name: yaml.safe_load(path.read_text("utf8"))
            for path in sorted((PROJECT / "config/sources").glob("*.yaml"))
        }

    def record(self, draw: random.Random) -> str | None:
        """Mutate a record; the audit must name it."""
        path = self.folder / "results" / draw.choice(["note", "source"])
        path = path.with_suffix(".record.json")
        return self._mutate_record(path, path.read_bytes(), draw)

    def entry(self, draw: random.Random) -> str | None:
        """Mutate a line of the ledger, and recompute the digests that chain the lines after it."""
        path = self.folder / "results" / LEDGER
        lines = path.read_bytes().splitlines()
        i = draw.randrange(len(lines))
        changed, change = mutate(json.loads(lines[i]), draw)
        if changed == json.loads(lines[i]):
            return None
        lines[i] = _text(changed).encode("utf8", "surrogatepass").replace(b"\n", b" ")
        for k in range(i + 1, len(lines)):
            entry = json.loads(lines[k]) | {"previous": line_sha256(lines[k - 1])}
            lines[k] = json.dumps(entry, separators=(",", ":")).encode()
        unchecked = change.endswith(("'time'", "'n'")) or "add at" in change
        with _replaced(path, b"\n".join([*lines, b""])):
            return self._missed_by_audit(change, may_be_quiet=unchecked)

    def bundle(self, draw: random.Random) -> str | None:
        """Mutate a JSON member of the bundle."""
        source, target = self.folder / "bundle.zip", self.folder / "changed.zip"
        victims = [METADATA, "results/note.record.json", "results/source.record.json"]
        victim = draw.choice(victims)
        with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
            value = json.loads(before.read(victim))
            changed, change = mutate(value, draw)
            for name in before.namelist():
                data = before.read(name)
                if name == victim:
                    data = _text(changed).encode("utf8", "surrogatepass")
                after.writestr(name, data)
        if changed == value:
            return None
        try:
            findings, summary = verify(str(target))
            escape_for_terminal("\n".join([*findings, summary])).encode()
        except (OSError, *UNREADABLE, *ZIP_ERRORS):
            return None  # a one-line error with exit code 2
        # Descriptions in the bundle's metadata are free text, and not checked.
        unchecked = victim == METADATA and _digests(changed) == _digests(value)
        return None if findings or unchecked else f"{victim}: {change}: not found"

    def config(self, draw: random.Random) -> str | None:
        """Mutate the default study's configuration."""
        changed, change = mutate(self.configuration, draw)
        if not isinstance(changed, dict):
            return None
        return _check_error_message(lambda: load_study(changed, PROJECT), change)

    def registry(self, draw: random.Random) -> str | None:
        """Mutate a file of the registry."""
        folder = self.folder / "sources"
        folder.mkdir(exist_ok=True)
        victim = draw.choice(list(self.registries))
        changed, change = mutate(self.registries[victim], draw)
        try:
            text = yaml.safe_dump(changed)
        except (RecursionError, yaml.YAMLError, UnicodeError):
            return None
        for name, value in self.registries.items():
            (folder / name).write_text(
                text if name == victim else yaml.safe_dump(value), "utf8", "surrogatepass"
            )
        return _check_error_message(lambda: load_registry(folder), f"{victim}: {change}")

    def _mutate_record(self, path: Path, data: bytes, draw: random.Random) -> str | None:
        value = json.loads(data)
        changed, change = mutate(value, draw)
        if changed == value:
            return None
        with _replaced(path, _text(changed).encode("utf8", "surrogatepass")):
            return self._missed_by_audit(f"{path.name}: {change}")

    def _missed_by_audit(self, change: str, *, may_be_quiet: bool = False) -> str | None:
        """Run the audit; return a message if it has no finding."""
        try:
            findings = verify_all(self.folder, self.checkout, threads=1)
        except IsotropyError:
            return None
        escape_for_terminal(" ".join(f"{f.path} {f.detail}" for f in findings)).encode()
        bad = [f for f in findings if f.state not in GOOD]
        return None if bad or may_be_quiet else f"{change}: not found"


def _digests(listed: Any) -> Any:
    """Return the files with digests in a bundle's metadata; `listed` itself if it is malformed."""
    try:
        return {(e["@id"], e["sha256"]) for e in listed["@graph"] if "sha256" in e and "@id" in e}
    except (TypeError, KeyError):
        return listed


def _check_error_message(load: Callable[[], object], change: str) -> str | None:
    try:
        load()
    except IsotropyError as error:
        return f"{change}: several lines: {error}" if "\n" in str(error) else None
    return None


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[" * 5000


@contextlib.contextmanager
def _replaced(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def campaign(n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Apply `n` mutations; return the counts by kind, and messages of the missed ones."""
    logging.getLogger("isotropy").setLevel(logging.ERROR)
    counts: Counter[str] = Counter()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        kinds = {
            "record": run.record,
            "ledger": run.entry,
            "bundle": run.bundle,
            "configuration": run.config,
            "registry": run.registry,
        }
        for i in range(n):
            draw = random.Random(f"{seed}-{i}")
            kind = list(kinds)[i % len(kinds)]
            counts[kind] += 1
            try:
                message = kinds[kind](draw)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
            if message is not None:
                missed.append(f"{kind}, mutation {i} of seed {seed}: {message[:300]}")
    return counts, missed


def main() -> int:
    """Run a campaign; return exit code 1 if a mutation was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, missed = campaign(arguments.n, arguments.seed)
    for line in missed:
        print(escape_for_terminal(line))
    shown = ", ".join(f"{count} of {kind}" for kind, count in counts.items())
    print(f"{sum(counts.values())} mutations ({shown}): {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
