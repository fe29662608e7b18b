"""Invalid input of `isotropy measure`: a one-line error, exit code 2, nothing written."""

from __future__ import annotations

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


def with_infinity() -> np.ndarray:
    other = X.copy()
    other[6, 2] = -np.inf
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


def folder(change: Callable[[Path], object]) -> Callable[[], object]:
    """Return a function that writes the tiny model and changes it."""
    return lambda: change(write_tiny_bert(Path("model")))


def median_pooling(model: Path) -> None:
    """Add a pooling mode that sentence-transformers does not have."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "1_Pooling").mkdir()
    settings = {"pooling_mode": "median", "embedding_dimension": 16}
    (model / "1_Pooling/config.json").write_text(json.dumps(settings))


def nothing(*_: object) -> None:
    pass


FILES: list[Case] = [
    ("absent.npy", nothing, "no such file"),
    ("x.npy", lambda: text("x.npy", ""), "empty"),
    ("x.npy", lambda: truncated_file("x.npy"), "not readable"),
    ("x.npy", lambda: save(X.astype(object)), "Python objects"),
    ("x.npy", lambda: save(X + 1j), "got complex"),
    ("x.npy", lambda: save(np.array([["a", "b"]] * 3)), "got <U1"),
    ("x.npy", lambda: save(X[0]), "got (4,)"),
    ("x.npy", lambda: save(X[:1]), "got 1 and 4"),
    ("x.npy", lambda: save(X[:, :1]), "got 40 and 1"),
    ("x.npy", lambda: save(X[:0]), "2 rows"),
    ("x.npy", lambda: save(with_infinity()), "row 7"),
    ("x.npy --metrics isoscore", lambda: save(np.ones((9, 3))), "points are equal"),
    ("x.npy --layers 3", lambda: save(X), "leave --layers out"),
    ("x.npy --layers 2", lambda: save(np.stack([X, X])), "0 to 1"),
    ("x.npy --texts t.txt", lambda: save(X), "--texts is for models"),
    ("x.npy --pooling mean", lambda: save(X), "--pooling is for models"),
    ("x.pt", lambda: text("x.pt", "x"), "pickled code"),
    ("x.h5", lambda: text("x.h5", "x"), "got .h5"),
    ("x.safetensors", lambda: truncated_file("x.safetensors"), "not readable"),
    ("x.safetensors", lambda: save_file({"b": X[0]}, "x.safetensors"), "(n, d)"),
    ("x.safetensors --layers a", lambda: save_file({"b": X}, "x.safetensors"), "no array 'a'"),
    ("x.parquet", lambda: truncated_file("x.parquet"), "not readable"),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], [1.0]]), "row 2: expected 2 numbers"),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], None]), "row 2: expected 2 numbers"),
    ("x.parquet", lambda: table(v=[[1.0, 2.0], [3.0, None]]), "row 2 holds NaN"),
    ("x.txt", lambda: text("x.txt", GLOVE + "word 1 2\n"), "line 41"),
    ("x.txt", lambda: text("x.txt", GLOVE + "w 1 2 x 4\n"), "got 'x'"),
    ("x.txt", lambda: text("x.txt", "ten letter"), "line 1"),
    ("x.txt", lambda: text("x.txt", GLOVE + "w nan 1 2 3\n"), "row 41 holds NaN"),
    ("x.txt", lambda: text("x.txt", GLOVE.encode("utf-16")), "UTF-8"),
    ("x.txt", lambda: text("x.txt", "5 4\n"), "promises 5 vectors"),
    ("x.txt", lambda: text("x.txt", " \n\n"), "blank lines"),
    ("x.txt", lambda: text("x.txt", "40 3\n" + GLOVE), "at least 4 numbers"),
    ("x.txt", lambda: text("x.txt", "90 4\n" + GLOVE), "promises 90 vectors"),
    ("x.txt", lambda: text("x.txt", "9 4\n" + GLOVE), "promises 9 vectors"),
    ("x.txt", lambda: text("x.txt", "90 4\n" + GLOVE[:-6]), "promises 90 vectors"),
    ("x.txt", lambda: text("x.txt", "1 2 3\n4 5\n6 7 8\n"), "line 2: expected 3 numbers"),
    ("x.txt", lambda: text("x.txt", "1 2 3\n" * 5000 + "a 5 6\n"), "line 5001"),
]

# Of arrays
OPTIONS: list[tuple[str, str]] = [
    ("--metrics isoscor", "no metric 'isoscor'"),
    ("--metrics silhouette", "needs --labels"),
    ("--sample 1", "--sample"),
    ("--seed -1", "--seed"),
    ("--transforms --clusters 0", "--clusters"),
    ("--transforms --clusters 99", "number of points, 40"),
    ("--transforms --components 9", "n_components"),
    ("--save-transform t.pkl", "expected a .safetensors"),
    ("--csv absent/o.csv", "no such folder"),
    ("--csv .", "got a folder"),
    ("--labels absent.csv", "no such file"),
]

LABELS: list[tuple[str, str, str]] = [
    ("y.txt", "", "empty"),
    ("y.txt", "a\n" * 40, "all labels are equal"),
    ("y.txt", "a\n\n" * 20, "labels 2 is missing"),
    ("y.csv:lable", "label,text\n1,a\n", "did you mean 'label'"),
    ("y.csv:label", "label,text\n1,a\n2\n", "line 3"),
    ("y.jsonl:label", '{"label": 1}\n{"label": [1]}\n', "got [1]"),
    ("y.xls", "a", "expected one of .txt"),
]

WEIGHTS = "model/model.safetensors"
MODELS: list[Case] = [
    ("model", folder(nothing), "needs texts"),
    ("model --texts absent.txt", folder(nothing), "no such file"),
    ("model --texts t.txt", lambda: Path("model").mkdir(), "without config.json"),
    ("absent --texts t.txt", nothing, "no such file or folder"),
    ("model --texts t.txt", folder(lambda _: Path(WEIGHTS).unlink()), "no weights"),
    (
        "model --texts t.txt",
        folder(lambda model: Path(WEIGHTS).rename(model / "pytorch_model.bin")),
        "pickled",
    ),
    ("model --texts t.txt", folder(lambda _: text(WEIGHTS, b"\x10" * 60)), "cannot be read"),
    ("model --texts t.txt", folder(changed_config(hidden_size=20)), "do not fit"),
    ("model --texts t.txt", folder(median_pooling), "'median'"),
    ("model --texts t.txt --layers 99", folder(nothing), "0 to 2, got 99"),
    ("model --texts t.txt --layers last", folder(nothing), "or all"),
    ("model --texts t.txt --pooling max", folder(nothing), "--pooling"),
    ("model --texts e.txt:a", folder(lambda _: text("e.txt", "a\nb")), "no field 'a'"),
    ("model --texts e.jsonl", folder(lambda _: text("e.jsonl", '{"text": "a"}\n[]\n')), "line 2"),
    ("model --texts t.txt --labels y.txt", folder(lambda _: text("y.txt", "a\nb\n")), "2 rows"),
]


@pytest.mark.parametrize(
    ("command", "write", "word"),
    [
        *FILES,
        *((f"x.npy {options}", lambda: save(X), word) for options, word in OPTIONS),
        (
            "x.npy --save-transform t.safetensors",
            lambda: save(np.stack([X, X])),
            "one layer of one input",
        ),
        *MODELS,
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("in_empty_folder")
def test_invalid_input_gives_one_line(command: str, write: Callable[[], object], word: str) -> None:
    text("t.txt", "\n".join(sentences(12)) + "\n")
    write()
    assert_refused(command, word)


@pytest.mark.parametrize(("name", "content", "word"), LABELS)
@pytest.mark.usefixtures("in_empty_folder")
def test_invalid_labels_give_one_line(name: str, content: str, word: str) -> None:
    save(X)
    text(name.partition(":")[0], content)
    assert_refused(f"x.npy --labels {name}", word)


def assert_refused(command: str, word: str) -> None:
    """Check that `isotropy measure` ends with one line, and leaves no file behind."""
    before = sorted(Path().rglob("*"))
    result = CliRunner().invoke(app, ["measure", *command.split()])
    assert result.exit_code == 2, repr(result.exception)
    assert word in result.output
    (line,) = result.output.strip().splitlines()
    assert "Traceback" not in line
    assert sorted(Path().rglob("*")) == before


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


@pytest.mark.usefixtures("in_empty_folder")
def test_markup_in_file_names_is_escaped() -> None:
    """Rich markup and emoji are printed literally, control characters as escapes."""
    assert_refused("[red]:a:\x1b[31m.npy", "[red]:a:\\x1b[31m.npy")
    np.savez("[b]x:cat:.npz", **{name: np.eye(4) for name in ("[red]a", ":dog:")})
    result = CliRunner().invoke(app, ["measure", "[b]x:cat:.npz", "--metrics", "isoscore"])
    assert all(name in result.output for name in ("[red]a", ":dog:"))


@pytest.mark.usefixtures("in_empty_folder")
def test_measuring_does_not_change_the_model_folder() -> None:
    write_tiny_bert(Path("model"))
    copytree("model", "before")
    text("t.txt", "\n".join(sentences(12)))
    assert CliRunner().invoke(app, ["measure", "model", "--texts", "t.txt"]).exit_code == 0
    for file in Path("before").iterdir():
        assert (Path("model") / file.name).read_bytes() == file.read_bytes()
