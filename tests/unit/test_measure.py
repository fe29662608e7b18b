"""`isotropy measure` on files: scores equal those of the library for each format, also in blocks;
transforms, output files and the record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors
from typer.testing import CliRunner, Result

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.measurement import scores
from isotropy.metrics import (
    explainable_variance,
    isoscore,
    isoscore_standard_error,
    isoscore_unbiased,
    isoscore_unbiased_standard_error,
    lid_mle,
    mean_cosine,
    partition_isotropy,
    silhouette,
    two_nn,
    type_cosines,
)
from isotropy.read import clouds
from isotropy.read.arrays import open_file
from isotropy.transform_files import load_transform
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement
from replication.cli import app


@pytest.fixture
def cloud(in_empty_folder: None, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """600 vectors of 12 dimensions, away from the origin; the working folder is empty."""
    monkeypatch.setenv("COLUMNS", "200")
    draws = np.random.default_rng(0)
    spread = np.linspace(0.2, 2, 12)
    return (draws.standard_normal((600, 12)) * spread + 0.5).astype(np.float32)


def measure(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["measure", *map(str, arguments)])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def rows(*arguments: object) -> list[dict[str, object]]:
    return list(json.loads(measure(*arguments, "--json").stdout)["rows"])


def test_scores_are_those_of_the_library(cloud: np.ndarray) -> None:
    np.save("x.npy", cloud)
    labels = [f"class {i % 3}" for i in range(600)]
    types = [f"word {i % 40}" for i in range(600)]
    pd.DataFrame({"label": labels, "word": types}).to_csv("known.csv", index=False)
    (row,) = rows("x.npy", "--labels", "known.csv:label", "--types", "known.csv:word")
    cosines = type_cosines(cloud, types)
    shares = explainable_variance(cloud, types)
    expected = {
        "isoscore": isoscore(cloud),
        "mean_cosine": mean_cosine(cloud),
        "log10_isotropy": partition_isotropy(cloud, log=True) / np.log(10),
        "two_nn": two_nn(cloud),
        "lid_mle": lid_mle(cloud, 100),
        "silhouette": silhouette(cloud, labels),
        "s_inter": cosines.s_inter,
        "s_intra": cosines.s_intra,
        "explainable_variance_uncentred": shares.uncentred.mean(),
        "explainable_variance_centred": shares.centred.mean(),
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert (row["n"], row["d"]) == (600, 12)


def write_each_format(X: np.ndarray) -> list[str]:
    np.save("a.npy", X)
    np.save("big-endian.npy", X.astype(">f4"))
    save_file({"vectors": X}, "b.safetensors")
    arrays = [pa.array(list(X)), pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])]
    for i, array in enumerate(arrays):
        pq.write_table(pa.table({"id": range(len(X)), "vector": array}), f"lists{i}.parquet")
    pd.DataFrame({str(i): X[:, i] for i in range(X.shape[1])}).to_parquet("columns.parquet")
    lines = [f"word{i} " + " ".join(map(repr, map(float, x))) for i, x in enumerate(X)]
    Path("glove.txt").write_text("\n".join(lines) + "\n")
    blank = [f"a {line}" for line in lines]
    Path("word2vec.vec").write_text(f"{len(X)} {X.shape[1]}\n" + " \n".join(blank) + " \n")
    return sorted(map(str, Path().iterdir()))


def test_every_format_gives_the_same_scores(
    cloud: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if files are read in blocks of few rows."""
    monkeypatch.setattr(clouds, "BLOCK_BYTES", 1)
    files = write_each_format(cloud)
    result = rows(*files)
    assert [row["input"] for row in result] == files
    for row in result:
        assert row.keys() == result[0].keys()
        for name in row.keys() - {"input", "layer", "columns"}:
            assert row[name] == pytest.approx(result[0][name], rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "uint8"])
def test_every_dtype_is_measured(cloud: np.ndarray, dtype: str) -> None:
    X = (cloud * 20 + 100).astype(dtype)
    np.save("x.npy", X)
    (row,) = rows("x.npy")
    wide = X.astype(np.float32 if dtype == "float16" else np.float64)
    assert row["isoscore"] == pytest.approx(isoscore(wide), rel=1e-5)


def test_layers_of_a_file(cloud: np.ndarray) -> None:
    """Layers are a third axis in NumPy files, and names in safetensors."""
    stack = np.stack([cloud, cloud * 2, cloud**3])
    np.save("x.npy", stack)
    result = rows("x.npy")
    assert [row["layer"] for row in result] == [0, 1, 2]
    assert rows("x.npy", "--layers", "2,0") == [result[2], result[0]]
    save_file({"cube": stack[2], "one": stack[0], "bias": np.ones(3)}, "x.safetensors")
    named = rows("x.safetensors", "--layers", "all")
    assert [row["layer"] for row in named] == ["cube", "one"]
    assert named[0]["isoscore"] == result[2]["isoscore"]


def test_half_precision_in_safetensors(cloud: np.ndarray) -> None:
    half = torch.from_numpy(cloud).bfloat16()
    save_tensors({"x": half}, "x.safetensors")
    (row,) = rows("x.safetensors")
    assert row["isoscore"] == pytest.approx(float(isoscore(half.float())), rel=1e-6)


def test_files_are_read_in_blocks_and_pairs_are_sampled(
    cloud: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block size and the number of rows for pairwise metrics are limited."""
    monkeypatch.setattr(clouds, "BLOCK_BYTES", 1)
    monkeypatch.setattr(scores, "MAX_ROWS_OF_PAIRS", 100)
    np.save("x.npy", cloud)
    (opened,) = open_file(Path("x.npy"), None, Path())
    assert max(len(block) for block in opened.blocks()) == 256
    result = json.loads(measure("x.npy", "--json").stdout)
    assert "metrics of pairs: on 100 of 600 rows" in result["notes"]
    chosen = scores.sample_rows(600, 100, 0).numpy()
    assert result["rows"][0]["two_nn"] == pytest.approx(two_nn(cloud[chosen]), rel=1e-6)
    assert result["rows"][0]["isoscore"] == pytest.approx(isoscore(cloud), rel=1e-6)


def test_a_sample_is_drawn_with_a_seed(cloud: np.ndarray) -> None:
    np.save("x.npy", cloud)
    first, again = rows("x.npy", "--sample", 200), rows("x.npy", "--sample", 200)
    assert first == again
    assert first[0]["n"] == 200
    assert first != rows("x.npy", "--sample", 200, "--seed", 1)


def test_metric_without_a_value_gives_a_note(cloud: np.ndarray) -> None:
    """It is an error if the metric is requested by name."""
    np.save("x.npy", cloud[:50])
    result = json.loads(measure("x.npy", "--json").stdout)
    assert "lid_mle" not in result["rows"][0]
    assert any(note.startswith("lid_mle not measured") for note in result["notes"])
    assert "lid_mle" in measure("x.npy", "--metrics", "lid_mle", code=2).stdout


def test_transforms_are_measured_beside_the_original(cloud: np.ndarray) -> None:
    np.save("x.npy", cloud)
    obtained = rows("x.npy", "--transforms", "--clusters", 3, "--components", 2)
    transforms = [None, Center(), AllButTheTop(2), ClusterBasedEnhancement(3, 2, random_state=0)]
    for row, transform in zip(obtained, transforms, strict=True):
        after = cloud if transform is None else transform.fit(cloud).transform(cloud)
        scale = np.sqrt((cloud**2).sum() / (after**2).sum())
        expected = {
            "isoscore": isoscore(after),
            "log10_isotropy_matched": partition_isotropy(after * scale, log=True) / np.log(10),
        }
        assert row["transform"] == ("none" if transform is None else type(transform).__name__)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    table = measure("x.npy", "--transforms").stdout
    assert "ClusterBasedEnhancement raises IsoScore most, from" in " ".join(table.split())


def test_the_best_transform_is_saved(cloud: np.ndarray) -> None:
    np.save("x.npy", cloud)
    arguments = ("x.npy", "--clusters", 3, "--components", 1)
    result = rows(*arguments, "--save-transform", "best.safetensors")
    best = max(result, key=lambda row: float(row["isoscore"]))  # type: ignore[arg-type]
    loaded = load_transform("best.safetensors")
    assert type(loaded).__name__ == best["transform"]
    assert isoscore(loaded.transform(cloud)) == pytest.approx(best["isoscore"], rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_transform_is_advised_for_an_isotropic_cloud(tmp_path: Path, dtype: str) -> None:
    """Center cannot change IsoScore: a difference of rounding is no advice."""
    X = np.random.default_rng(0).normal(size=(2000, 30)) + 3
    path, best = tmp_path / "x.npy", tmp_path / "best.safetensors"
    np.save(path, X.astype(dtype))
    shown = " ".join(measure(path, "--transforms").stdout.split())
    assert "no transform raises IsoScore (0.98" in shown
    assert "nothing to save" in measure(path, "--save-transform", best, code=2).stdout
    assert not best.exists()


def test_standard_error_of_isoscore(cloud: np.ndarray) -> None:
    """Rows of a sentence may depend on each other; if all are of one, there is no error."""
    np.save("x.npy", cloud)
    sentences = [f"sentence {i // 7}" for i in range(600)]
    Path("s.txt").write_text("\n".join(sentences))
    Path("one.txt").write_text("the same\n" * 600)
    (row,) = rows("x.npy", "--metrics", "isoscore")
    assert row["isoscore_error"] == pytest.approx(isoscore_standard_error(cloud), rel=1e-4)
    assert row["isoscore_unbiased"] == pytest.approx(isoscore_unbiased(cloud), rel=1e-5)
    error = isoscore_unbiased_standard_error(cloud)
    assert row["isoscore_unbiased_error"] == pytest.approx(error, rel=1e-4)
    for options in (["--metrics", "isoscore"], ["--transforms"]):
        row, *_ = rows("x.npy", "--sentences", "s.txt", *options)
        expected = isoscore_standard_error(cloud, sentences)
        assert row["isoscore_error"] == pytest.approx(expected, rel=1e-4)
        one = json.loads(measure("x.npy", "--sentences", "one.txt", *options, "--json").stdout)
        assert one["rows"][0].get("isoscore_error") is None
        assert any(note.startswith("isoscore_error not measured") for note in one["notes"])


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.usefixtures("cloud")
def test_few_rows_have_no_score_without_bias(n: int) -> None:
    np.save("x.npy", np.eye(n, 9))
    one = json.loads(measure("x.npy", "--metrics", "isoscore", "--json").stdout)
    assert one["rows"][0]["isoscore"] > 0
    assert one["rows"][0].get("isoscore_unbiased") is None
    assert any(note.startswith("isoscore_unbiased not measured: ") for note in one["notes"])


def test_output_files_hold_the_printed_values(cloud: np.ndarray) -> None:
    np.save("x.npy", cloud)
    files = {"--csv": "o.csv", "--parquet": "o.parquet", "--record": "o.json"}
    arguments = [word for pair in files.items() for word in pair]
    (row,) = rows("x.npy", *arguments)
    frame = pd.read_parquet("o.parquet")
    for name, value in row.items():
        assert frame[name][0] == value
        assert pd.read_csv("o.csv")[name][0] == value
    record = json.loads(Path("o.json").read_text())
    assert record["inputs"] == {
        "x.npy": {"sha256": sha256_file(Path("x.npy")), "bytes": Path("x.npy").stat().st_size}
    }
    assert record["result"]["rows"] == [row]
    assert record["options"]["inputs"] == ["x.npy"]
    assert record["environment"]["packages"]["numpy"] == np.__version__


def test_a_row_with_nan_is_named(cloud: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds, "BLOCK_BYTES", 1)
    cloud[130, 3] = np.nan
    np.save("x.npy", cloud)
    (opened,) = open_file(Path("x.npy"), None, Path())
    with pytest.raises(IsotropyError, match="row 131"):
        list(opened.blocks())


def test_numbers_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    """All digits of all metrics and transforms, as JSON."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(24, 24))
    np.save(tmp_path / "x.npy", (rng.normal(size=(2000, 24)) @ mixing + 0.3).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 60, 2000))
    groups = [part for name in ("labels", "types", "sentences") for part in (f"--{name}", "y.npy")]
    options = ("--transforms", "--json")
    command = [sys.executable, "-m", "isotropy", "measure", "x.npy", *groups, *options]
    outputs = set()
    for threads in "123":
        env = os.environ | {"OMP_NUM_THREADS": threads}
        done = subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1
