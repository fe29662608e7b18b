"""Direct optimization against the paper's loop as one would write it today, and the paper's parameter counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from IsoScore import IsoScore as published_package
from sklearn.metrics import silhouette_score

from isotropy.errors import IsotropyError
from isotropy.optimize import optimize as module
from isotropy.optimize.optimize import Classifier, optimize
from isotropy.optimize.spec import OptimizeSpec, Schedule
from isotropy.prepare.datasets import prepare_sentences, prepare_supersenses
from isotropy.prepare.spec import Sample, SentencesSpec, SupersensesSpec
from isotropy.prepare.table import read_dataset, targets, write_dataset
from isotropy.sources.readers import Row, StaticVectors
from isotropy.tables.mickus2024 import Run, correlations, table1, trajectories

CPU = torch.device("cpu")


def spec(**changes: object) -> OptimizeSpec:
    values = {
        "paper": "mickus2024", "setup": "polarity", "dataset": "polarity", "embedding": "all-MiniLM-L6-v2",
        "loss": "cross_entropy", "bias": False, "mean_norm": None, "seed": 3, "updates": 12, "learning_rate": 0.001,
        "schedule": Schedule(every_until=12, then_every=1), "device": "cpu",
    }  # fmt: skip
    return OptimizeSpec(**(values | changes))


def points(n: int = 90, d: int = 16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float32) / 4


SINGLE = np.random.default_rng(1).integers(0, 2, 90)
MULTI = (np.random.default_rng(2).random((90, 5)) < 0.3).astype(np.float32)


@pytest.mark.parametrize(("loss", "bias", "goal"), [("cross_entropy", False, SINGLE), ("binary_cross_entropy", True, MULTI)])
def test_equals_the_papers_loop(loss: str, bias: bool, goal: np.ndarray, tmp_path: Path) -> None:
    """torch's default Adam, the published IsoScore package and scikit-learn, step by step."""
    n_labels = 2 if goal.ndim == 1 else goal.shape[1]
    rows, _ = optimize(spec(loss=loss, bias=bias), points(), goal, n_labels, CPU, tmp_path)
    torch.manual_seed(3)
    linear = torch.nn.Linear(16, n_labels, bias=bias)
    embeddings = torch.nn.Parameter(torch.from_numpy(points()))
    adam = torch.optim.Adam([embeddings, *linear.parameters()])
    objective = torch.nn.CrossEntropyLoss() if goal.ndim == 1 else torch.nn.BCEWithLogitsLoss()
    classes = goal if goal.ndim == 1 else np.unique(goal, axis=0, return_inverse=True)[1].reshape(-1)
    for step in range(13):
        value = objective(linear(embeddings), torch.from_numpy(goal))
        X = embeddings.detach().numpy()
        assert rows["loss"][step] == pytest.approx(value.item(), abs=1e-6)
        assert rows["isoscore"][step] == pytest.approx(float(published_package.IsoScore(X)), abs=1e-5)
        assert rows["silhouette"][step] == pytest.approx(silhouette_score(X, classes), abs=1e-5)
        adam.zero_grad()
        value.backward()
        adam.step()
    assert list(rows["step"]) == list(range(13))
    assert rows["loss"].iloc[-1] < rows["loss"].iloc[0]


def test_interrupted_run_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed with SIGKILL between two checkpoints; the next one goes on to the same bits."""
    undisturbed, _ = optimize(spec(updates=400), points(), SINGLE, 2, CPU, tmp_path / "a")
    program = f"""
        import sys; sys.path.insert(0, {str(Path(module.__file__).parents[2])!r})
        from pathlib import Path
        import tests.unit.test_optimize as t
        from isotropy.optimize import optimize as m
        m.CHECKPOINT_SECONDS = 0.05
        measure = m._measure
        def slow(*args):
            t.time.sleep(0.01)
            return measure(*args)
        m._measure = slow
        m.optimize(t.spec(updates=400), t.points(), t.SINGLE, 2, t.CPU, Path({str(tmp_path / "b")!r}))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, "OMP_NUM_THREADS": "1"})
    checkpoint = tmp_path / "b/checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed, measured = optimize(spec(updates=400), points(), SINGLE, 2, CPU, tmp_path / "b")
    assert 0 < measured["updates_taken_up_from_a_killed_run"] < 400
    pd.testing.assert_frame_equal(undisturbed, resumed, check_exact=True)


def test_schedule_does_not_change_the_trajectory(tmp_path: Path) -> None:
    """Measuring less often gives the same values where both measure."""
    every, _ = optimize(spec(), points(), SINGLE, 2, CPU, tmp_path)
    some, _ = optimize(spec(schedule=Schedule(every_until=2, then_every=5)), points(), SINGLE, 2, CPU, tmp_path)
    assert list(some["step"]) == [0, 1, 2, 5, 10, 12]
    pd.testing.assert_frame_equal(every[every["step"].isin(some["step"])].reset_index(drop=True), some, check_exact=True)


def test_scaling_keeps_the_shape_and_sets_the_norm(tmp_path: Path) -> None:
    """One factor: the scores before any update stay, the way from there does not."""
    plain, _ = optimize(spec(), points(), SINGLE, 2, CPU, tmp_path)
    scaled, _ = optimize(spec(mean_norm=20.0), points(), SINGLE, 2, CPU, tmp_path)
    for score in ("isoscore", "silhouette"):
        assert scaled.loc[0, score] == pytest.approx(plain.loc[0, score], abs=1e-6)
    moved = [abs(rows["isoscore"].iloc[-1] - rows["isoscore"].iloc[0]) for rows in (plain, scaled)]
    assert moved[1] < moved[0] / 4


def test_diverged_training_stops(tmp_path: Path) -> None:
    with pytest.raises(IsotropyError, match=r"the loss is .* at update \d+: training diverged"):
        optimize(spec(learning_rate=1e30), points(), SINGLE, 2, CPU, tmp_path)


def test_one_class_is_nothing_to_classify(tmp_path: Path) -> None:
    with pytest.raises(IsotropyError, match="all items have the same label"):
        optimize(spec(), points(), np.zeros_like(SINGLE), 2, CPU, tmp_path)


def test_loss_must_fit_the_targets(tmp_path: Path) -> None:
    with pytest.raises(IsotropyError, match="does not fit targets"):
        optimize(spec(loss="binary_cross_entropy"), points(), SINGLE, 2, CPU, tmp_path)


def test_parameter_counts_of_the_paper() -> None:
    """Table 1, to the unit: one vector per item, bias except for polarity."""
    polarity = Classifier(np.zeros((10662, 384), np.float32), 2, bias=False, seed=0)
    supersenses = Classifier(np.zeros((2275, 300), np.float32), 26, bias=True, seed=0)
    assert (polarity.n_params(), supersenses.n_params()) == (4_094_976, 690_326)


def test_initialization_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Classifier(points(), 2, bias=True, seed=9)
    assert torch.rand(1) == expected


def test_prepared_tables(tmp_path: Path) -> None:
    rows = [Row((f"text {i}",), i % 2) for i in range(10)]
    sentences = SentencesSpec(kind="sentences", source="s", label_names=["no", "yes"], sample=Sample(n_items=4, seed=0))
    table, dataset = prepare_sentences(sentences, rows)
    write_dataset(tmp_path / "d.parquet", table, dataset)
    back, described = read_dataset(tmp_path / "d.parquet")
    assert described == dataset
    assert described.sampled
    assert targets(back, described).tolist() == [int(t.split()[1]) % 2 for t in back["text"]]
    with pytest.raises(IsotropyError, match="a sample of 4 of 3"):
        prepare_sentences(sentences, rows[:3])
    with pytest.raises(IsotropyError, match=r"labels \[1\] have no name"):
        prepare_sentences(sentences.model_copy(update={"label_names": ["no"], "sample": None}), rows)
    with pytest.raises(IsotropyError, match="no items"):
        prepare_sentences(sentences.model_copy(update={"sample": None}), [])
    with pytest.raises(IsotropyError, match="s: 1 texts occur more than once, 'text 0' first"):
        prepare_sentences(sentences.model_copy(update={"sample": None}), [rows[0], rows[0]])


def test_supersenses() -> None:
    lexicon = [Row(("tea",), ["food", "plant"]), Row(("cup",), ["artifact"])]
    vectors = StaticVectors(["the", "cup", "tea", "cup"], np.zeros((4, 2), np.float32))
    chosen = SupersensesSpec(kind="supersenses", lexicon="l", vectors="v", n_items=2)
    table, dataset = prepare_supersenses(chosen, lexicon, vectors)
    assert list(table["text"]) == ["cup", "tea"]
    indicators = targets(table, dataset)
    assert indicators.shape == (2, 26)
    assert [dataset.label_names[i] for i in np.flatnonzero(indicators[1])] == ["food", "plant"]
    with pytest.raises(IsotropyError, match="2 words have a noun sense, n_items asks for 3"):
        prepare_supersenses(chosen.model_copy(update={"n_items": 3}), lexicon, vectors)


def test_tables_of_known_runs(project: Path) -> None:
    """Correlations against numpy on a trajectory that is known; mean and sd over seeds; published values beside."""
    published = pd.read_csv(project / "published/mickus2024.csv")
    steps = np.arange(6)
    runs = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {"step": steps, "loss": 1.0, "accuracy": 1.0, "isoscore": rng.random(6), "silhouette": rng.random(6)}
        )
        facts = {
            "setup": "mine",
            "dataset": "polarity",
            "model": "all-MiniLM-L6-v2",
            "seed": seed,
            "data": "d",
            "embedding": "e",
            "status": "original",
            "schedule": "s",
        }
        facts |= {"n_items": 5, "n_vectors": 5, "n_params": 7, "dim": 2, "n_labels": 2, "n_classes": 2}
        runs.append((Run(**facts, loss="cross_entropy", bias=False), frame))
    table = correlations(trajectories(runs), published).set_index("seed")
    expected = [np.corrcoef(f["isoscore"], f["silhouette"])[0, 1] for _, f in runs]
    assert list(table.loc[["0", "1"], "pearson_r"]) == pytest.approx(expected)
    assert table.loc["mean", "pearson_r"] == pytest.approx(np.mean(expected))
    assert table.loc["sd", "pearson_r"] == pytest.approx(np.std(expected, ddof=1))
    assert table.loc["mean", ["published_pearson_r", "published_spearman_below"]].tolist() == [-0.808, -0.998]
    # Another model on the same data is not what the paper measured.
    other = [(run.model_copy(update={"model": "mine"}), frame) for run, frame in runs]
    assert np.isnan(correlations(trajectories(other), published).set_index("seed").loc["mean", "published_pearson_r"])
    assert table1(runs, published).loc[0, ["n_params", "published_n_params"]].tolist() == [7, 4094976]
