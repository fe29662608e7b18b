"""The graph of a run's records: which record lists a file, and what lies upstream of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS
from replication.provenance.format import producer
from replication.provenance.identity import digests
from replication.provenance.record import OtherFormat, Record, read_record

Owner = TypeVar("Owner")
Key = TypeVar("Key")
Value = TypeVar("Value")


def cached_method(method: Callable[[Owner, Key], Value]) -> Callable[[Owner, Key], Value]:
    """Cache the results of a method with one argument in its object, and for as long as it."""

    @wraps(method)
    def cached(owner: Owner, key: Key) -> Value:
        results = owner.__dict__.setdefault(f"results of {method.__name__}", {})
        if key not in results:
            results[key] = method(owner, key)
        value: Value = results[key]
        return value

    return cached


class RecordGraph:
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

    @cached_method
    def record(self, name: str) -> Record | None:
        """Read a record by name; None if it does not exist or cannot be read."""
        try:
            return read_record(self.root / name) if self._is_file(name) else None
        except OtherFormat as error:
            self.other_format[name] = str(error)
        except IsotropyError as error:
            self.unreadable[name] = str(error)
        return None

    @cached_method
    def identity(self, name: str) -> str | None:
        """Return the identity of a record; None if it does not exist or cannot be read."""
        record = self.record(name)
        return None if record is None else record.identity()

    @cached_method
    def producer(self, path: str) -> str | None:
        """Return the name of the record that lists a file, or a folder of listed files; None if
        there is none.
        """
        name = producer(path, self._is_file)
        return name if name is not None and path in self._listed(name) else None

    def record_of(self, path: str) -> Record | None:
        """Return the record that lists a file, or a folder of listed files; None if there is
        none.
        """
        name = self.producer(path)
        return None if name is None else self.record(name)

    @cached_method
    def written(self, name: str) -> dict[str, str]:
        """Return the outputs that a record lists: path -> SHA-256. Empty without a record."""
        record = self.record(name)
        return {} if record is None else digests(record.outputs)

    @cached_method
    def _listed(self, name: str) -> set[str]:
        """Return the outputs that a record lists, and the folders that contain them."""
        files = self.written(name)
        return {*files, *(p.as_posix() for f in files for p in PurePosixPath(f).parents)}

    def names(self, folder: Path = RESULTS) -> list[str]:
        """List the names of all records below a folder, sorted; hidden ones are left out."""
        files = (p.relative_to(self.root) for p in (self.root / folder).rglob("*" + RECORD_SUFFIX))
        return sorted(
            p.as_posix() for p in files if not any(part.startswith(".") for part in p.parts)
        )

    def records(self) -> dict[str, Record]:
        """Read all records, by name; those that cannot be read are left out."""
        records = ((name, self.record(name)) for name in self.names())
        return {name: record for name, record in records if record is not None}

    def inputs(self, record: Record, keys: dict[str, Any]) -> list[str]:
        """List the files that a job read, but those whose job's spec has other values for `keys`:
        they belong to other rows of a table.
        """
        makers = ((file.path, self.record_of(file.path)) for file in record.inputs)
        return [
            path
            for path, maker in makers
            if maker is None or all(maker.spec.get(k, v) == v for k, v in keys.items())
        ]

    def below(self, names: list[str], *, upstream: bool = True) -> dict[str, Record]:
        """Collect records and (`upstream`) all records upstream of them, through their inputs down
        to the sources; records that cannot be read are left out.
        """
        collected: dict[str, Record] = {}
        waiting = list(reversed(names))
        while waiting:
            name = waiting.pop()
            record = self.record(name)
            if name not in collected and record is not None:
                collected[name] = record
                waiting += reversed(list(record.input_records)) if upstream else []
        return collected

    @cached_method
    def _is_file(self, name: str) -> bool:
        try:
            return (self.root / name).is_file()
        except OSError:
            return False


def stem_of(name: str) -> str:
    """Return the stem of a result below `results/`, from the name of its record."""
    return Path(name).relative_to(RESULTS).as_posix().removesuffix(RECORD_SUFFIX)
