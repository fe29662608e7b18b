"""Tables and arrays of `isotropy measure`: the dimensions that are read are those that were
written, every output says which they are, and what is unclear is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from isotropy.errors import IsotropyError
from isotropy.metrics import isoscore, silhouette
from isotropy.read.arrays import open_file
from replication.cli import app
from tests.unit.test_measure_errors import assert_refused

pytestmark = pytest.mark.usefixtures("in_empty_folder")
N = 60
X = np.random.default_rng(0).standard_normal((N, 3))
LABELS = np.arange(N) % 3
NAMED = pd.DataFrame(X, columns=["dim_0", "dim_1", "dim_2"])
XY = pd.DataFrame(X[:, :2], columns=["x", "y"])
LABELLED = XY.assign(label=LABELS * 1.0)
TEXTS = ["tea", "coffee"] * (N // 2)


def measure(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["measure", *map(str, arguments), "--metrics", "isoscore"])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def comma_text(*, header: bool = True, index: bool = False, **options: object) -> str:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return str(frame.to_csv(header=header, index=index, **options))  # type: ignore[call-overload]


def write_table(name: str, frame: pd.DataFrame | pa.Table | str) -> None:
    """Write a table in the format of a file's suffix."""
    if isinstance(frame, str):
        data = frame.encode()
        Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    elif isinstance(frame, pa.Table):
        pq.write_table(frame, name)
    elif name.endswith(".parquet"):
        frame.to_parquet(name)
    else:
        frame.to_csv(name, index=False, sep="\t" if ".tsv" in name else ",")


ALL = "dim_0…dim_2"
CSV, PARQUET = "x.csv --columns *", "x.parquet --columns dim_*"
READ: dict[str, tuple[str, object, str, str | None]] = {
    "labels": ("x.parquet --labels label --columns x,y", LABELLED, "x, y", "label"),
    "FILE:FIELD": ("x.csv --labels x.csv:label --columns x,y", LABELLED, "x, y", "label"),
    "types": ("x.tsv.gz --types word --columns dim_*", NAMED.assign(word=TEXTS), ALL, "word"),
    "booleans": (PARQUET, NAMED.assign(held_out=True), ALL, "held_out"),
    "dates": ("x.csv --columns dim_*", NAMED.assign(day="2026-01-02"), ALL, "day"),
    "index without pandas": (
        PARQUET,
        pa.table({**{n: NAMED[n] for n in NAMED}, "__index_level_0__": LABELS}),
        ALL,
        "__index_level_0__",
    ),
    "named index": (PARQUET, NAMED.set_index(pd.Index(LABELS, name="dim_9")), ALL, "dim_9"),
    "levels of an index": (
        PARQUET,
        NAMED.set_index(pd.MultiIndex.from_arrays([LABELS, LABELS], names=["i", "j"])),
        ALL,
        "i, j",
    ),
    "range index": (PARQUET, NAMED[::-1], ALL, ""),
    "an integer dimension": (PARQUET, NAMED.assign(dim_2=LABELS), ALL, ""),
    "a boolean dimension": (PARQUET, NAMED.assign(dim_2=LABELS > 1), ALL, ""),
    "decimal numbers": (
        "x.parquet --columns x,y",
        pa.table({n: pa.array(LABELS).cast(pa.decimal128(22, 1)) for n in "xy"}),
        "x, y",
        "",
    ),
    "named columns": (
        "x.parquet --columns dim_0,dim_2",
        NAMED.assign(score=1.0),
        "dim_0, dim_2",
        "dim_1, score",
    ),
    "a glob without labels": (f"{CSV} --labels label", LABELLED, "x, y", "label"),
    "all numbers": (CSV, XY.assign(z_score=1.5, word="a"), "x, y, z_score", "word"),
    "a column of lists": (
        "x.parquet --columns vector",
        pa.table({"id": LABELS, "vector": list(X)}),
        "vector",
        None,
    ),
    "pandas' array": ("x.csv", pd.DataFrame(X), "0…2", ""),
    "pandas' array and index": ("x.csv", str(pd.DataFrame(X).to_csv()), "0…2", "(no name)"),
    "no names": ("x.csv", comma_text(header=False), "0…2", ""),
    "names and index": (CSV, comma_text(index=True), "a, b, c", "(no name)"),
    "quoted fields": (CSV, comma_text(quoting=1), "a, b, c", ""),
    "byte order mark": (CSV, "\ufeff" + comma_text(), "a, b, c", ""),
    "carriage returns": (CSV, comma_text(lineterminator="\r\n"), "a, b, c", ""),
    "blanks after commas": (CSV, comma_text().replace(",", ", "), "a, b, c", ""),
    "a separator in names": (
        f"{CSV} --separator ;",
        comma_text(sep=";").replace("a;", '"a,b";', 1),
        "a,b, b, c",
        "",
    ),
    "a long text": (PARQUET, NAMED.assign(word="long " * 40_000), ALL, "word"),
}


@pytest.mark.parametrize("case", READ)
def test_every_output_says_which_columns_are_dimensions(case: str) -> None:
    command, frame, columns, left_out = READ[case]
    name, *options = command.split()
    write_table(name, frame)  # type: ignore[arg-type]
    outputs = ("--csv", "o.csv", "--parquet", "o.parquet", "--record", "o.json")
    document = json.loads(measure(name, *options, "--json", *outputs).stdout)
    (row,) = document["rows"]
    assert row["columns"] == columns
    assert row["n"] == N
    for shown in (document["notes"][0], " ".join(measure(name, *options).stdout.split())):
        if left_out is not None:
            assert f"{name}: dimensions are columns {columns}" in shown
            assert (f"; left out: {left_out}" in shown) == bool(left_out)
    assert pd.read_csv("o.csv", dtype=str)["columns"][0] == columns
    assert pd.read_parquet("o.parquet")["columns"][0] == columns
    assert json.loads(Path("o.json").read_text())["result"] == document
    if columns in ("a, b, c", "0…2"):
        assert row["isoscore"] == pytest.approx(isoscore(X), rel=1e-9)


@pytest.mark.parametrize(
    "command",
    ["x.parquet --labels label --columns x,y", "x.npy --labels y.npy", "x.npz --labels y"],
)
def test_labels_are_not_measured_with_the_vectors(command: str) -> None:
    """The silhouette of x and y, not the higher one of x, y and the label itself."""
    LABELLED.to_parquet("x.parquet")
    np.save("y.npy", LABELS)
    np.savez("x.npz", x=X[:, :2], y=LABELS.astype(str))
    np.save("x.npy", X[:, :2])
    arguments = ["measure", *command.split(), "--json", "--metrics", "silhouette"]
    (row,) = json.loads(CliRunner().invoke(app, arguments).stdout)["rows"]
    assert row["d"] == 2
    assert row["silhouette"] == pytest.approx(silhouette(X[:, :2], LABELS), rel=1e-9)


UNCLEAR, LINE_1, CLOSED = "not clear which columns", "line 1 may be", "quotation marks"
REFUSED: list[tuple[str, object, str]] = [
    ("x.parquet", LABELLED, UNCLEAR),
    ("x.parquet", NAMED, "dim_0: double"),
    ("x.csv", NAMED.assign(id=range(N)), UNCLEAR),
    ("x.csv", pd.DataFrame(X).assign(label=LABELS), UNCLEAR),
    ("x.csv", "0.5,0.25,1\n0.25,1.5,2\n0.5,1.5,1\n", UNCLEAR),
    ("x.csv", pd.DataFrame(X).assign(**{"3": "1,234.5"}), "3: string"),
    (CSV, "a,b,c\n1.5,2.5,3\n1,x,2\n1,3,2\n", "column 'b', got 'x'"),
    (CSV, NAMED.assign(dim_2=None), "'dim_2', got 'None'"),
    ("x.csv --columns dim_*", NAMED.assign(dim_2="1,5"), "got column 'dim_2'"),
    (CSV, "a,b\n1.5,2.5\n1,\n", "row 2 holds NaN"),
    (CSV, "a,b\n1.5,2.5\n1,inf\n", "row 2 holds NaN"),
    ("x.csv", "a,a\n1.5,2.5\n1,2\n", "'a' 2 times"),
    ("x.parquet", pa.Table.from_arrays([X[:, 0]] * 2, ["a", "a"]), "'a' 2 times"),
    ("x.csv", "0,1,2\n3,4,5\n6,7,8\n", LINE_1),
    ("x.csv", "a,1,2\n0.5,0.1,0.2\n0.1,0.2,0.3\n", LINE_1),
    (CSV, "a,b\n1,2\n3\n", "CSV parse error"),
    (CSV, "a,b\n1,2\n3,4,5\n", "CSV parse error"),
    (CSV, "a,b\n" + "1,2\n" * 2000 + "3,x\n", "type string"),
    ("x.csv", "a,b\n", "one line"),
    (CSV, "a,b\n1,2\n", "got 1 and 2"),
    ("x.csv", "a\n1\n2\n", "one column"),
    ("x.csv", "a;b,c\n1;2,5\n2;3,5\n", "with --separator"),
    ("x.csv --separator |", "a|b\n1|2\n", "--separator:"),
    ("x.csv --columns b", "a,b\nq,1\nr,2\n", "2 dimensions, got 1"),
    (CSV, "a,b\nq,r\nr,s\n", "2 dimensions, got 0"),
    ("x.csv", 'a,b,c\n1,2,"x\n3,4,y\n5,7,z\n', f"line 4: expected {CLOSED}"),
    ("x.tsv --quoting", 'w\tx\ty\n"a\t1.5\t2\n"b\t2.5\t1\n', CLOSED),
    ("x.tsv --columns *", '"x"\t"y"\n1.5\t2\n2.5\t1\n', "add it"),
    ("x.csv", "\n\n", "one column"),
    ("x.csv.gz", "", "empty"),
    ("x.parquet --columns dim", NAMED, "did you mean 'dim_"),
    (PARQUET, NAMED.assign(dim_x="a"), "column 'dim_x'"),
    ("x.parquet --columns x,y,label --labels label", LABELLED, "cannot be a dimension"),
    ("x.parquet --columns ,", NAMED, "names or globs"),
    ("x.parquet --labels lable", LABELLED, "did you mean 'label'"),
    ("x.parquet", pa.table({"ids": [[1, 2]] * N, "x": X[:, 0], "y": X[:, 1]}), "lists of numbers"),
    ("x.parquet --columns v,x", pa.table({"v": [[1, 2]] * N, "x": X[:, 0]}), "both"),
]


@pytest.mark.parametrize(("command", "frame", "word"), REFUSED, ids=lambda value: "")
def test_unclear_tables_are_refused(command: str, frame: object, word: str) -> None:
    name, *options = command.split()
    write_table(name, frame)  # type: ignore[arg-type]
    (line,) = measure(name, *options, code=2).output.strip().splitlines()
    assert word in line


@pytest.mark.parametrize(
    ("command", "n", "note"),
    [
        ("x.tsv", N, None),
        ("x.tsv --quoting", N - 2, "span lines: 1"),
        ("x.csv", N - 2, "span lines: 1"),
        ("x.npy --labels x.csv:word", N - 2, "span lines: 1"),
        ("x.npy --labels q.tsv:word", N - 2, f"read with quoting: {N - 2}"),
    ],
)
def test_quotation_marks_that_lose_rows_are_counted(command: str, n: int, note: str | None) -> None:
    """Words of which two are quotation marks: in CSV, a field from the first to the second."""
    words = [f"w{i}" for i in range(N)]
    words[4] = words[6] = '"'
    lines = ["word,x,y,z", *(f"{w},{x},{y},{z}" for w, (x, y, z) in zip(words, X, strict=True))]
    Path("x.csv").write_text("\n".join(lines))
    Path("x.tsv").write_text("\n".join(lines).replace(",", "\t"))
    Path("q.tsv").write_text("word\tx\n" + '"a"\t1\n"b"\t2\n' * (N // 2 - 1))
    np.save("x.npy", X[: N - 2])
    columns = [] if "x.npy" in command else ["--columns", "x,y,z"]
    document = json.loads(measure(*command.split(), *columns, "--json").stdout)
    (row,) = document["rows"]
    rows = np.delete(X, [4, 5], axis=0) if n < N and columns else X[:n]
    assert row["n"] == n
    assert row["isoscore"] == pytest.approx(isoscore(rows), rel=1e-9)
    notes = [text for text in document["notes"] if "quotation marks" in text]
    assert [note in text for text in notes] == [True] * (note is not None)


def word2vec(vectors: np.ndarray, n: int | None = None, line_break: bytes = b"\n") -> bytes:
    """Vectors in word2vec's binary format; the words are not UTF-8."""
    rows = vectors.astype("<f4")
    words = [b"\xff%d " % i + row.tobytes() + line_break for i, row in enumerate(rows)]
    return b"%d %d\n" % (len(rows) if n is None else n, rows.shape[1]) + b"".join(words)


def archive(**arrays: object) -> Callable[[str], object]:
    return lambda _: np.savez("x.npz", **arrays)  # type: ignore[arg-type]


def content(data: bytes) -> Callable[[str], object]:
    return lambda name: Path(name).write_bytes(data)


def labels(values: np.ndarray) -> Callable[[str], object]:
    def write(name: str) -> None:
        np.save(name, X)
        np.save("y.npy", values, allow_pickle=True)

    return write


GZ = gzip.compress(comma_text().encode())
OBJECTS = np.array(["a", None], dtype=object)
BROKEN: list[tuple[str, Callable[[str], object], str]] = [
    ("x.npz", archive(x=X, y=OBJECTS), "--layers x"),
    ("x.npz --layers y", archive(x=X, y=OBJECTS), "Python objects"),
    ("x.npz --layers z", archive(x=X, y=X), "no array 'z'"),
    ("x.npz", archive(x=X[0], y=X[None]), "y: (1, 60, 3)"),
    ("x.npz", archive(), "got none"),
    ("x.npz", content(b"PK\3\4 no archive"), "not readable"),
    ("x.npz --labels y", archive(x=X, z=X[:9], y=LABELS), "the input has 9"),
    ("x.npz --columns a", archive(x=X), "--columns"),
    ("x.csv.gz", content(GZ[:-20]), "damaged"),
    ("x.csv.gz", content(comma_text().encode()), "damaged"),
    ("x.gz", content(GZ), "no suffix"),
    ("x.tar.gz", content(GZ), "got .tar"),
    ("x.bin", content(word2vec(X, 61)), "after 60 of 61"),
    ("x.bin", content(word2vec(X)[:-9]), "after 59 of 60"),
    ("x.bin", content(word2vec(X, 59)), "promises 59 vectors"),
    ("x.bin", content(b"60 2" + word2vec(X)[4:]), "goes on"),
    ("x.bin", content(b"\x80\x04pickle"), "pickled code"),
    ("x.bin", content(b""), "empty"),
    ("x.npy --labels y.npy", labels(LABELS[:9]), "the input has 60"),
    ("x.npy --labels y.npy", labels(OBJECTS), "never unpickled"),
    ("x.npy --labels y.npy", labels(X), "(n,), got float64"),
    ("x.npy --labels y.npy", labels(X[:, 0] * np.nan), "labels 1 is missing"),
    ("x.npy --labels y.npy:a", labels(LABELS), "no field 'a'"),
]


@pytest.mark.parametrize(("command", "write", "word"), BROKEN, ids=lambda value: "")
def test_broken_files_are_refused(command: str, write: Callable[[str], object], word: str) -> None:
    write(command.split()[0])
    assert_refused(f"{command} --metrics isoscore", word)


def test_arrays_of_an_archive_are_layers() -> None:
    """Each array (n, d) is a row by its name; others are left out, which a note says."""
    np.savez_compressed("x.npz", second=np.asfortranarray(X * [1, 2, 3]), first=X, y=LABELS)
    document = json.loads(measure("x.npz", "--json").stdout)
    assert [row["layer"] for row in document["rows"]] == ["first", "second"]
    assert document["rows"][1]["isoscore"] == pytest.approx(isoscore(X * [1, 2, 3]))
    assert document["notes"] == ["x.npz: arrays (n, d) are first, second; left out: y"]
    (row,) = json.loads(measure("x.npz", "--json", "--layers", "second").stdout)["rows"]
    assert row == document["rows"][1]


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.parquet"])
def test_arrays_that_are_not_asked_for_refuse_nothing(name: str) -> None:
    short, mask = np.ones((1, 3)), np.ones((N, 3), dtype=bool)
    if name == "x.npz":
        np.savez(name, x=X, short=short, mask=mask, objects=OBJECTS)
    elif name == "x.parquet":
        pq.write_table(pa.table({"x": list(X), "short": [[1.0]] * N}), name)
    else:
        arrays = {"x": X, "short": short, "mask": mask}
        tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
        save_file(tensors | {"float8": torch.ones(N, 3).to(torch.float8_e4m3fn)}, name)
    (row,) = json.loads(measure(name, "--layers", "x", "--json").stdout)["rows"]
    assert row["layer"] == "x"
    assert row["isoscore"] == pytest.approx(isoscore(X), rel=1e-9)


def write_random(name: str, values: np.ndarray, names: list[str] | None) -> None:
    """Write vectors in a format; names of columns where it has such."""
    frame = pd.DataFrame(values, columns=names)
    kind = name.removesuffix(".gz")
    separator = {"s.csv": ";", "x.tsv": "\t"}.get(kind, ",")
    words = [f"w{i}" for i in range(len(values))]
    if kind == "x.npy":
        np.save(kind, values)
    elif kind == "x.npz":
        np.savez(kind, x=values)
    elif kind == "x.parquet":
        frame.rename(columns=str).to_parquet(kind)
    elif kind == "l.parquet":
        pq.write_table(pa.table({"word": words, "vector": list(values)}), kind)
    elif kind == "x.bin":
        Path(kind).write_bytes(word2vec(values, line_break=b""))
    elif kind == "x.vec":
        lines = [" ".join([w, *map(repr, v)]) for w, v in zip(words, values.tolist(), strict=True)]
        Path(kind).write_text("\n".join([f"{len(values)} {values.shape[1]}", *lines, ""]))
    else:
        Path(kind).write_text(frame.to_csv(index=False, header=names is not None, sep=separator))
    if name.endswith(".gz"):
        Path(name).write_bytes(gzip.compress(Path(kind).read_bytes()))


KINDS = ("x.npy", "x.npz", "x.parquet", "l.parquet", "x.csv", "x.tsv", "s.csv", "x.vec", "x.bin")
VALUES = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([name + packed for name in KINDS for packed in ("", ".gz")]),
    st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
        lambda shape: st.lists(st.lists(VALUES, min_size=shape[1], max_size=shape[1]),
                               min_size=shape[0], max_size=shape[0])
    ),
    st.sampled_from(["x{}", "dim_{}", "{}", None]),
    st.booleans(),
)  # fmt: skip
def test_written_tables_are_read_or_refused(
    name: str, values: list[list[float]], template: str | None, whole: bool
) -> None:
    """Rows, dimensions and values are those that were written, whole numbers included."""
    written = np.array(values)
    written = np.round(written).astype(int) if whole else written
    n, d = written.shape
    write_random(name, written, template and [template.format(i) for i in range(d)])
    expected = written.astype(np.float32).tolist()
    is_text = ".csv" in name or ".tsv" in name
    possible = [expected if min(n, d) > 1 else "too small"]
    if is_text and template in ("{}", None):  # names may look like values, and the reverse
        possible.append("unclear")
    has_names = template not in ("{}", None)
    columns = ["*"] if has_names and (is_text or name.startswith("x.parquet")) else None
    assert read_values(name, columns) in possible


def read_values(name: str, columns: list[str] | None) -> object:
    """Values of a file, or in a word why it is refused."""
    try:
        (cloud,) = open_file(Path(name), None, Path(), columns)
        read = np.concatenate(list(cloud.blocks()))
    except IsotropyError as error:
        return "unclear" if LINE_1 in str(error) or UNCLEAR in str(error) else "too small"
    assert (cloud.n, cloud.d) == read.shape
    return read.astype(np.float32).tolist()
