"""Identify: which record a stray file belongs to, and whether the file is still what was
written.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.provenance.chain import Chain
from isotropy.provenance.identity import MARK


class Identity(NamedTuple):
    """What a file is."""

    record: str
    """Name of its record."""
    path: str | None
    """The output that it is, byte by byte; None: it is none of them."""
    outputs: list[str]
    """Outputs that it can be a changed copy of: those with its suffix."""


def mark_in(path: Path) -> str | None:
    """The id of the record that a file carries inside; None if it carries none.

    PNG, PDF, SVG, HTML, Markdown, Parquet and safetensors all hold it as plain text.
    """
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.search(MARK.encode() + rb"([0-9a-f]{64})", data)
        return found[1].decode() if found else None


def identify(root: Path, file: Path) -> Identity:
    """Find the record of a file, however it is called and wherever it lies: by its digest, or by
    the id that it carries.

    Args:
        root: the folder of the run whose records are searched.
        file: the file.

    Raises:
        IsotropyError: there is no such file, or no record in the run lists it.
    """
    if not file.is_file():
        raise IsotropyError(f"{file} is not a file")
    sha256, mark = sha256_file(file), mark_in(file)
    chain = Chain(root)
    if not chain.names():
        raise IsotropyError(f"{root} has no records: give --root the folder of a run")
    marked = None
    for name in chain.names():
        record = chain.record(name)
        if record is None:
            continue
        if path := next((f.path for f in record.outputs if f.sha256 == sha256), None):
            return Identity(name, path, [])
        if record.id == mark:
            suffix = "".join(file.suffixes[-1:])
            marked = Identity(
                name, None, [f.path for f in record.outputs if f.path.endswith(suffix)]
            )
    if marked is not None:
        return marked
    for reason in chain.other_format.values():
        raise IsotropyError(reason)
    if mark is not None:
        raise IsotropyError(
            f"{file} carries the id {mark}, of which {root} has no record: it comes from another "
            "run"
        )
    raise IsotropyError(f"{file} carries no id, and no record in {root} has its digest")
