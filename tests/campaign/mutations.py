"""Random mutations of a configuration, a registry, records, a ledger and a bundle, in this process.

python -m tests.campaign.mutations [--n 5000] [--seed 0]

A mutation puts something else in the place of a value, anywhere, or takes it away. What may come of
it: a finding, or an error that is one sentence. Missed is an audit that says that all is well, and
any other exception, which a user would see as a traceback.
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
from isotropy.provenance.verify_bundle import METADATA, NO_ZIP, verify
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
    """A value with one change in it, and what was changed, in words."""

    value: Any
    said: str


def mutate(value: Any, draw: random.Random) -> Mutation:
    """Change one place of a JSON value, drawn from all of its places."""
    changed = copy.deepcopy(value)
    places = list(_places(changed))
    if not places:
        return Mutation(draw.choice(HOSTILE), "the whole")
    holder, key = draw.choice(places)
    how = draw.choice(["replace", "replace", "remove", "nest", "swap type", "add"])
    if how == "remove":
        del holder[key]
    elif how == "nest":
        nested: Any = holder[key]
        for _ in range(draw.choice([1, 3, 2000])):
            nested = [nested]
        holder[key] = nested
    elif how == "swap type":
        holder[key] = str(holder[key]) if not isinstance(holder[key], str) else [holder[key]]
    elif how == "add" and isinstance(holder, dict):
        holder[str(draw.choice(HOSTILE))[:400]] = draw.choice(HOSTILE)
    else:
        holder[key] = copy.deepcopy(draw.choice(HOSTILE))
    return Mutation(changed, f"{how} at {str(key)[:40]!r}")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a value: what holds it, and its key."""
    if not isinstance(value, dict | list):
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key])


class Run:
    """A small finished run, its bundle, and ways to put a mutation in."""

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
        """A record: the audit must name it."""
        path = self.folder / "results" / draw.choice(["note", "source"])
        path = path.with_suffix(".record.json")
        return self._audited(path, path.read_bytes(), draw)

    def entry(self, draw: random.Random) -> str | None:
        """A line of the ledger, with the lines after it made to follow on: only what it says is
        wrong.
        """
        path = self.folder / "results" / LEDGER
        lines = path.read_bytes().splitlines()
        i = draw.randrange(len(lines))
        changed, said = mutate(json.loads(lines[i]), draw)
        if changed == json.loads(lines[i]):
            return None
        lines[i] = _text(changed).encode("utf8", "surrogatepass").replace(b"\n", b" ")
        for k in range(i + 1, len(lines)):
            entry = json.loads(lines[k]) | {"previous": line_sha256(lines[k - 1])}
            lines[k] = json.dumps(entry, separators=(",", ":")).encode()
        quiet = said.endswith(("'time'", "'n'")) or "add at" in said
        with _instead(path, b"\n".join([*lines, b""])):
            return self._found(said, may_be_quiet=quiet)

    def bundle(self, draw: random.Random) -> str | None:
        """A member of the bundle that is JSON."""
        source, target = self.folder / "bundle.zip", self.folder / "changed.zip"
        victims = [METADATA, "results/note.record.json", "results/source.record.json"]
        victim = draw.choice(victims)
        with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
            value = json.loads(before.read(victim))
            changed, said = mutate(value, draw)
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
        except (OSError, *UNREADABLE, *NO_ZIP):
            return None  # exit code 2, in one line
        # Descriptions in the bundle's list are the exporter's words, and not checked.
        quiet = victim == METADATA and _digests(changed) == _digests(value)
        return None if findings or quiet else f"{victim}: {said}: not found"

    def config(self, draw: random.Random) -> str | None:
        """The default study's configuration."""
        changed, said = mutate(self.configuration, draw)
        if not isinstance(changed, dict):
            return None
        return _one_sentence(lambda: load_study(changed, PROJECT), said)

    def registry(self, draw: random.Random) -> str | None:
        """A file of the registry."""
        folder = self.folder / "sources"
        folder.mkdir(exist_ok=True)
        victim = draw.choice(list(self.registries))
        changed, said = mutate(self.registries[victim], draw)
        try:
            text = yaml.safe_dump(changed)
        except (RecursionError, yaml.YAMLError, UnicodeError):
            return None
        for name, value in self.registries.items():
            (folder / name).write_text(
                text if name == victim else yaml.safe_dump(value), "utf8", "surrogatepass"
            )
        return _one_sentence(lambda: load_registry(folder), f"{victim}: {said}")

    def _audited(self, path: Path, data: bytes, draw: random.Random) -> str | None:
        value = json.loads(data)
        changed, said = mutate(value, draw)
        if changed == value:
            return None
        with _instead(path, _text(changed).encode("utf8", "surrogatepass")):
            return self._found(f"{path.name}: {said}")

    def _found(self, said: str, *, may_be_quiet: bool = False) -> str | None:
        """What was missed: an audit without a finding."""
        try:
            findings = verify_all(self.folder, self.checkout, threads=1)
        except IsotropyError:
            return None
        escape_for_terminal(" ".join(f"{f.path} {f.detail}" for f in findings)).encode()
        bad = [f for f in findings if f.state not in GOOD]
        return None if bad or may_be_quiet else f"{said}: not found"


def _digests(listed: Any) -> Any:
    """Files in the list of a bundle, with their digests; the whole where it is no such list."""
    try:
        return {(e["@id"], e["sha256"]) for e in listed["@graph"] if "sha256" in e and "@id" in e}
    except (TypeError, KeyError):
        return listed


def _one_sentence(load: Callable[[], object], said: str) -> str | None:
    try:
        load()
    except IsotropyError as error:
        return f"{said}: several lines: {error}" if "\n" in str(error) else None
    return None


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[" * 5000


@contextlib.contextmanager
def _instead(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def campaign(n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Mutate; returns the counts by kind, and what was missed."""
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
                found = kinds[kind](draw)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            if found is not None:
                missed.append(f"{kind}, mutation {i} of seed {seed}: {found[:300]}")
    return counts, missed


def main() -> int:
    """Exit code 1: something was missed."""
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
