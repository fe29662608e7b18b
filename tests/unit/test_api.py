"""`isotropy.measure` has the command's numbers for each kind of input; `isotropy.compare` has the
errors of differences; `isotropy.plot_layers` draws what it is given."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

import isotropy
from isotropy.errors import IsotropyError
from isotropy.metrics import isoscore, isoscore_unbiased
from isotropy.metrics.validation import sample_rows
from isotropy.transforms import Center
from replication.cli import app
from tests.unit.tiny_models import sentences, write_tiny_bert

TEXTS = sentences(60)
STARS = [i % 3 for i in range(60)]


@pytest.fixture
def cloud(in_empty_folder: None) -> np.ndarray:
    """200 vectors of 6 dimensions; the working folder is empty."""
    draws = np.random.default_rng(0)
    return (draws.normal(size=(200, 6)) * np.linspace(0.2, 2, 6) + 0.5).astype(np.float32)


def command(*arguments: object) -> tuple[pd.DataFrame, list[str]]:
    """Rows and notes of the command, without the name of the input."""
    result = CliRunner().invoke(app, ["measure", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    return pd.DataFrame(document["rows"]).drop(columns="input"), document["notes"]


def require_same(measured: pd.DataFrame, *arguments: object) -> None:
    """All digits, columns and notes, but for the name of the input."""
    rows, notes = command(*arguments)
    name = measured["input"].iloc[0]
    pd.testing.assert_frame_equal(
        measured.drop(columns="input"), rows, check_dtype=False, rtol=0, atol=0
    )
    assert [note.replace(name, str(arguments[0])) for note in measured.attrs["notes"]] == notes
    assert "isotropy-" not in measured.to_string() + str(measured.attrs)


def test_arrays(cloud: np.ndarray) -> None:
    """Array, tensor, list and file, with labels, sample and transforms."""
    labels = np.array(["a", "b"])[np.arange(200) % 2]
    np.save("x.npy", cloud)
    np.save("y.npy", labels)
    options: dict[str, Any] = {"transforms": True, "sample": 150, "clusters": 3}
    arguments = ["x.npy", "--labels", "y.npy", "--transforms", "--sample", 150, "--clusters", 3]
    tensor = torch.from_numpy(cloud).requires_grad_()
    for x, y in ((cloud, labels), (tensor, list(labels)), ("x.npy", pd.Series(labels, name="y"))):
        require_same(isotropy.measure(x, labels=y, **options), *arguments)
    metrics = ["isoscore", "silhouette"]
    few = isotropy.measure(Path("x.npy"), labels="y.npy", metrics=metrics)
    require_same(few, "x.npy", "--labels", "y.npy", "--metrics", "isoscore,silhouette")
    double = isotropy.measure(cloud.astype(float).tolist(), metrics="isoscore")
    assert double["isoscore"].item() == pytest.approx(isoscore(cloud), abs=1e-7)


def test_transforms_of_a_sample_are_measured_on_it(cloud: np.ndarray) -> None:
    frame = isotropy.measure(cloud, sample=150, transforms=True, metrics="isoscore")
    rows = sample_rows(len(cloud), 150, 0).numpy()
    centred = Center().fit_transform(cloud[rows])
    by_transform = frame.set_index("transform")["isoscore"]
    assert by_transform["none"] == pytest.approx(isoscore(cloud[rows]), abs=1e-6)
    assert by_transform["Center"] == pytest.approx(isoscore(centred), abs=1e-6)


def test_layers_of_arrays(cloud: np.ndarray) -> None:
    """(layers, n, d), not contiguous, and numbers that NumPy does not have."""
    layers = np.stack([cloud, cloud**2, -cloud])
    np.save("x.npy", layers)
    view = np.asfortranarray(layers)
    require_same(isotropy.measure(view, layers=[0, 2]), "x.npy", "--layers", "0,2")
    half = torch.from_numpy(cloud).bfloat16()
    save_file({"x": half}, "x.safetensors")
    require_same(isotropy.measure(half), "x.safetensors")


def test_data_frames(cloud: np.ndarray) -> None:
    """Dimensions are named as in a table; labels are a column."""
    frame = pd.DataFrame(cloud.astype(float), columns=[f"dim_{i}" for i in range(6)])
    frame["species"] = np.array(["iris", "lily"])[np.arange(200) % 2]
    frame.to_csv("x.csv", index=False)
    metrics = "isoscore,silhouette"
    arguments = ["x.csv", "--labels", "species", "--metrics", metrics, "--columns", "dim_*"]
    for x in (frame, "x.csv"):
        measured = isotropy.measure(x, labels="species", metrics=metrics, columns="dim_*")
        require_same(measured, *arguments)
    chosen = isotropy.measure(frame, columns=["dim_0", "dim_3"], metrics="isoscore")
    assert chosen["columns"].item() == "dim_0, dim_3"
    with pytest.raises(IsotropyError, match="columns dim_9"):
        isotropy.measure(frame, columns="dim_9")


@pytest.mark.usefixtures("in_empty_folder")
def test_models_of_transformers() -> None:
    """A folder, and a model in memory with its tokenizer, by layers and by tokens."""
    folder = write_tiny_bert(Path("model"))
    table = pd.DataFrame({"text": TEXTS, "stars": STARS})
    table.to_csv("t.csv", index=False)
    pair = (AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    before = {name: weight.clone() for name, weight in pair[0].state_dict().items()}
    arguments = ["model", "--texts", "t.csv", "--layers", "all", "--labels", "stars"]
    for x, texts, labels in (("model", "t.csv", "stars"), (pair, TEXTS, STARS)):
        measured = isotropy.measure(x, texts=texts, labels=labels, layers="all", device="cpu")
        require_same(measured, *arguments, "--device", "cpu")
    assert all(torch.equal(before[name], w) for name, w in pair[0].state_dict().items())
    tokens = isotropy.measure(pair, texts=table["text"], pooling="tokens", layers=-1)
    require_same(tokens, "model", "--texts", "t.csv:text", "--pooling", "tokens")


@pytest.mark.usefixtures("in_empty_folder")
def test_models_of_sentence_transformers() -> None:
    """All modules, hidden layers, prompts and truncation of a model in memory."""
    modules = [Transformer(str(write_tiny_bert(Path("bert")))), Pooling(16)]
    prompts = {"query": "the cat "}
    model = SentenceTransformer(
        modules=modules, device="cpu", prompts=prompts, default_prompt_name="query", truncate_dim=12
    )
    model.save_pretrained("model")
    Path("t.txt").write_text("\n".join(TEXTS) + "\n")
    measured = isotropy.measure(model, texts=TEXTS, layers=[0, "output"])
    arguments = ["--texts", "t.txt", "--layers", "0,output", "--truncate-dim", 12]
    require_same(measured, "model", *arguments)
    assert measured["d"].tolist() == [16, 12]


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: np.zeros(3), r"^array: .*\(3,\)"),
    (lambda: ["a", "b"], "got list"),
    (lambda: [[1.0, 2.0], [1.0]], "one length"),
    (lambda: np.ma.masked_less(np.ones((5, 2)), 2), "mask"),
    (lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [1, "x"]}), "^DataFrame: .*column b"),
    (lambda: np.zeros((0, 5, 2)), "no layers"),
    (lambda: AutoModel.from_pretrained(write_tiny_bert(Path("m"))), "^BertModel: .*tokenizer"),
]


@pytest.mark.parametrize(("x", "word"), MISTAKES, ids=[word for _, word in MISTAKES])
@pytest.mark.usefixtures("in_empty_folder")
def test_invalid_inputs_are_named(x: Callable[[], Any], word: str) -> None:
    with pytest.raises(IsotropyError, match=word):
        isotropy.measure(x())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": [1, 2]}, "labels: labels has 2 rows"),
        ({"labels": [None, *[1] * 199]}, "labels: labels 1 is missing"),
        ({"labels": np.ones((200, 2))}, "(200, 2)"),
        ({"layers": [3]}, "array: layers 3"),
        ({"metrics": ["isoscor"]}, "metrics: no metric 'isoscor'"),
        ({"texts": ["a", "b"]}, "array: texts is for models"),
        ({"label": [1, 2]}, "no option 'label'"),
        ({"sample": 1}, "sample: "),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], words: str, cloud: np.ndarray) -> None:
    """As parameters of the function, not as the command's options."""
    with pytest.raises(IsotropyError) as error:
        isotropy.measure(cloud, **options)
    assert words in str(error.value)
    assert "--" not in str(error.value)


def jackknife(score: Callable[[np.ndarray], Any], a: Any, b: Any, group: Any) -> float:
    """Standard error of a difference of scores, from those without each group of rows."""
    rest = [group != g for g in range(int(group.max()) + 1)]
    without = np.array([score(b[rows]) - score(a[rows]) for rows in rest])
    n = len(without)
    return float(np.sqrt((n - 1) / n * np.square(without - without.mean()).sum()))


@pytest.mark.parametrize("size", [1, 4])
def test_paired_errors_are_those_of_the_jackknife(size: int, cloud: np.ndarray) -> None:
    """Rows, and sentences of several rows."""
    group = np.arange(200) // size
    a, b = cloud, cloud * np.linspace(1, 2, 6, dtype=np.float32)
    options = {} if size == 1 else {"sentences": group}
    compared = isotropy.compare(a, b, metrics=["isoscore", "mean_cosine"], **options)
    compared = compared.set_index("score")
    assert compared["paired"].tolist() == [True, True, False]
    for name, score in (("isoscore", isoscore), ("isoscore_unbiased", isoscore_unbiased)):
        row = compared.loc[name]
        assert row["difference"] == row["b"] - row["a"]
        assert row["error"] == pytest.approx(jackknife(score, a, b, group), rel=0.06), name
    assert np.isnan(compared.loc["mean_cosine", "error"])


def test_errors_of_clouds_drawn_apart(cloud: np.ndarray) -> None:
    """Results, and clouds of different size; a cloud is equal to itself."""
    a, b = (isotropy.measure(x, metrics="isoscore") for x in (cloud, cloud[:120] ** 2))
    drawn = isotropy.compare(cloud, cloud[:120] ** 2, metrics="isoscore")
    for compared in (isotropy.compare(a, b), drawn):
        for row in compared.to_dict("records"):
            errors = [float(frame[f"{row['score']}_error"].item()) for frame in (a, b)]
            assert row["error"] == pytest.approx(np.hypot(*errors), rel=1e-12)
            assert not row["paired"]
    same = isotropy.compare(cloud, cloud, metrics="isoscore")
    assert same[["difference", "error"]].to_numpy().tolist() == [[0, 0], [0, 0]]


def test_layers_are_compared_by_name(cloud: np.ndarray) -> None:
    a = isotropy.measure(np.stack([cloud, cloud**2]), metrics="isoscore")
    b = isotropy.measure(np.stack([cloud] * 3), layers=[2, 1], metrics="isoscore")
    compared = isotropy.compare(a, b)
    assert compared["layer"].unique().tolist() == ["1"]
    assert compared["a"].tolist() == a.loc[1, ["isoscore", "isoscore_unbiased"]].tolist()
    with pytest.raises(IsotropyError, match="no layer in common"):
        isotropy.compare(a, isotropy.measure(np.stack([cloud] * 3), layers=2).assign(layer=2))
    transformed = isotropy.measure(cloud, transforms=True, clusters=2)
    compared = isotropy.compare(transformed, transformed)
    assert set(compared["transform"]) == set(transformed["transform"])


def test_no_dimension_has_a_share_of_a_cosine_of_zero() -> None:
    with pytest.raises(IsotropyError, match="mean cosine is 0"):
        isotropy.measure(np.zeros((9, 3)), metrics="largest_contribution")


def test_plot_shows_the_rows(cloud: np.ndarray) -> None:
    result = isotropy.measure(
        np.stack([cloud, cloud**2, -cloud]), metrics=["isoscore", "mean_cosine"]
    )
    last = result.assign(layer=["0", "1", "output"])
    figure = isotropy.plot_layers({"first": result, "second": last}, ["mean_cosine", "isoscore"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["mean cosine", "isoscore"]
    for axes, name in zip(figure.axes, ("mean_cosine", "isoscore"), strict=True):
        lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
        shown = [line.get_ydata() for line in lines if line.get_linestyle() == "-"]
        assert [np.asarray(y).tolist() for y in shown[:2]] == [result[name].tolist()] * 2
    bars = figure.axes[1].collections[0].get_segments()
    half = [float(bar[1, 1] - bar[0, 1]) / 2 for bar in bars]
    assert half == pytest.approx((2 * result["isoscore_error"]).tolist())
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["0", "1", "2", "output"]
    named = result.assign(layer=["layer_10", "layer_2", "output"])
    for table, ticks in ((named, named["layer"].tolist()), (named[:2], ["layer_10", "layer_2"])):
        axes = isotropy.plot_layers(table, "mean_cosine").axes[0]
        assert [text.get_text() for text in axes.get_xticklabels()] == ticks
    with pytest.raises(IsotropyError, match="no score 'isoscor'"):
        isotropy.plot_layers(result, "isoscor")
    with pytest.raises(IsotropyError, match="column layer"):
        isotropy.plot_layers(isotropy.measure(cloud, metrics="isoscore"))


def test_import_is_light_and_missing_packages_are_named() -> None:
    code = (
        "import sys, isotropy\n"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)\n"
        "assert {'measure', 'compare', 'plot_layers'} <= set(dir(isotropy))\n"
        "sys.modules['pandas'] = None\n"
        "isotropy.measure([[1, 2], [3, 4]])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith("ModuleNotFoundError: ")
    assert "pip install 'isotropy[workflow]'" in error
