"""What the readers of files are given, and how they refuse a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from isotropy.errors import IsotropyError


class Input(NamedTuple):
    """A file to be read, and what the user says about it.

    Attributes:
        path: the file that is read: the user's own, or an unpacked copy.
        title: the file as the user has written it, for messages.
        work: a folder for temporary files.
        layers: names of the arrays that are asked for; None: all.
        columns: names or globs of a table's columns that are dimensions; None: 0, 1, 2, …
        groups: names of its columns that hold labels, types or sentences.
        separator: what stands between the fields of a table as text; None: what splits line 1.
    """

    path: Path
    title: str
    work: Path
    layers: list[str] | None = None
    columns: list[str] | None = None
    groups: frozenset[str] = frozenset()
    separator: str | None = None

    def new_file(self) -> Path:
        """Make an empty file in the folder for temporary files."""
        descriptor, name = tempfile.mkstemp(dir=self.work)
        os.close(descriptor)
        return Path(name)


def require_matrix(title: str, shape: tuple[int, ...]) -> None:
    """Refuse what is not a point cloud.

    Raises:
        IsotropyError: not (n, d), or fewer than two rows or dimensions.
    """
    if len(shape) != 2:
        raise IsotropyError(f"{title}: expected an array of shape (n, d), got {shape}")
    if shape[0] < 2 or shape[1] < 2:
        raise IsotropyError(
            f"{title}: expected at least 2 rows and 2 dimensions, got {shape[0]} and {shape[1]}"
        )
