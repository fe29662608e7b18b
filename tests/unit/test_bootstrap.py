"""The paired bootstrap against SciPy and scikit-learn, resample by resample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from replication.tables.bootstrap import (
    items_error,
    mean_of_seeds,
    percentiles,
    score_draws,
    spearman_draws,
    spearman_influences,
    widen,
)


@given(seed=st.integers(0, 1000), n=st.integers(4, 30), distinct=st.integers(2, 30))
def test_spearman_draws_equal_scipy_on_each_resample(seed: int, n: int, distinct: int) -> None:
    """With ties in both variables, as in human scores and cosines of equal sentences."""
    draws = np.random.default_rng(seed)
    values, scores = draws.integers(distinct, size=(2, n)) / 7, draws.integers(distinct, size=n)
    obtained = spearman_draws(values, scores, resamples=5, seed=seed)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=5)
    for j, times in enumerate(counts):
        items = np.repeat(np.arange(n), times)
        for i in (0, 1):
            if np.ptp(values[i, items]) and np.ptp(scores[items]):
                expected = stats.spearmanr(values[i, items], scores[items]).statistic
                assert obtained[i, j] == pytest.approx(expected, abs=1e-12)
            else:
                assert np.isnan(obtained[i, j])


@pytest.mark.filterwarnings("ignore::UserWarning")  # from resamples with one class
@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(3, 30), classes=st.integers(2, 4))
def test_score_draws_equal_scikit_learn_on_each_resample(seed: int, n: int, classes: int) -> None:
    draws = np.random.default_rng(seed)
    predicted, right = draws.integers(classes, size=(2, n)), draws.integers(classes, size=n)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=5)

    def pearson(true: np.ndarray, guess: np.ndarray) -> float:
        varied = np.ptp(true) and np.ptp(guess)
        return float(stats.pearsonr(true, guess).statistic) if varied else np.nan

    peers = {
        "accuracy": accuracy_score,
        "matthews": matthews_corrcoef,
        "f1": lambda true, guess: f1_score(true == 1, guess == 1, zero_division=0),
        "pearson": pearson,
        "mean": lambda _, guess: guess.mean() / 100,
    }
    for metric, peer in peers.items():
        obtained = score_draws(metric, predicted, right, resamples=5, seed=seed)
        for j, times in enumerate(counts):
            items = np.repeat(np.arange(n), times)
            for i in (0, 1):
                expected = 100 * peer(right[items], predicted[i, items])
                if np.isfinite(expected):
                    assert obtained[i, j] == pytest.approx(expected, abs=1e-6), metric


def test_error_of_a_difference_equals_mcnemars_variance() -> None:
    """For two accuracies on the same items: the share of disagreements minus the squared
    difference (McNemar's variance)."""
    draws = np.random.default_rng(0)
    right = draws.integers(2, size=800)
    first = np.where(draws.random(800) < 0.8, right, 1 - right)
    other = np.where(draws.random(800) < 0.3, draws.integers(2, size=800), first)
    scores = score_draws("accuracy", np.stack([first, other]), right)
    difference = (first == right).astype(float) - (other == right)
    expected = 100 * difference.std() / np.sqrt(800)
    assert items_error(scores[:1], scores[1:]) == pytest.approx(expected, rel=0.05)


def test_draws_are_reproducible_in_chunks() -> None:
    draws = np.random.default_rng(0)
    values, scores = draws.standard_normal((1, 50)), draws.standard_normal(50)
    assert spearman_draws(values, scores).shape == (1, 2000)
    again = spearman_draws(values, scores)
    assert np.array_equal(again, spearman_draws(values, scores))
    other = spearman_draws(np.vstack([scores, values]), scores)
    assert np.array_equal(again[0], other[1])


def test_intervals_agree_with_scipy() -> None:
    """SciPy's percentile bootstrap has the same size, but other random draws."""
    draws = np.random.default_rng(0)
    x = draws.standard_normal(300)
    y = x + draws.standard_normal(300)
    ours = percentiles(spearman_draws(x, y)[0])
    peer = stats.bootstrap(
        (x, y),
        lambda a, b: stats.spearmanr(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert ours == pytest.approx((peer.low, peer.high), abs=0.01)


def test_seeds_are_resampled_as_well() -> None:
    """Different results of two seeds widen the interval; equal ones do not."""
    items = np.random.default_rng(0).standard_normal(2000) * 0.1
    apart = percentiles(mean_of_seeds(np.array([items - 1, items + 1])))
    alike = percentiles(mean_of_seeds(np.array([items, items])))
    assert alike == pytest.approx(percentiles(items))
    assert apart[1] - apart[0] > 1.9


@given(seed=st.integers(0, 1000), distinct=st.integers(3, 400))
def test_influences_are_those_of_the_jackknife(seed: int, distinct: int) -> None:
    """Leaving an item out changes rho by its influence over n, ties included."""
    draws = np.random.default_rng(seed)
    n = 400
    scores = draws.integers(distinct, size=n)
    values = scores / distinct + draws.integers(distinct, size=n) / distinct
    influences = spearman_influences(values[None], scores)[0]
    assert abs(influences.sum()) < 1e-8 * n
    rho = stats.spearmanr(values, scores).statistic
    for i in range(5):
        rest = np.arange(n) != i
        jackknife = (n - 1) * (rho - stats.spearmanr(values[rest], scores[rest]).statistic)
        assert influences[i] == pytest.approx(jackknife, abs=0.05)


def test_draws_are_as_wide_as_shared_texts_make_them() -> None:
    """The variance is the sum over all products of pairs with a text in common, times the square of
    Student's t over the normal quantile; pairs without common texts change next to nothing."""
    draws = np.random.default_rng(0)
    texts = draws.integers(12, size=(60, 2))
    influences = draws.standard_normal(60) + 0.5 * (texts == 0).any(axis=1)
    share = np.array([[bool({*a} & {*b}) for b in texts.tolist()] for a in texts.tolist()])
    ratio = influences @ share @ influences / np.square(influences).sum()
    normal = draws.standard_normal(100)
    assert ratio > 1
    sums = np.array([influences[(texts == i).any(axis=1)].sum() for i in range(12)])
    t = stats.t.ppf(0.975, np.square(sums).sum() ** 2 / (sums**4).sum()) / stats.norm.ppf(0.975)
    expected = 0.3 + t * np.sqrt(ratio) * (normal - 0.3)
    assert widen(normal, 0.3, influences, texts) == pytest.approx(expected)
    alike = spearman_influences(np.arange(6.0)[None], np.arange(6))[0]
    assert widen(normal, 0.3, alike - alike, texts[:6]) is normal  # methods that rank pairs alike
    apart = np.arange(120).reshape(60, 2)
    assert widen(normal, 0.3, influences, apart).std() / normal.std() == pytest.approx(1, rel=0.1)


def test_interval_covers_a_gain_over_pairs_that_share_texts() -> None:
    """In groups of ten pairs: a bootstrap of independent pairs covers it in about 70 %."""
    draws = np.random.default_rng(0)
    n, group = 200, np.arange(200) // 10
    texts = np.stack([group, n + np.arange(n)], axis=1)
    covered = []
    for _ in range(150):
        common = draws.standard_normal((3, 20))[:, group]
        x, *noise = np.sqrt(0.5) * (common + draws.standard_normal((3, n)))
        cosines = np.array([0.6 * x + 0.8 * row for row in noise])
        before, after = spearman_draws(cosines, x, resamples=300)
        rho = [stats.spearmanr(row, x).statistic for row in cosines]
        by_pair = np.diff(spearman_influences(cosines, x), axis=0)[0]
        plain = after - before
        for interval in (plain, widen(plain, rho[1] - rho[0], by_pair, texts)):
            low, high = percentiles(interval)
            covered.append(low <= 0 <= high)
    assert np.mean(covered[::2]) < 0.85
    assert np.mean(covered[1::2]) > 0.88
