"""Coverage of confidence intervals and error rates of verdicts, on synthetic data with known truth.

    python benchmarks/verdicts.py [--draws 1000] [--seed 0]

First table: share of 95 % intervals that contain the true value, by method and sample size, which
should be near 95. Second: shares of verdicts if the effect is absent, as published, or the
opposite. Third: the same for statements of several cases. Fourth: how often a firm verdict is false
on what studies have: correlations of few points, runs that collapse, layers that resemble their
neighbours, cases that share seeds or models, pairs that share texts, choices among many. The
numbers are in docs/results/verdicts.csv.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.stats import spearmanr

from replication.claims import estimate as estimates
from replication.claims.estimate import Estimate
from replication.claims.evaluate import estimate_of
from replication.claims.judge import judge, p_value
from replication.claims.spec import Claim, Statement
from replication.claims.statements import Case, judge_cases, judge_statement
from replication.tables.bootstrap import (
    items_error,
    mean_of_seeds,
    percentiles,
    score_draws,
    spearman_draws,
    spearman_influences,
    widen,
)
from replication.tables.items import interval

RHO = 0.6
RESAMPLES = 500  # enough to estimate coverage; verdicts use 2,000
WORDS = ("reproduced", "undecided", "contradicted", "deviates")


def contains(low: float, high: float, truth: float) -> bool:
    """Whether an interval contains the true value."""
    return low <= truth <= high


def cases(draws: np.random.Generator) -> Iterator[tuple[str, int, Callable[[], bool]]]:
    """Yield name, number of units, and a function that draws data and checks coverage."""
    for n in (3, 5, 10):
        yield (
            "mean over seeds, normal (Student's t)",
            n,
            lambda n=n: contains(*estimates.mean(draws.normal(1, 1, n)).interval, 1),
        )
    for n in (3, 5):
        yield (
            "mean over seeds, skewed: exponential (Student's t)",
            n,
            lambda n=n: contains(*estimates.mean(draws.exponential(1, n)).interval, 1),
        )
        yield (
            "difference of two samples (Welch)",
            n,
            lambda n=n: contains(
                *estimates.difference(draws.normal(1, 1, n), draws.normal(0, 3, n)).interval, 1
            ),
        )
        yield (
            "standard deviation over seeds (chi-square)",
            n,
            lambda n=n: contains(*estimates.deviation(draws.normal(0, 2, n)).interval, 2),
        )
    for n in (3, 5, 10):
        for effect in (0, 2, 8):
            yield (
                f"rank correlation of 4 values of lambda, effect {effect} (t with resolution)",
                n,
                lambda n=n, effect=effect: _few_points(draws, n, 4, effect),
            )
    for n in (100, 400):
        yield "accuracy over items, 0.8, three seeds", n, lambda n=n: _accuracy(draws, n)
        yield "difference of accuracies, three seeds and items", n, lambda n=n: _change(draws, n)
        yield "gain in Spearman's rho over pairs (paired bootstrap)", n, lambda n=n: _gain(draws, n)


def _normal_pairs(draws: np.random.Generator, n: int, r: float) -> tuple[np.ndarray, np.ndarray]:
    x = draws.standard_normal(n)
    return x, r * x + np.sqrt(1 - r * r) * draws.standard_normal(n)


def _pearson_of(rho: float) -> float:
    """Return Pearson's r of normal pairs with a given rank correlation."""
    return float(2 * np.sin(np.pi * rho / 6))


def rank_correlations(
    draws: np.random.Generator, n: int, n_points: int, effect: float
) -> np.ndarray:
    """Draw Spearman's rho of a rising noisy score over n_points values, one per seed."""
    rising = effect * np.arange(n_points) / (n_points - 1)
    scores = rising + draws.standard_normal((n, n_points))
    return np.array([spearmanr(np.arange(n_points), run).statistic for run in scores])


@lru_cache
def _mean_rank_correlation(n_points: int, effect: float) -> float:
    return float(rank_correlations(np.random.default_rng(0), 20_000, n_points, effect).mean())


def _few_points(draws: np.random.Generator, n: int, n_points: int, effect: float) -> bool:
    estimate = correlation(rank_correlations(draws, n, n_points, effect), n_points)
    return contains(*estimate.interval, _mean_rank_correlation(n_points, effect))


def correlation(values: np.ndarray, n_points: int) -> Estimate:
    """Estimate the mean of rank correlations of so many points."""
    resolution = estimates.rank_resolution(n_points)
    return estimates.mean(values, resolution, estimates.CORRELATIONS)


def _accuracy(draws: np.random.Generator, n: int) -> bool:
    """Check accuracy on items whose difficulty is the same for all seeds; the true mean is 80."""
    difficulty = draws.beta(8, 2, n)
    scores = 100 * (draws.random((3, n)) < difficulty).mean(axis=1)
    return contains(*interval(scores, n, "accuracy"), 80)


def _change(draws: np.random.Generator, n: int) -> bool:
    """Check the difference of two methods on the same items, with three seeds each: one method is
    right a tenth less often on every item, and each seed has a random effect.
    """
    difficulty = draws.beta(8, 2, n)
    right = np.ones(n)
    answers = [
        draws.random((3, n)) < share * difficulty + draws.normal(0, 0.02, (3, 1))
        for share in (1.0, 0.9)
    ]
    per_seed = 100 * (answers[0].mean(axis=1) - answers[1].mean(axis=1))
    resampled = [score_draws("accuracy", a, right, resamples=RESAMPLES) for a in answers]
    estimate = estimates.mean_over_items(per_seed, items_error(*resampled))
    return contains(*estimate.interval, 8)


def _gain(draws: np.random.Generator, n: int) -> bool:
    """Check the gain of a method with three clusterings over one without, on the same pairs."""
    rho = (0.5, RHO)
    x = draws.standard_normal(n)
    shared_noise = draws.standard_normal(n)

    def cosines(r: float) -> np.ndarray:
        noise = 0.8 * shared_noise + 0.6 * draws.standard_normal(n)
        values: np.ndarray = _pearson_of(r) * x + np.sqrt(1 - _pearson_of(r) ** 2) * noise
        return values

    before, after = cosines(rho[0])[None], np.array([cosines(rho[1]) for _ in range(3)])
    resampled = [
        mean_of_seeds(spearman_draws(v, x, resamples=RESAMPLES), seed=s)
        for s, v in enumerate((before, after))
    ]
    return contains(*percentiles(resampled[1] - resampled[0]), rho[1] - rho[0])


def claim(
    kind: str, value: float, every: bool = False, quantity: dict[str, Any] | None = None
) -> Claim:
    """Return a claim over seeds: that a number is 0 within a tolerance, or beyond a bound."""
    test: dict[str, Any] = {"kind": kind, "bound": value, "every": every}
    if kind == "equals":
        test = {"kind": kind, "tolerance": value}
    return Claim.model_validate(
        {
            "id": "c",
            "paper": "p",
            "locator": "",
            "statement": "",
            "unit": "seeds",
            "quantity": quantity or {"table": "t", "column": "x", "where": {}},
            "published": {"value": 0, "source_note": ""} if kind == "equals" else None,
            "test": test,
        }
    )


def word(tested: Claim, estimate: Estimate) -> str:
    """Return the first word of the verdict on an estimate."""
    return judge(tested, estimate, p_value(tested, estimate)).word.split()[0]


def single(draws: np.random.Generator, n_draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Count verdicts on single cases."""
    direction, number = claim("above", 0), claim("equals", 1.0)
    for n in (3, 5, 10):
        for name, effect in (("absent", 0.0), ("as published", 2.0), ("opposite", -2.0)):
            drawn = (estimates.mean(draws.normal(effect, 1, n)) for _ in range(n_draws))
            yield f"direction, {n} seeds, {name}", Counter(word(direction, f) for f in drawn)
        for name, truth in (("equal", 0.0), ("on the edge", 1.0), ("far", 4.0)):
            drawn = (estimates.mean(draws.normal(truth, 0.3, n)) for _ in range(n_draws))
            yield f"number, {n} seeds, {name}", Counter(word(number, f) for f in drawn)


def statements(draws: np.random.Generator, n_draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Count verdicts on statements of 20 cases with five seeds each."""
    direction = claim("above", 0)
    truths = {
        "all absent": np.zeros(20),
        "all as published": np.full(20, 3.0),
        "one of 20 opposite": np.r_[np.full(19, 3.0), -3.0],
        "half absent": np.r_[np.full(10, 3.0), np.zeros(10)],
    }
    for rule in ("all", "pooled"):
        statement = Statement.model_validate({"id": "c", "text": "", "rule": rule})
        for name, effects in truths.items():
            counts: Counter[str] = Counter()
            for _ in range(n_draws):
                drawn = [
                    Case(direction, estimates.mean(draws.normal(effect, 1, 5)), True)
                    for effect in effects
                ]
                judge_cases(drawn)
                counts[judge_statement(statement, drawn, True).verdict.word] += 1
            yield f"rule {rule}, {name}", counts


def false_verdicts(draws: np.random.Generator) -> Iterator[tuple[str, int, Callable[[], bool]]]:
    """Yield name, number of units, and a function that draws data of a study and says whether the
    verdict is firm and false.
    """
    yield from _false_of_seeds(draws)
    for name, correlated in (("AR .5", 0.5), ("AR .8", 0.8), ("random walk", 1.0)):
        for n in (6, 12, 30):
            for statistic in ("mean", "rho", "share"):
                yield (
                    f"{statistic} across layers, {name}",
                    n,
                    lambda n=n, c=correlated, s=statistic: _layers(draws, n, c, s),
                )
    for icc in (0.0, 0.3, 0.6):
        for n in (4, 9, 20):
            yield (
                f"pooled cases that share 3 seeds, intra-class {icc:g}",
                n,
                lambda n=n, icc=icc: _shared_seeds(draws, n, icc),
            )
    yield "pooled cases of 3 models, half of the variance theirs", 27, lambda: _models(draws)
    for n in (100, 400):
        yield "gain of rho over pairs that share texts, 20 each", n, lambda n=n: _texts(draws, n)
    for n in (6, 10):
        for n_methods in (6, 24):
            yield (
                f"best of {n_methods} methods, chosen on other seeds",
                n,
                lambda n=n, m=n_methods: _selected(draws, n, m),
            )


def _false_of_seeds(
    draws: np.random.Generator,
) -> Iterator[tuple[str, int, Callable[[], bool]]]:
    """`false_verdicts` over seeds."""
    above, number = claim("above", 0), claim("equals", 1.0)
    for n in (2, 3, 5, 10, 30):
        yield (
            "direction, normal",
            n,
            lambda n=n: word(above, estimates.mean(draws.normal(0, 1, n))) != "undecided",
        )
        for n_points in (4, 8):
            yield (
                f"direction, rank correlation of {n_points} points",
                n,
                lambda n=n, k=n_points: (
                    word(above, correlation(rank_correlations(draws, n, k, 0), k)) != "undecided"
                ),
            )
    for n in (3, 5, 10):
        yield (
            "a tenth of runs collapses; a typical run is at the tolerance",
            n,
            lambda n=n: word(number, estimates.mean(_collapsing(draws, n))) != "undecided",
        )
        yield (
            "a tenth of runs collapses; their mean is outside, a typical run inside",
            n,
            lambda n=n: (
                word(number, estimates.mean(_collapsing(draws, n, typical=0.5))) == "reproduced"
            ),
        )
        for fails in (0.5, 0.7):
            yield (
                f"in every run, fails in {fails:.0%}",
                n,
                lambda n=n, fails=fails: (
                    word(
                        claim("above", 0, every=True),
                        estimates.mean(np.where(draws.random(n) < fails, -1.0, 1.0)),
                    )
                    == "reproduced"
                ),
            )


def _collapsing(draws: np.random.Generator, n: int, typical: float = 1.0) -> np.ndarray:
    """Draw runs around a value, a tenth of which collapses to 20 below."""
    return typical + draws.normal(0, 0.1, n) - 20.0 * (draws.random(n) < 0.1)


def _layers(draws: np.random.Generator, n: int, correlated: float, statistic: str) -> bool:
    """Check a verdict across layers of one model, measured with three seeds: false is what differs
    from the model's own layers without noise.
    """
    steps = draws.standard_normal(n)
    layers = np.zeros(n)
    for i in range(n):
        layers[i] = (correlated * layers[i - 1] if i else 0) + steps[i]
    layers -= layers.mean() if correlated == 1 else 0
    noise = draws.normal(0, 0.3, (3, n))
    frame = pd.DataFrame(
        {
            "seed": np.repeat(list("012"), n),
            "layer": np.tile(np.arange(n), 3),
            "x": (layers + noise).ravel() + 0.5 * (statistic == "share"),
        }
    )
    quantity = {"table": "t", "column": "x", "where": {}, "across_layers": True}
    bound = 0.5 if statistic == "share" else 0.0
    quantity |= {
        "mean": {},
        "rho": {"against": "layer"},
        "share": {"statistic": "share"},
    }[statistic]
    tested = claim("above", bound, quantity=quantity)
    truth = {
        "mean": layers.mean(),
        "rho": spearmanr(np.arange(n), layers).statistic,
        "share": (layers > 0).mean(),
    }[statistic]
    result = word(tested, estimate_of(tested, frame))
    return result != "undecided" and (result == "reproduced") != (truth > bound)


def _shared_seeds(draws: np.random.Generator, n: int, icc: float) -> bool:
    """Check a pooled statement without effect, whose cases have this share of variance by seed."""
    common = draws.normal(0, np.sqrt(icc), 3)
    values = common + draws.normal(0, np.sqrt(1 - icc), (n, 3))
    drawn = [_case(row, f"model {i}") for i, row in enumerate(values)]
    return _pooled(drawn)


def _models(draws: np.random.Generator) -> bool:
    """Check a pooled statement without effect on nine tasks of three models, three seeds each."""
    values = draws.normal(0, 1, (3, 1, 1)) + draws.normal(0, 1, (3, 9, 3))
    return _pooled([_case(row, str(i)) for i, model in enumerate(values) for row in model])


def _case(values: np.ndarray, model: str) -> Case:
    return Case(claim("above", 0), estimates.mean(values), True, model, ("0", "1", "2"))


def _pooled(drawn: list[Case]) -> bool:
    judge_cases(drawn)
    statement = Statement.model_validate({"id": "c", "text": "", "rule": "pooled"})
    return judge_statement(statement, drawn, True).verdict.word != "undecided"


def _texts(draws: np.random.Generator, n: int) -> bool:
    """Check the gain of one method over another, equally good, on pairs with a text in common."""
    text = np.arange(n) // 20
    parts = [draws.standard_normal(n // 20)[text], draws.standard_normal((2, n // 20))[:, text]]
    x = np.sqrt(0.5) * (parts[0] + draws.standard_normal(n))
    noise = np.sqrt(0.5) * (parts[1] + draws.standard_normal((2, n)))
    cosines = 0.6 * x + 0.8 * noise
    texts = np.stack([text, n + np.arange(n)])
    draws_before, draws_after = spearman_draws(cosines, x, resamples=RESAMPLES)
    rho = [spearmanr(row, x).statistic for row in cosines]
    by_pair = np.diff(spearman_influences(cosines, x), axis=0)[0]
    return not contains(
        *percentiles(widen(draws_after - draws_before, rho[1] - rho[0], by_pair, texts.T)), 0
    )


def _selected(draws: np.random.Generator, n: int, n_methods: int) -> bool:
    """Check that the best of equal methods, chosen on the first half of the seeds, is above another
    on the second half.
    """
    scores, other = draws.standard_normal((n_methods, n)), draws.standard_normal(n)
    best = scores[scores[:, : n // 2].mean(axis=1).argmax()]
    gains = (best - other)[n // 2 :]
    return word(claim("above", 0), estimates.mean(gains)) != "undecided"


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draws = np.random.default_rng(args.seed)
    error = 100 * stats.norm.ppf(0.975) * np.sqrt(0.95 * 0.05 / args.draws)
    print(f"coverage of 95 % intervals, {args.draws} draws (± {error:.1f})")
    for name, n, covers in cases(draws):
        share = np.mean([covers() for _ in range(args.draws)])
        print(f"  {name:60s} n = {n:4d} {100 * share:6.1f} %", flush=True)
    for title, rows in (("one case", single), ("statements of 20 cases", statements)):
        print(f"verdicts on {title}, in percent: {', '.join(WORDS)}")
        for name, counts in rows(draws, args.draws if rows is single else args.draws // 5):
            n_all = counts.total()
            shares = "".join(f"{100 * counts[w] / n_all:8.1f}" for w in WORDS)
            print(f"  {name:44s}{shares}", flush=True)
    print("firm verdicts that are false, in percent (nominal: 5)")
    for name, n, is_false in false_verdicts(draws):
        share = np.mean([is_false() for _ in range(args.draws)])
        print(f"  {name:72s} n = {n:4d} {100 * share:6.1f}", flush=True)


if __name__ == "__main__":
    main()
