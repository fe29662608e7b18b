"""The identities in section 2 and Appendix B of Mickus et al., against sums over all pairs and
triples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy.metrics import (
    cosine_to_ones,
    hinged_triplet_objective,
    isoscore,
    isotropy_defect,
    silhouette_objective,
    triplet_objective,
    variance_by_pairs,
)
from replication.claims.evaluate import evaluate
from replication.claims.read import read_claims
from replication.papers.mickus2024.tables import nested_classes
from replication.papers.registry import paper


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 14),
    d=st.integers(2, 5),
    shift=st.floats(-100, 100),
)
def test_identities_of_isoscore_and_variance(seed: int, n: int, d: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + shift
    # The defect, by eigenvalues as in IsoScore, is a chord between two points of a circle (section
    # 2.2).
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T)).clip(0)
    normalized, ones = np.sqrt(d) * eigenvalues / np.linalg.norm(eigenvalues), np.ones(d)
    cosine = normalized @ ones / (np.linalg.norm(normalized) * np.sqrt(d))
    distance = np.linalg.norm(normalized - ones)
    assert cosine_to_ones(X) == pytest.approx(cosine, abs=1e-9)
    assert distance**2 == pytest.approx(2 * d * (1 - cosine), abs=1e-9)
    assert isotropy_defect(X) ** 2 == pytest.approx(distance**2 / (2 * (d - np.sqrt(d))), abs=1e-8)
    assert isoscore(X) == pytest.approx((d * cosine**2 - 1) / (d - 1), abs=1e-8)
    # Variance as half the mean squared difference over all pairs (Zhang et al. 2012).
    pairs = np.mean([(X[i] - X[j]) ** 2 / 2 for i, j in permutations(range(n), 2)], axis=0)
    assert variance_by_pairs(X).numpy() == pytest.approx(pairs, rel=1e-7)
    assert variance_by_pairs(X).numpy() == pytest.approx(X.var(axis=0, ddof=1), rel=1e-7)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6), n=st.integers(4, 12), d=st.integers(1, 4), margin=st.floats(0, 3)
)
def test_objectives_equal_sums_over_pairs_and_triples(
    seed: int, n: int, d: int, margin: float
) -> None:
    """Equations 1 and 5 by loops; equation 5 is an upper bound of the triplet objective with a
    hinge, for any margin >= 0."""
    rng = np.random.default_rng(seed)
    X, labels = rng.standard_normal((n, d)) + 5, np.r_[0, 1, rng.integers(0, 3, n - 2)]
    square = lambda i, j: ((X[i] - X[j]) ** 2).sum()  # noqa: E731
    pairs = permutations(range(n), 2)
    eq1 = sum(square(i, j) * (1 if labels[i] != labels[j] else -1) for i, j in pairs)
    triples = [t for t in permutations(range(n), 3) if labels[t[0]] == labels[t[1]] != labels[t[2]]]
    eq5 = sum(square(a, q) - square(a, p) for a, p, q in triples)
    hinge = -sum(max(0, square(a, p) - square(a, q) + margin) for a, p, q in triples)
    assert silhouette_objective(X, labels) == pytest.approx(eq1, rel=1e-9, abs=1e-8)
    assert triplet_objective(X, labels) == pytest.approx(eq5, rel=1e-9, abs=1e-8)
    assert hinged_triplet_objective(X, labels, margin) == pytest.approx(hinge, abs=1e-6)
    assert hinge <= triplet_objective(X, labels) + 1e-8


def test_equation_5_is_not_always_an_upper_bound_of_equation_1() -> None:
    """The paper states that it is; with the weights that it describes, overlapping classes are a
    counter-example."""
    X, labels = np.array([[0.0], [10], [4], [6]]), [0, 0, 1, 1]
    assert triplet_objective(X, labels) < silhouette_objective(X, labels)


def test_bound_of_appendix_b_is_contradicted_whatever_the_study_has() -> None:
    """Sums over all pairs of the table's counter-example; the verdict on it alone, and beside a
    study whose data agree."""
    table = nested_classes()
    axes = np.vstack([np.eye(2), -np.eye(2)])
    points, labels = np.vstack([axes, axes / 2]), np.repeat([0, 1], 4)
    same = labels[:, None] == labels
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    between, within = squared[~same].sum(), squared[same].sum()
    row = table[(table["d"] == 2) & (table["distance"] == 0)].iloc[0]
    assert row["above_equation_1"] == pytest.approx(2 * between - 3 * within)
    assert row["equation_1"] == pytest.approx(between - within)
    claims = read_claims(paper("mickus2024"))
    agrees = pd.DataFrame(
        {"setup": "polarity", "dataset": "polarity", "model": "all-MiniLM-L6-v2", "bias": False,
         "status": "stand-in", "deviations": "", "when": "before", "seed": list("01234"),
         "above_equation_1": [1.0, 2.0, 3.0, 2.5, 1.5], "above_triplet_objective": 1.0}
    )  # fmt: skip
    alone = {"mickus2024/nested_classes": table}
    for tables in (alone, alone | {"mickus2024/appendix_b": agrees}):
        rows = evaluate(claims, tables, defaultdict(str), "left out").set_index("id")
        head = rows.loc["mickus2024-appendix-b-silhouette"]
        assert (head["word"], head["status"]) == ("contradicted", "original")
        assert (head["n_judged"], head["n_failing"]) == (4, 2)
    assert head["stand_in_word"] == "consistent"


def test_limits() -> None:
    isotropic, line = np.vstack([np.eye(4), -np.eye(4)]), np.outer(np.arange(5.0), [1, 2, 3, 4])
    assert cosine_to_ones(isotropic) == pytest.approx(1)
    assert isotropy_defect(isotropic) == pytest.approx(0, abs=1e-7)
    assert cosine_to_ones(line) == pytest.approx(1 / 2)
    assert isotropy_defect(line) == pytest.approx(1)


@pytest.mark.parametrize("function", [cosine_to_ones, isotropy_defect])
def test_invalid_clouds_are_rejected(function: Callable[[np.ndarray], float]) -> None:
    """With equal points, also where their mean is rounded, or of one dimension."""
    for X in (np.ones((4, 3)), np.full((7, 3), 0.1), np.ones((4, 1))):
        with pytest.raises(ValueError, match=r"equal|2 dimensions"):
            function(X)
