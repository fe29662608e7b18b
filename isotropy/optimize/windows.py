"""Scores of many updates from few evaluations: interpolation over time, with a certificate.

While embeddings are trained, the distances between them and their covariance are smooth functions
of the number of updates, for any number of classes. In a window of updates, sums of distances to
each class and the covariance are evaluated at NODES steps, spaced as Chebyshev-Lobatto points, and
interpolated between them by the polynomial through all nodes. The scores of each step follow from
these; their kinks (the nearest other class changes) are not interpolated. Of the interpolated
covariance, sum w_k C_k, IsoScore needs only trace and norm, and so only the traces and scalar
products of C_k. On the CPU the nodes of a window share most of the work on distances, where the
points move in a subspace of low rank (`isotropy.metrics.moving`).

Certificate: what polynomials of degree NODES - 3 leave out is measured by the two highest Chebyshev
coefficients, of T_(q-1) and T_(q-2). With e_i their sum in the mean distances of point i to its own
and the nearest classes, and its residual there, a and b its cohesion and separation,

    |error of s_i| <= 2 e_i / (max(a, b) - e_i)
    |error of IsoScore| <= 2 PR (dt/t + df/f) / (d - 1)

t and f the trace and Frobenius norm of the covariance, dt and df those of its two coefficients,
each taken at its worst over the nodes and moved by the error once more, for the steps between them.
Coefficients of a smooth function decay geometrically, so the interpolant, which includes both, errs
by far less. That they do decay is assumed, not proved: so each window is checked besides, at the
step farthest from its nodes, which is evaluated, too. A window that fails either is walked again,
narrower; below MIN_WIDTH, each step is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.optimize.descent import Descent
from isotropy.optimize.evaluator import Evaluator, Scores
from isotropy.optimize.spec import NODES

RESIDUAL = 0.1
"""Of the tolerance: root mean square residual that the subspace of a window may leave."""
MIN_WIDTH = 16  # updates; a narrower window saves too little
BY_STEPS = 8
"""Updates that are evaluated together where no window fits."""
NO_WINDOWS = {
    "windows": 0,
    "walked_again": 0,
    "evaluations": 0,
    "rank": 0,
    "error_bound": 0.0,
    "error_checked": 0.0,
}
SAFETY = 0.8  # of the width at which the certificate is expected to reach the tolerance


def place_nodes(width: int) -> np.ndarray:
    """Steps of the nodes in a window of `width` updates: Chebyshev-Lobatto points, rounded; 0 and
    `width` among them.
    """
    x = np.cos(np.pi * np.arange(NODES) / (NODES - 1))[::-1]
    nodes = np.rint((x + 1) / 2 * width).astype(int)
    for i in range(1, NODES - 1):  # rounding may put two on one step
        nodes[i] = max(nodes[i], nodes[i - 1] + 1)
    for i in range(NODES - 2, 0, -1):
        nodes[i] = min(nodes[i], nodes[i + 1] - 1)
    return nodes


def interpolation(nodes: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the values at the nodes for the values at `steps`, shape (steps, q), and for the
    two highest coefficients.

    By the Chebyshev basis on [0, last node]. The second, shape (2, q), gives the coefficients of
    T_(q-2) and T_(q-1).
    """

    def basis(t: np.ndarray) -> np.ndarray:
        return np.polynomial.chebyshev.chebvander(2 * t / nodes[-1] - 1, len(nodes) - 1)

    to_coefficients = np.linalg.inv(basis(nodes))
    return basis(steps) @ to_coefficients, to_coefficients[-2:]


class _Start(NamedTuple):
    """What was evaluated directly where the last window ended."""

    step: int
    covariance: torch.Tensor
    sums: torch.Tensor | None
    """Of distances; None where they came with those of the other nodes."""


@dataclass
class Windows:
    """Walks a descent window by window.

    Attributes:
        width: updates in the next window.
        facts: counts and errors so far; kept in checkpoints, so they are those of an undisturbed
            run.
    """

    evaluator: Evaluator
    tolerance: float
    width: int = MIN_WIDTH
    facts: dict[str, Any] = field(default_factory=NO_WINDOWS.copy)
    _start: _Start | None = None

    def walk(self, descent: Descent, left: int) -> list[dict[str, Any]] | None:
        """Walk one window of at most `left` updates; None, and nothing changed, if it had to be
        given up.

        Returns:
            A row for each step after the first.
        """
        width = min(self.width, left)
        nodes, steps = place_nodes(width), np.arange(1, width + 1)
        weights, tails = interpolation(nodes, steps)
        checked = _farthest(nodes)
        first, before = descent.step, descent.state()
        start, rows = self._begin(descent), []
        covariances, clouds = [start.covariance], [descent.model.points().clone()]
        there = None  # what is checked
        for step in steps:
            descent.update()
            rows.append(descent.evaluate())
            if step in nodes:
                covariances.append(self.evaluator.covariance(descent.model))
                clouds.append(descent.model.points().clone())
            elif step == checked:
                there = descent.model.points().clone(), self.evaluator.isoscore(descent.model)
        if there is not None:
            clouds.append(there[0])
        self.facts["evaluations"] += len(clouds) - 1
        sums, residuals = self._sums(clouds, start.sums)
        window = _Window(self.evaluator, torch.stack(covariances), sums[: len(nodes)])
        bound, strain = self._certify(window, tails, weights, residuals)
        error = 0.0
        if there is not None:
            found = Scores(there[1], self.evaluator.silhouette_of(sums[-1]))
            error = _difference(found, window.scores(weights[checked - 1 : checked])[0])
            strain = max(strain, error / self.tolerance)
        growth = SAFETY * max(strain, 1e-12) ** (-1 / (NODES - 2))
        if not strain <= 1:  # nor if it is not a number
            self.facts["walked_again"] += 1
            self.width = int(width * min(max(growth, 0.25), 0.75)) if np.isfinite(growth) else 0
            descent.restore(before, first)
            return None
        for row, scores in zip(rows, window.scores(weights), strict=True):
            row |= scores._asdict()
        self.facts["windows"] += 1
        self.facts["error_bound"] = max(self.facts["error_bound"], bound)
        self.facts["error_checked"] = max(self.facts["error_checked"], error)
        self.width = max(MIN_WIDTH, int(self.width * min(growth, 2.0)))
        last = sums[len(nodes) - 1] if residuals is None else None
        self._start = _Start(descent.step, covariances[-1], last)
        return rows

    def walk_by_steps(self, descent: Descent, n: int) -> list[dict[str, Any]]:
        """Make n updates, with each of them evaluated.

        Returns:
            A row for each.
        """
        clouds, rows = [descent.model.points().clone()], []
        for _ in range(n):
            descent.update()
            row = descent.evaluate()  # first: a loss that is not finite ends the run
            rows.append(row | {"isoscore": self.evaluator.isoscore(descent.model)})
            clouds.append(descent.model.points().clone())
        self.facts["evaluations"] += n
        moving = self.evaluator.moving_sums(clouds, RESIDUAL * self.tolerance)
        if moving is not None:
            errors = self.evaluator.errors_of_sums(moving.residuals)
            bound = self.evaluator.bound_of_silhouette(moving.sums, errors)
            if bound <= self.tolerance:
                self.facts["error_bound"] = max(self.facts["error_bound"], bound)
                for row, sums in zip(rows, moving.sums[1:], strict=True):
                    row["silhouette"] = self.evaluator.silhouette_of(sums)
                return rows
        for row, cloud in zip(rows, clouds[1:], strict=True):
            row["silhouette"] = self.evaluator.silhouette(cloud)
        return rows

    def kept(self, descent: Descent) -> dict[str, Any]:
        """What a checkpoint holds besides the descent."""
        there = self._start if self._start and self._start.step == descent.step else None
        return {
            "width": self.width,
            "facts": self.facts,
            "evaluated": there is not None,
            "sums": there is not None and there.sums is not None,
        }

    def resume(self, descent: Descent, kept: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.width, self.facts = kept["width"], kept["facts"]
        if kept["evaluated"]:  # and counted, before the run was killed
            sums = self.evaluator.sums(descent.model.points()) if kept["sums"] else None
            self._start = _Start(descent.step, self.evaluator.covariance(descent.model), sums)

    def _certify(
        self,
        window: _Window,
        tails: np.ndarray,
        weights: np.ndarray,
        residuals: torch.Tensor | None,
    ) -> tuple[float, float]:
        """The bound on the error of all scores; and the part of the tolerance that interpolation
        takes, of the residuals: those are there at any width.
        """
        certified = max(window.bounds(tails))
        if residuals is None:
            return certified, certified / self.tolerance
        amplified = np.abs(weights).sum(axis=1).max()  # of errors at the nodes, between them
        bound = max(window.bounds(tails, residuals * amplified))
        left_over = max(self.tolerance - (bound - certified), 1e-3 * self.tolerance)
        return bound, certified / left_over

    def _begin(self, descent: Descent) -> _Start:
        """What was evaluated at the first node."""
        if self._start is None or self._start.step != descent.step:
            self.facts["evaluations"] += 1
            self._start = _Start(descent.step, self.evaluator.covariance(descent.model), None)
        return self._start

    def _sums(
        self, clouds: list[torch.Tensor], first: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Sums of distances at all nodes, shape (q, n, K), and the residual of each point; None:
        there is none.

        Args:
            clouds: points at the nodes.
            first: sums at the first one, where they are known.
        """
        moving = self.evaluator.moving_sums(clouds, RESIDUAL * self.tolerance)
        if moving is None:
            known = [] if first is None else [first]
            rest = [self.evaluator.sums(cloud) for cloud in clouds[len(known) :]]
            return torch.stack([*known, *rest]), None
        self.facts["rank"] = max(self.facts["rank"], moving.rank)
        return moving.sums, moving.residuals


class _Window:
    """One window: what was evaluated at its nodes, and the scores and bounds that follow."""

    def __init__(self, evaluator: Evaluator, covariances: torch.Tensor, sums: torch.Tensor) -> None:
        self.evaluator, self.sums, self.d = evaluator, sums, covariances.shape[1]
        flat = covariances.flatten(start_dim=1)
        self.gram = (flat @ flat.T).cpu().numpy()
        self.trace = covariances.diagonal(dim1=1, dim2=2).sum(dim=1).cpu().numpy()

    def scores(self, weights: np.ndarray) -> list[Scores]:
        """Scores at some steps from their weights, shape (steps, q)."""
        ratios = [(own @ self.trace) ** 2 / (own @ self.gram @ own) for own in weights]
        silhouettes = self.evaluator.interpolated_silhouettes(self.sums, weights)
        return [
            Scores(float((ratio - 1) / (self.d - 1)), float(silhouette))
            for ratio, silhouette in zip(ratios, silhouettes, strict=True)
        ]

    def bounds(self, tails: np.ndarray, residuals: torch.Tensor | None = None) -> Scores:
        """The certificate: bounds on the errors of both scores.

        Args:
            tails: the weights of the two highest coefficients.
            residuals: how far each point may be from where its distances were taken, shape (n,).
        """
        t, f = self.trace, np.sqrt(np.diag(self.gram))
        dt, df = (
            np.abs(tails @ t).sum(),
            np.sqrt(np.einsum("ik,kl,il->i", tails, self.gram, tails).clip(min=0)).sum(),
        )
        least_t, least_f = t.min() - dt, f.min() - df  # between the nodes, too
        if least_t <= 0 or least_f <= 0:
            of_isoscore = 1.0
        else:
            of_isoscore = (
                2 * (t.max() + dt) ** 2 / least_f**2 * (dt / least_t + df / least_f) / (self.d - 1)
            )
        errors = torch.stack([self._combine(tail).abs_() for tail in tails]).sum(dim=0)
        if residuals is not None:
            errors += self.evaluator.errors_of_sums(residuals)
        return Scores(float(of_isoscore), self.evaluator.bound_of_silhouette(self.sums, errors))

    def _combine(self, weights: np.ndarray) -> torch.Tensor:
        # A copy: where a row of weights lies in memory must not matter to the product.
        own = torch.tensor(weights, device=self.sums.device)
        combined: torch.Tensor = torch.tensordot(own, self.sums, dims=1)
        return combined


def _farthest(nodes: np.ndarray) -> int:
    """The step in the middle of the widest gap between nodes; 0, a node, if there is none
    between.
    """
    gap = int(np.argmax(np.diff(nodes)))
    middle = int(nodes[gap] + nodes[gap + 1]) // 2
    return middle if middle not in nodes else 0


def _difference(one: Scores, other: Scores) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
