"""Invalid input of `isotropy measure`: a one-line error, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from replication.cli import app
from tests.unit.tiny_models import changed_config, sentences, write_tiny_bert

X = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
GLOVE = "".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(X))
Case = tuple[str, Callable[[], object], str]


def with_value(value: float) -> np.ndarray:
    other = X.copy()
    other[6, 2] = value
    return other


def save(array: np.ndarray, name: str = "x.npy") -> None:
    np.save(name, array, allow_pickle=True)


def text(name: str, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(data)


def table(**columns: object) -> None:
    pq.write_table(pa.table(columns), "x.parquet")


def truncated_file(name: str) -> None:
    """Write the first half of a valid file."""
    save(X)
    save_file({"x": X}, "x.safetensors")
    pd.DataFrame(X).rename(columns=str).to_parquet("x.parquet")
    data = Path(name).read_bytes()
    Path(name).write_bytes(data[: len(data) // 2])


def folder(change: Callable[[Path], object], safe: bool = True) -> Callable[[], object]:
    """Return a function that writes the tiny model and changes it."""

    def write() -> None:
        write_tiny_bert(Path("model"), safe=safe)
        change(Path("model"))

    return write


def pooled(mode: str) -> Callable[[Path], object]:
    """Return a function that adds a sentence-transformers pooling mode to a model."""

    def change(model: Path) -> None:
        kinds = {"Transformer": "", "Pooling": "1_Pooling"}
        modules = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(kinds.items())
        ]
        (model / "modules.json").write_text(json.dumps(modules))
        (model / "1_Pooling").mkdir()
        settings = {"pooling_mode": mode, "embedding_dimension": 16}
        (model / "1_Pooling/config.json").write_text(json.dumps(settings))

    return change


def nothing(_: Path) -> None:
    pass


FILES: list[Case] = [
    ("absent.npy", lambda: None, "absent.npy: no such file"),
    ("x.npy", lambda: text("x.npy", ""), "the file is empty"),
    ("x.npy", lambda: text("x.npy", "no array"), "not readable as .npy"),
    ("x.npy", lambda: truncated_file("x.npy"), "not readable as .npy"),
    ("x.npy", lambda: save(np.array([{"a": 1}, None])), "holds Python objects"),
    ("x.npy", lambda: save(X.astype(object)), "holds Python objects"),
    ("x.npy", lambda: save(np.array([["a", "b"]] * 3)), "expected real numbers, got <U1"),
    ("x.npy", lambda: save(X + 1j), "expected real numbers, got complex"),
    ("x.npy", lambda: save(X[0]), "expected an array of shape (n, d), got (4,)"),
    ("x.npy", lambda: save(X[None, None]), "expected an array of shape (n, d)"),
    ("x.npy", lambda: save(X[:1]), "at least 2 rows and 2 dimensions, got 1 and 4"),
    ("x.npy", lambda: save(X[:, :1]), "at least 2 rows and 2 dimensions, got 40 and 1"),
    ("x.npy", lambda: save(X[:0]), "at least 2 rows"),
    ("x.npy", lambda: save(with_value(np.nan)), "row 7 holds NaN or infinity"),
    ("x.npy", lambda: save(with_value(-np.inf)), "row 7 holds NaN or infinity"),
    ("x.npy --metrics isoscore", lambda: save(np.ones((9, 3))), "isoscore: all points are equal"),
    ("x.npy --layers 3", lambda: save(X), "there is one array: leave --layers out"),
    ("x.npy --layers 2", lambda: save(np.stack([X, X])), "--layers 2: expected 0 to 1"),
    ("x.npy --texts t.txt", lambda: (save(X), text("t.txt", "a\nb\n")), "--texts is for models"),
    ("x.npy --pooling mean", lambda: save(X), "--pooling is for models"),
    ("x.npz", lambda: np.savez("x.npz", a=X[0]), "of shape (n, d), got a: (4,)"),
    ("x.pt", lambda: text("x.pt", "x"), "may hold pickled code, which is never run"),
    ("x.bin", lambda: text("x.bin", "x"), "may hold pickled code, which is never run"),
    ("x.pkl", lambda: text("x.pkl", "x"), "may hold pickled code, which is never run"),
    ("x.h5", lambda: text("x.h5", "x"), "got .h5"),
    ("x.safetensors", lambda: text("x.safetensors", "{}"), "not readable as .safetensors"),
    ("x.safetensors", lambda: truncated_file("x.safetensors"), "not readable as .safetensors"),
    ("x.safetensors", lambda: save_file({"b": X[0]}, "x.safetensors"), "of shape (n, d)"),
    (
        "x.safetensors --layers vectros",
        lambda: save_file({"vectors": X, "other": X}, "x.safetensors"),
        "no array 'vectros'; did you mean 'vectors'?",
    ),
    ("x.parquet", lambda: text("x.parquet", "PAR1"), "not readable as .parquet"),
    ("x.parquet", lambda: truncated_file("x.parquet"), "not readable as .parquet"),
    (
        "x.parquet",
        lambda: table(a=["b", "c"]),
        "it is not clear which columns are dimensions",
    ),
    (
        "x.parquet --columns a",
        lambda: table(a=[1.0, 2.0]),
        "at least 2 rows and 2 dimensions, got 2 and 1",
    ),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], [1.0]]), "row 2: expected 2 numbers as in row 1"),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], None]), "row 2: expected 2 numbers as in row 1"),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], [3.0, None]]), "row 2 holds NaN"),
    (
        "x.txt",
        lambda: text("x.txt", GLOVE + "word 1 2\n"),
        "line 41: expected a word and 4 numbers",
    ),
    ("x.txt", lambda: text("x.txt", GLOVE + "w 1 2 x 4\n"), "line 41: expected a number, got 'x'"),
    ("x.txt", lambda: text("x.txt", "ten letter"), "line 1: expected a word and 2 numbers"),
    ("x.txt", lambda: text("x.txt", GLOVE + "w nan 1 2 3\n"), "row 41 holds NaN"),
    ("x.txt", lambda: text("x.txt", b"\xff\xfe" + GLOVE.encode()), "expected UTF-8"),
    ("x.txt", lambda: text("x.txt", "5 4\n"), "promises 5 vectors, the file has 0"),
    ("x.txt", lambda: text("x.txt", " \n\n"), "the file has only blank lines"),
    ("x.txt", lambda: text("x.txt", "40 3\n" + GLOVE), "lines have at least 4 numbers"),
    ("x.txt", lambda: text("x.txt", "90 4\n" + GLOVE), "promises 90 vectors, the file has 40"),
    ("x.txt", lambda: text("x.txt", "9 4\n" + GLOVE), "promises 9 vectors, the file has 40"),
    ("x.txt", lambda: text("x.txt", "90 4\n" + GLOVE[:-6]), "promises 90 vectors"),
    ("x.txt", lambda: text("x.txt", "1 2 3\n4 5\n6 7 8\n"), "line 2: expected 3 numbers"),
    ("x.txt", lambda: text("x.txt", "1 2 3\n" * 5000 + "a 5 6\n"), "line 5001: expected a number"),
    ("x.txt", lambda: text("x.txt", gzip.compress(GLOVE.encode())), "expected UTF-8"),
]

OPTIONS: list[Case] = [
    ("x.npy --metrics isoscor", lambda: save(X), "no metric 'isoscor'; did you mean 'isoscore'?"),
    ("x.npy --metrics silhouette", lambda: save(X), "--metrics silhouette needs --labels"),
    ("x.npy --sample 1", lambda: save(X), "--sample: expected 3 or more, got 1"),
    ("x.npy --seed -1", lambda: save(X), "--seed: expected 0 or more, got -1"),
    ("x.npy --transforms --clusters 0", lambda: save(X), "--clusters: expected 1 or more"),
    ("x.npy --transforms --clusters 99", lambda: save(X), "number of points, 40, got 99"),
    ("x.npy --transforms --components 9", lambda: save(X), "n_components must lie between 0 and"),
    ("x.npy --save-transform t.pkl", lambda: save(X), "expected a .safetensors, got t.pkl"),
    (
        "x.npy --save-transform t.safetensors",
        lambda: save(np.stack([X, X])),
        "name one layer of one input",
    ),
    ("x.npy --csv absent/o.csv", lambda: save(X), "no such folder absent: make it first"),
    ("x.npy --csv .", lambda: save(X), "expected the name of a file, got a folder"),
    ("x.npy --labels absent.csv", lambda: save(X), "no such file; give FILE or FILE:FIELD"),
    ("x.npy --labels y.txt", lambda: (save(X), text("y.txt", "a\nb\n")), "y.txt has 2 rows"),
    ("x.npy --labels y.txt", lambda: (save(X), text("y.txt", "")), "the file is empty"),
    ("x.npy --labels y.txt", lambda: (save(X), text("y.txt", "a\n" * 40)), "all labels are equal"),
    ("x.npy --labels y.txt", lambda: (save(X), text("y.txt", "a\n\n" * 20)), "labels 2 is missing"),
    (
        "x.npy --labels y.csv:lable",
        lambda: (save(X), text("y.csv", "label,text\n1,a\n")),
        "no field 'lable'; did you mean 'label'?",
    ),
    (
        "x.npy --labels y.csv:label",
        lambda: (save(X), text("y.csv", "label,text\n1,a\n2\n")),
        "y.csv, line 3: expected 2 fields, got 1",
    ),
    (
        "x.npy --labels y.jsonl:label",
        lambda: (save(X), text("y.jsonl", '{"label": 1}\n{"label": [1]}\n')),
        "labels 2: expected a number or a text, got [1]",
    ),
    ("x.npy --labels y.xls", lambda: (save(X), text("y.xls", "a")), "expected one of .txt, .jsonl"),
]

LINES = "\n".join(sentences(12)) + "\n"

MODELS: list[Case] = [
    ("model", folder(nothing), "a model needs texts to embed"),
    ("model --texts absent.txt", folder(nothing), "absent.txt: no such file"),
    ("model --texts t.txt", lambda: Path("model").mkdir(), "a folder without config.json"),
    ("absent --texts t.txt", lambda: None, "absent: no such file or folder"),
    (
        "model --texts t.txt",
        folder(lambda model: (model / "model.safetensors").unlink()),
        "no weights (model.safetensors)",
    ),
    ("model --texts t.txt", folder(nothing, safe=False), "its weights are pickled"),
    (
        "model --texts t.txt",
        folder(lambda model: (model / "model.safetensors").write_bytes(b"\x10" * 60)),
        "the model cannot be read",
    ),
    ("model --texts t.txt", folder(changed_config(hidden_size=20)), "do not fit config.json"),
    ("model --texts t.txt", folder(pooled("median")), "Invalid pooling mode: 'median'"),
    (
        "model --texts t.txt",
        folder(lambda model: (model / "tokenizer.json").unlink()),
        "no tokenizer",
    ),
    ("model --texts t.txt --layers 99", folder(nothing), "--layers: expected 0 to 2, got 99"),
    ("model --texts t.txt --layers last", folder(nothing), "expected 0 to 2, or all, got 'last'"),
    ("model --texts t.txt --pooling max", folder(nothing), "--pooling: expected mean, cls, last"),
    ("model --texts e.txt:a", folder(lambda _: text("e.txt", "a\nb")), "have no field 'a'"),
    (
        "model --texts e.jsonl",
        folder(lambda _: text("e.jsonl", '{"text": "a"}\n["b"]\n')),
        "e.jsonl, line 2: expected an object with fields",
    ),
    (
        "model --texts t.txt --labels y.txt",
        folder(lambda _: text("y.txt", "a\nb\n")),
        "y.txt has 2 rows, the input has 12",
    ),
]


@pytest.mark.parametrize(
    ("command", "write", "sentence"),
    FILES + OPTIONS + MODELS,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_input_gives_one_line(
    command: str,
    write: Callable[[], object],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text("t.txt", LINES)
    write()
    assert_refused(command, sentence, tmp_path)


def assert_refused(command: str, sentence: str, folder: Path) -> None:
    """Check that `isotropy measure` ends with one line, and leaves no file behind."""
    before = sorted(map(str, folder.rglob("*")))
    result = CliRunner().invoke(app, ["measure", *command.split()])
    assert result.exit_code == 2, repr(result.exception)
    assert sentence in result.output
    (line,) = result.output.strip().splitlines()
    assert "Traceback" not in line
    assert sorted(map(str, folder.rglob("*"))) == before


def test_full_disk_gives_one_line(tmp_path: Path) -> None:
    """A limit on file sizes keeps the layers of a model from being written."""
    write_tiny_bert(tmp_path / "model")
    text(str(tmp_path / "t.txt"), "\n".join(sentences(400)))
    done = subprocess.run(
        [sys.executable, "-m", "isotropy", "measure", "model", "--texts", "t.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "File too large" in done.stdout
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "t.txt"]


def test_markup_in_file_names_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich markup is printed literally, control characters as escapes."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["measure", "[red]\x1b[31m.npy"])
    assert result.exit_code == 2
    assert "[red]\\x1b[31m.npy: no such file" in result.output


def test_measuring_does_not_change_the_model_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_bert(Path("model"))
    copytree("model", "before")
    text("t.txt", LINES)
    assert CliRunner().invoke(app, ["measure", "model", "--texts", "t.txt"]).exit_code == 0
    for file in Path("before").iterdir():
        assert (Path("model") / file.name).read_bytes() == file.read_bytes()
