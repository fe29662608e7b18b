"""The chain of provenance: the records of a run, and the record that lists a file."""

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
        unreadable: names of records that cannot be read -> the reason.
        other_format: names of records with another format -> the message to report.
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
        """Read a record by name; None if it does not exist or cannot be read."""
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
        """Return the identity of a record; None if it does not exist or cannot be read."""
        if name not in self._identities:
            record = self.record(name)
            self._identities[name] = None if record is None else record.identity()
        return self._identities[name]

    def producer(self, path: str) -> str | None:
        """Return the name of the record that lists a file, or a folder of listed files; None if
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
        """Return the outputs that a record lists: path -> SHA-256. Empty without a record."""
        if name not in self._written:
            record = self.record(name)
            self._written[name] = {} if record is None else digests(record.outputs)
        return self._written[name]

    def names(self, folder: Path = RESULTS) -> list[str]:
        """List the names of all records below a folder, sorted."""
        files = (self.root / folder).rglob("*" + RECORD_SUFFIX)
        return sorted(
            p.relative_to(self.root).as_posix()
            for p in files
            if not _hidden(p.relative_to(self.root))
        )

    def below(self, names: list[str]) -> dict[str, Record]:
        """Collect records and all records upstream of them, through their inputs down to the
        sources; records that cannot be read are left out.
        """
        collected: dict[str, Record] = {}
        waiting = list(reversed(names))
        while waiting:
            name = waiting.pop()
            record = self.record(name)
            if name not in collected and record is not None:
                collected[name] = record
                waiting += reversed(list(record.input_records))
        return collected

    def _is_file(self, name: str) -> bool:
        if name not in self._exists:
            try:
                self._exists[name] = (self.root / name).is_file()
            except OSError:
                self._exists[name] = False
        return self._exists[name]


def stem_of(name: str) -> str:
    """Return the stem of a result below `results/`, from the name of its record."""
    return Path(name).relative_to(RESULTS).as_posix().removesuffix(RECORD_SUFFIX)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
