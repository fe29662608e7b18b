"""The chain: the records of a run, and which of them lists a file."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS
from isotropy.provenance.format import producer
from isotropy.provenance.identity import digests
from isotropy.provenance.record import OtherFormat, Record, read_record


class Chain:
    """Records of a run, each read once.

    Attributes:
        root: the folder of the run, to which all names are relative.
        unreadable: records that are not, with the reason.
        other_format: records that another layout of the project wrote, with what to say of them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.unreadable: dict[str, str] = {}
        self.other_format: dict[str, str] = {}
        self._records: dict[str, Record | None] = {}
        self._exists: dict[str, bool] = {}
        self._written: dict[str, dict[str, str]] = {}
        self._listed: dict[str, set[str]] = {}
        self._producers: dict[str, str | None] = {}
        self._identities: dict[str, str | None] = {}

    def record(self, name: str) -> Record | None:
        """A record, or None if there is none that can be read."""
        if name not in self._records:
            self._records[name] = None
            if self._is_file(name):
                try:
                    self._records[name] = read_record(self.root / name)
                except OtherFormat as error:
                    self.other_format[name] = str(error)
                except IsotropyError as error:
                    self.unreadable[name] = str(error)
        return self._records[name]

    def identity(self, name: str) -> str | None:
        """Identity of a record, or None if there is none that can be read."""
        if name not in self._identities:
            record = self.record(name)
            self._identities[name] = None if record is None else record.identity()
        return self._identities[name]

    def producer(self, path: str) -> str | None:
        """Name of the record that lists a file, or the folder that a job wrote whole; None if
        there is none.
        """
        if path not in self._producers:
            self._producers[path] = self._find_producer(path)
        return self._producers[path]

    def _find_producer(self, path: str) -> str | None:
        name = producer(path, self._is_file)
        record = None if name is None else self.record(name)
        if name is None or record is None:
            return None
        if name not in self._listed:
            files = self.written(name)
            self._listed[name] = files.keys() | {
                p.as_posix() for f in files for p in PurePosixPath(f).parents
            }
        return name if path in self._listed[name] else None

    def written(self, name: str) -> dict[str, str]:
        """What a record says that its job wrote: path -> SHA-256. Empty without a record."""
        if name not in self._written:
            record = self.record(name)
            self._written[name] = {} if record is None else digests(record.outputs)
        return self._written[name]

    def names(self, folder: Path = RESULTS) -> list[str]:
        """Names of all records below a folder, sorted."""
        found = (self.root / folder).rglob("*" + RECORD_SUFFIX)
        return sorted(
            p.relative_to(self.root).as_posix()
            for p in found
            if not _hidden(p.relative_to(self.root))
        )

    def below(self, names: list[str]) -> dict[str, Record]:
        """Records and all that they stand on, through their inputs to the sources; what cannot be
        read is left out.
        """
        found: dict[str, Record] = {}
        waiting = list(reversed(names))
        while waiting:
            name = waiting.pop()
            record = self.record(name)
            if name not in found and record is not None:
                found[name] = record
                waiting += reversed(list(record.input_records))
        return found

    def _is_file(self, name: str) -> bool:
        if name not in self._exists:
            try:
                self._exists[name] = (self.root / name).is_file()
            except OSError:
                self._exists[name] = False
        return self._exists[name]


def stem_of(name: str) -> str:
    """Stem of a result below `results/`, from the name of its record."""
    return Path(name).relative_to(RESULTS).as_posix().removesuffix(RECORD_SUFFIX)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
