"""Direct optimization against a plain PyTorch version of the paper's loop, and the paper's
parameter counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from IsoScore import IsoScore as published_package
from sklearn.metrics import silhouette_score

from isotropy.errors import IsotropyError
from replication.optimize import optimize as module
from replication.optimize.descent import Classifier, Items, control_items
from replication.optimize.optimize import optimize
from replication.optimize.spec import Control, Evaluation
from tests.unit.factories import DIRECT
from tests.unit.factories import optimize_spec as spec
from tests.unit.interruption import interrupted_at

CPU = torch.device("cpu")
WINDOWS = Evaluation(tolerance=1e-5, sample_size=None)


def points(n: int = 90, d: int = 16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float32) / 4


SINGLE = np.random.default_rng(1).integers(0, 2, 90)
MULTI = (np.random.default_rng(2).random((90, 5)) < 0.3).astype(np.float32)
ONE = np.arange(90)[:, None]
# As in CoLA, some sentences occur twice
REPEATED = np.random.default_rng(3).integers(0, 60, (90, 1))
# As in SNLI, a premise has several hypotheses
PAIRS = np.random.default_rng(4).integers(0, 60, (90, 2))
THREE = np.random.default_rng(5).integers(0, 3, 90)


def items(goal: np.ndarray = SINGLE, rows: np.ndarray = ONE) -> Items:
    return Items(points(int(rows.max()) + 1), rows, goal)


@pytest.mark.parametrize(
    ("loss", "bias", "goal", "rows"),
    [
        ("cross_entropy", False, SINGLE, ONE),
        ("binary_cross_entropy", True, MULTI, ONE),
        ("cross_entropy", True, SINGLE, REPEATED),
        ("cross_entropy", True, THREE, PAIRS),
        ("cross_entropy", False, THREE, PAIRS),
    ],
    ids=["single", "multi-label", "repeated texts", "pairs", "pairs without bias"],
)
def test_trajectory_equals_a_plain_pytorch_loop(
    loss: str, bias: bool, goal: np.ndarray, rows: np.ndarray, tmp_path: Path
) -> None:
    """At each step: torch's default Adam on concatenated pairs, the published IsoScore of single
    vectors, scikit-learn's silhouette."""
    n_labels = goal.max() + 1 if goal.ndim == 1 else goal.shape[1]
    data = items(goal, rows)
    result, _, _ = optimize(spec(loss=loss, bias=bias), data, n_labels, CPU, tmp_path)
    torch.manual_seed(3)
    linear = torch.nn.Linear(16 * rows.shape[1], n_labels, bias=bias)
    embeddings = torch.nn.Parameter(torch.from_numpy(data.vectors.copy()))
    adam = torch.optim.Adam([embeddings, *linear.parameters()])
    objective = torch.nn.CrossEntropyLoss() if goal.ndim == 1 else torch.nn.BCEWithLogitsLoss()
    classes = np.unique(goal.reshape(90, -1), axis=0, return_inverse=True)[1].reshape(-1)
    for step in range(13):
        X = torch.cat([embeddings[r] for r in torch.from_numpy(rows.T)], dim=1)
        value = objective(linear(X), torch.from_numpy(goal))
        assert result["loss"][step] == pytest.approx(value.item(), abs=1e-6)
        isoscore = float(published_package.IsoScore(embeddings.detach().numpy()))
        assert result["isoscore"][step] == pytest.approx(isoscore, abs=1e-5)
        silhouette = silhouette_score(X.detach().numpy(), classes)
        assert result["silhouette"][step] == pytest.approx(silhouette, abs=1e-5)
        adam.zero_grad()
        value.backward()
        adam.step()
    assert list(result["step"]) == list(range(13))
    assert result["loss"].iloc[-1] < result["loss"].iloc[0]


@pytest.mark.parametrize("measure", [DIRECT, WINDOWS], ids=["direct", "windows"])
def test_interrupted_run_resumes_with_the_same_result(
    measure: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each update or window has a checkpoint; trajectory and facts are those of a whole run."""
    paper = spec(updates=200, measure=measure)
    undisturbed, facts, _ = optimize(paper, items(), 2, CPU, tmp_path / "a")
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(module, "CHECKPOINT_PAUSE", 0.0)
    with interrupted_at(80, module.Descent, "update"):
        optimize(paper, items(), 2, CPU, tmp_path / "b")
    resumed, facts_again, measured = optimize(paper, items(), 2, CPU, tmp_path / "b")
    # At the first and the last step equation 5 is above the hinged triplet objective.
    assert [o.step for o in facts["objectives"]] == [0, 200]
    assert all(o.sample_triplet >= o.sample_hinged for o in facts["objectives"])
    assert 0 < measured["updates_taken_up_from_a_killed_run"] <= 80
    pd.testing.assert_frame_equal(undisturbed, resumed, check_exact=True)
    assert facts == facts_again


def test_measuring_does_not_change_the_trajectory(tmp_path: Path) -> None:
    """Loss and accuracy are identical for each way to evaluate the scores."""
    first, *others = (
        optimize(spec(updates=60, measure=measure), items(), 2, CPU, tmp_path / str(i))[0]
        for i, measure in enumerate((DIRECT, WINDOWS, Evaluation(tolerance=None, sample_size=40)))
    )
    for other in others:
        for column in ("step", "loss", "accuracy"):
            assert first[column].equals(other[column])


def test_metrics_on_a_sample_drawn_at_each_step(tmp_path: Path) -> None:
    """As in Appendix A: samples differ between steps, but not between runs; a sample of all items
    gives the exact scores."""

    def trajectory(name: str, **changes: object) -> pd.DataFrame:
        return optimize(spec(**changes), items(THREE, PAIRS), 3, CPU, tmp_path / name)[0]

    sample = Evaluation(tolerance=1e-5, sample_size=40)
    first, again = (
        trajectory(name, measure=sample, updates=5, learning_rate=1e-12) for name in "ab"
    )
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    # The points hardly move, so differences come from the samples
    assert first["silhouette"].nunique() == first["isoscore"].nunique() == 6
    whole = trajectory("c", measure=Evaluation(tolerance=None, sample_size=90))
    pd.testing.assert_frame_equal(whole, trajectory("d"), check_exact=True)


def test_scaling_keeps_the_shape_and_sets_the_norm(tmp_path: Path) -> None:
    """One factor for all vectors: initial scores stay the same, the trajectory does not."""
    plain, _, _ = optimize(spec(), items(), 2, CPU, tmp_path)
    scaled, _, _ = optimize(spec(mean_norm=20.0), items(), 2, CPU, tmp_path)
    for score in ("isoscore", "silhouette"):
        assert scaled.loc[0, score] == pytest.approx(plain.loc[0, score], abs=1e-6)
    moved = [abs(rows["isoscore"].iloc[-1] - rows["isoscore"].iloc[0]) for rows in (plain, scaled)]
    assert moved[1] < moved[0] / 4


@pytest.mark.parametrize(
    ("changes", "goal", "keyword"),
    [
        ({"learning_rate": 1e30}, SINGLE, "diverged"),
        ({}, np.zeros_like(SINGLE), "same label"),
        ({"loss": "binary_cross_entropy"}, SINGLE, "targets"),
    ],
    ids=["diverged", "one class", "another loss"],
)
def test_what_cannot_be_optimized_is_rejected(
    changes: dict[str, object], goal: np.ndarray, keyword: str, tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match=keyword):
        optimize(spec(**changes), items(goal), 2, CPU, tmp_path)


@pytest.mark.parametrize(
    ("n_vectors", "d", "rows", "n_labels", "bias", "n_params"),
    [
        (10662, 384, (10662, 1), 2, False, 4_094_976),
        (2275, 300, (2275, 1), 26, True, 690_326),
        (12982, 384, (9842, 2), 3, True, 4_987_395),
    ],
    ids=["polarity", "supersenses", "snli"],
)
def test_parameter_counts_of_the_paper(
    n_vectors: int, d: int, rows: tuple[int, int], n_labels: int, bias: bool, n_params: int
) -> None:
    """Exact numbers of Table 1: one vector per distinct text, pairs concatenated, bias except for
    polarity."""
    vectors, places = np.zeros((n_vectors, d), np.float32), np.zeros(rows, np.int64)
    assert Classifier(vectors, places, n_labels, bias=bias, seed=0).n_params() == n_params


def test_initialization_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Classifier(points(), ONE, 2, bias=True, seed=9)
    assert torch.rand(1) == expected


def test_controls_have_no_relation_of_labels_to_vectors() -> None:
    """Shuffled labels keep vectors and the numbers of labels; noise has the wanted dimensions,
    spectrum and classes, and the length of the data's vectors."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 6)).astype(np.float32)
    pairs = np.stack(np.divmod(rng.permutation(1600)[:90], 40), axis=1)  # distinct
    items = Items(vectors, pairs, np.arange(90) % 3)
    sizes = {"n_items": 60, "dimensions": None, "n_classes": None, "decay": 1.0}
    shuffled = control_items(items, Control(kind="shuffled", **sizes), 0)
    points = shuffled.vectors[shuffled.rows].reshape(60, -1)
    of_pairs = map(tuple, vectors[pairs].reshape(90, -1))
    originals = dict(zip(of_pairs, items.targets, strict=True))
    truth = [originals[tuple(point)] for point in points]
    assert sorted(shuffled.targets) == sorted(truth)
    assert 0.1 < np.mean(shuffled.targets == truth) < 0.6
    other = control_items(items, Control(kind="shuffled", **sizes), 1)
    assert not np.array_equal(other.targets, shuffled.targets)

    many = Items(vectors, np.arange(40000)[:, None] % 40, np.arange(40000) % 2)
    changes = {"n_items": 40000, "dimensions": 4, "n_classes": 5, "decay": 0.5}
    noise = control_items(many, Control(kind="noise", **changes), 0)
    assert np.bincount(noise.targets).tolist() == [8000] * 5
    deviations = noise.vectors.std(axis=0)
    assert deviations[1:] / deviations[:-1] == pytest.approx([0.5] * 3, rel=0.03)
    norms = [np.sqrt(np.square(v).sum(axis=1).mean()) for v in (noise.vectors, vectors)]
    assert norms[0] == pytest.approx(norms[1], rel=0.01)
    means = [noise.vectors[noise.targets == c].mean(axis=0) for c in range(5)]
    assert np.abs(means / deviations).max() < 0.05
