"""Coverage of confidence intervals and error rates of verdicts, on synthetic data with known truth.

    python benchmarks/verdicts.py [--draws 1000] [--seed 0]

First table: share of 95 % intervals that contain the true value, by method and sample size, which
should be near 95. Second: shares of verdicts if the effect is absent, as published, or the
opposite. Third: the same for statements of several cases. The numbers are in docs/verdicts.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from isotropy.claims import estimate as estimates
from isotropy.claims.estimate import Estimate
from isotropy.claims.judge import judge, p_value
from isotropy.claims.spec import Claim, Statement
from isotropy.claims.statements import Case, judge_cases, judge_statement
from isotropy.tables.bootstrap import (
    items_error,
    mean_of_seeds,
    percentiles,
    score_draws,
    spearman_draws,
)
from isotropy.tables.items import interval

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
            "correlation over seeds (t on Fisher's scale)",
            n,
            lambda n=n: contains(
                *estimates.mean(np.tanh(draws.normal(2, 0.3, n)), correlation=True).interval,
                float(np.tanh(2)),
            ),
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
    for n in (6, 12):
        yield (
            "share of layers, 0.7 (Clopper-Pearson)",
            n,
            lambda n=n: contains(*estimates.share(int(draws.binomial(n, 0.7)), n).interval, 0.7),
        )
    for n in (7, 12, 30):
        yield "rank correlation over layers, 0.6 (Bonett-Wright)", n, lambda n=n: _ranks(draws, n)
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


def _ranks(draws: np.random.Generator, n: int) -> bool:
    estimate = estimates.rank_correlation(*_normal_pairs(draws, n, _pearson_of(RHO)))
    return contains(*estimate.interval, RHO)


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


def claim(kind: str, value: float) -> Claim:
    """Return a claim on the mean over seeds."""
    test = (
        {"kind": "equals", "tolerance": value} if kind == "equals" else {"kind": kind, "bound": 0}
    )
    return Claim.model_validate(
        {
            "id": "c",
            "paper": "p",
            "locator": "",
            "statement": "",
            "unit": "seeds",
            "quantity": {"table": "t", "column": "x", "where": {}},
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


if __name__ == "__main__":
    main()
