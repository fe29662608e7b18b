"""Output of `isotropy measure`: a table or JSON on the terminal, CSV, Parquet, a record."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotropy.console import plain_console
from isotropy.errors import IsotropyError
from isotropy.files import atomic, files_below, sha256_file
from isotropy.printable import escape_for_terminal
from isotropy.scrub import scrub

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from isotropy.measurement.run import Measurement

Row = Mapping[str, Any]
RECORD_VERSION = 1
KEYS = ("input", "layer", "n", "d")
FACTS = (*KEYS, "columns", "transform")
"""Columns that are not scores."""


def show(result: Measurement, *, as_json: bool) -> None:
    """Print a table and notes, or JSON."""
    if as_json:
        sys.stdout.write(to_json(result))
    else:
        print_table(result.rows, result.notes)


def write(result: Measurement, *, csv: Path | None, parquet: Path | None) -> None:
    """Write the rows to the files that are asked for."""
    if csv:
        write_csv(csv, result.rows)
    if parquet:
        write_parquet(parquet, result.rows)


def print_table(rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print a row per layer, a second table if transforms were compared, and notes. Columns that do
    not fit the width of the terminal follow in further tables.
    """
    console = plain_console()
    several = len({row["input"] for row in rows}) > 1
    keys = [key for key in KEYS if key != "input" or several]
    layers = [row for row in rows if row.get("transform", "none") == "none"]
    compared = ("transform", "isoscore", "isoscore_error", "log10_isotropy_matched")
    apart = (*FACTS, "log10_isotropy_matched")  # a note says the columns
    values = [name for name in columns(layers) if name not in apart]
    _print_columns(console, layers, [k for k in keys if k in columns(layers)], values)
    if len(layers) < len(rows):
        keys = [key for key in keys if key in columns(rows) and key not in ("n", "d")]
        _print_columns(console, rows, keys, list(compared))
    for note in notes:
        console.print(escape_for_terminal(note), style="dim", soft_wrap=True)


def _print_columns(
    console: Console, rows: Sequence[Row], keys: Sequence[str], values: Sequence[str]
) -> None:
    """Print tables of as many columns as fit the terminal, each with the key columns."""
    from rich.table import Table

    cells = {
        name: [escape_for_terminal(_format_value(row.get(name))) for row in rows]
        for name in [*keys, *values]
    }
    width = {name: 2 + max(map(len, [*texts, *name.split("_")])) for name, texts in cells.items()}
    remaining = list(values)
    while remaining:
        names, used = [*keys], sum(width[key] for key in keys)
        while remaining and (
            len(names) == len(keys) or used + width[remaining[0]] <= console.width
        ):
            used += width[remaining[0]]
            names.append(remaining.pop(0))
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for name in names:
            text = all(isinstance(row.get(name), str) for row in rows)
            heading = name.replace("_", " ")
            table.add_column(heading, justify="left" if text else "right", width=width[name] - 2)
        for i in range(len(rows)):
            table.add_row(*(cells[name][i] for name in names))
        console.print(table)


def columns(rows: Sequence[Row]) -> list[str]:
    """Names of all columns that are not empty in every row, in order of first appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if any(row.get(name, "") != "" for row in rows)]


def _format_value(value: Any) -> str:
    """Format a value for the terminal."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def to_json(result: Measurement) -> str:
    """Rows with all digits, and notes; NaN is null."""
    names = columns(result.rows)
    rows = [{name: _finite_or_none(row.get(name)) for name in names} for row in result.rows]
    document = {"notes": result.notes, "rows": rows}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows with all digits; missing values are empty."""
    stream = io.StringIO(newline="")
    names = columns(rows)
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        values = {name: _finite_or_none(row.get(name)) for name in names}
        writer.writerow({name: "" if value is None else value for name, value in values.items()})
    write_text(path, stream.getvalue())


def to_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a data frame, with missing values where a row has no such column."""
    import pandas as pd

    names = columns(rows)
    return pd.DataFrame([{name: row.get(name) for name in names} for row in rows])


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a Parquet table."""
    table = to_frame(rows)
    if "layer" in table:
        table["layer"] = table["layer"].astype(str)
    with atomic(path) as temporary:
        table.to_parquet(temporary, index=False)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, "utf8")


def write_record(path: Path, options: Mapping[str, Any], result: Measurement) -> None:
    """Write the record of a measurement: arguments, digests of the inputs, environment, and rows.

    Args:
        path: where to write it.
        options: the arguments of the command.
        result: what was measured.
    """
    from importlib.metadata import distributions

    files = {
        str(file): {"sha256": sha256_file(file), "bytes": file.stat().st_size}
        for source in result.read
        for file in _list_files(source)
    }
    record = {
        "version": RECORD_VERSION,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "options": options,
        "inputs": files,
        "models": result.models,
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {d.metadata["Name"]: d.version for d in distributions()},
        },
        "result": json.loads(to_json(result)),
    }
    text = json.dumps(scrub(record), indent=1, sort_keys=True, ensure_ascii=False, default=str)
    write_text(path, text + "\n")


def _list_files(path: Path) -> list[Path]:
    """Files of an input to digest; in a hub's cache they are symbolic links."""
    if path.is_file():
        return [path]
    if "snapshots" in path.parts:
        return sorted(file for file in path.rglob("*") if file.is_file())
    return files_below(path)


def require_writable(paths: Sequence[Path]) -> None:
    """Fail before hours of work if an output file could not be written.

    Raises:
        IsotropyError: a path whose folder does not exist, or that is itself a folder.
    """
    for path in paths:
        if not path.parent.is_dir():
            raise IsotropyError(f"{path}: no such folder {path.parent}: make it first")
        if path.is_dir():
            raise IsotropyError(f"{path}: expected the name of a file, got a folder")
        probe = path.with_name(f".{path.name}.probe")
        probe.touch()
        probe.unlink()
