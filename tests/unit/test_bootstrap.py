"""The paired bootstrap against SciPy, resample by resample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isotropy.tables.bootstrap import mean_of_seeds, percentiles, spearman_draws


@given(seed=st.integers(0, 1000), n=st.integers(4, 30), distinct=st.integers(2, 30))
def test_draws_are_spearmans_of_the_items_drawn(seed: int, n: int, distinct: int) -> None:
    """With ties in both, as scores of people and cosines of equal sentences have."""
    draws = np.random.default_rng(seed)
    values, scores = draws.integers(distinct, size=(2, n)) / 7, draws.integers(distinct, size=n)
    found = spearman_draws(values, scores, resamples=5, seed=seed)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=5)
    for j, times in enumerate(counts):
        items = np.repeat(np.arange(n), times)
        for i in (0, 1):
            if np.ptp(values[i, items]) and np.ptp(scores[items]):
                expected = stats.spearmanr(values[i, items], scores[items]).statistic
                assert found[i, j] == pytest.approx(expected, abs=1e-12)
            else:
                assert np.isnan(found[i, j])


def test_many_resamples_are_those_of_one_call() -> None:
    draws = np.random.default_rng(0)
    values, scores = draws.standard_normal((1, 50)), draws.standard_normal(50)
    assert spearman_draws(values, scores).shape == (1, 2000)
    again = spearman_draws(values, scores)
    assert np.array_equal(again, spearman_draws(values, scores))
    other = spearman_draws(np.vstack([scores, values]), scores)
    assert np.array_equal(again[0], other[1])


def test_intervals_are_scipys() -> None:
    """As SciPy's percentile bootstrap of the same size, but for its other draws."""
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


def test_seeds_are_drawn_outside() -> None:
    """Two seeds that differ widen the interval; equal ones do not."""
    items = np.random.default_rng(0).standard_normal(2000) * 0.1
    apart = percentiles(mean_of_seeds(np.array([items - 1, items + 1])))
    alike = percentiles(mean_of_seeds(np.array([items, items])))
    assert alike == pytest.approx(percentiles(items))
    assert apart[1] - apart[0] > 1.9
