"""Scores of many updates from few evaluations: interpolation over time, with a certificate.

While embeddings are trained, the distances between them and their covariance are smooth functions
of the number of updates, for any number of classes. In a window of updates, sums of distances to
each class and the covariance are evaluated at NODES steps, spaced as Chebyshev-Lobatto points, and
interpolated between them by the polynomial through all nodes. The scores of each step follow from
these; their kinks (the nearest other class changes) are not interpolated. Of the interpolated
covariance, sum w_k C_k, IsoScore needs only trace and norm, and so only the traces and scalar
products of C_k.

Certificate: what polynomials of degree NODES - 3 leave out is measured by the two highest Chebyshev
    coefficients, of
T_(q-1) and T_(q-2). With e_i their sum in the mean distances of point i to its own and the nearest
classes, a and b its cohesion and separation,

    |error of s_i| <= 2 e_i / (max(a, b) - e_i)
    |error of IsoScore| <= 2 PR (dt/t + df/f) / (d - 1)

t and f the trace and Frobenius norm of the covariance, dt and df those of its two coefficients,
each taken at its worst over the nodes and moved by the error once more, for the steps between them.
Coefficients of a smooth function decay geometrically, so the interpolant, which includes both, errs
by far less. That they do decay is assumed, not proved: so each window is checked besides, at the
step farthest from its nodes, by direct evaluation. A window that fails either is walked again,
narrower; below MIN_WIDTH, steps are evaluated one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.optimize.descent import Descent
from isotropy.optimize.evaluator import Evaluator, Scores

NODES = 9
MIN_WIDTH = 16  # updates; a narrower window saves too little
NO_WINDOWS = {
    "windows": 0,
    "walked_again": 0,
    "evaluations": 0,
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


class Evaluated(NamedTuple):
    """What was evaluated at one or, stacked, at all nodes."""

    covariance: torch.Tensor
    sums: torch.Tensor


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
    _start: tuple[int, Evaluated] | None = None  # where the last window ended

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
        held, rows = [self._evaluate(descent)], []
        there = None
        for step in steps:
            descent.update()
            rows.append(descent.evaluate())
            if step in nodes:
                held.append(self._evaluate(descent))
            elif step == checked:
                there = self.evaluator.scores(descent.model, descent.step)
                self.facts["evaluations"] += 1
        window = _Window(
            self.evaluator, Evaluated(*(torch.stack(parts) for parts in zip(*held, strict=True)))
        )
        bound = max(window.bounds(tails))
        error = (
            _difference(there, window.scores(weights[checked - 1])) if there is not None else 0.0
        )
        strain = max(bound, error) / self.tolerance
        growth = SAFETY * max(strain, 1e-12) ** (-1 / (NODES - 2))
        if not strain <= 1:  # nor if it is not a number
            self.facts["walked_again"] += 1
            self.width = int(width * min(max(growth, 0.25), 0.75)) if np.isfinite(growth) else 0
            descent.restore(before, first)
            return None
        for step, row in zip(steps, rows, strict=True):
            row |= window.scores(weights[step - 1])._asdict()
        self.facts["windows"] += 1
        self.facts["error_bound"] = max(self.facts["error_bound"], bound)
        self.facts["error_checked"] = max(self.facts["error_checked"], error)
        self.width = max(MIN_WIDTH, int(self.width * min(growth, 2.0)))
        self._start = (descent.step, held[-1])
        return rows

    def kept(self, descent: Descent) -> dict[str, Any]:
        """What a checkpoint holds besides the descent."""
        return {
            "width": self.width,
            "facts": self.facts,
            "evaluated": self._start is not None and self._start[0] == descent.step,
        }

    def resume(self, descent: Descent, kept: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.width, self.facts = kept["width"], kept["facts"]
        if kept["evaluated"]:  # and counted, before the run was killed
            self._start = (
                descent.step,
                Evaluated(
                    self.evaluator.covariance(descent.model), self.evaluator.sums(descent.model)
                ),
            )

    def _evaluate(self, descent: Descent) -> Evaluated:
        if self._start is not None and self._start[0] == descent.step:
            return self._start[1]
        self.facts["evaluations"] += 1
        return Evaluated(
            self.evaluator.covariance(descent.model), self.evaluator.sums(descent.model)
        )


class _Window:
    """One window: what was evaluated at its nodes, and the scores and bounds that follow."""

    def __init__(self, evaluator: Evaluator, nodes: Evaluated) -> None:
        self.evaluator, self.sums, self.d = evaluator, nodes.sums, nodes.covariance.shape[1]
        flat = nodes.covariance.flatten(start_dim=1)
        self.gram = (flat @ flat.T).cpu().numpy()
        self.trace = nodes.covariance.diagonal(dim1=1, dim2=2).sum(dim=1).cpu().numpy()

    def scores(self, weights: np.ndarray) -> Scores:
        """Scores at a step from its weights, shape (q,)."""
        ratio = (weights @ self.trace) ** 2 / (weights @ self.gram @ weights)
        return Scores(
            float((ratio - 1) / (self.d - 1)), self.evaluator.silhouette_of(self._combine(weights))
        )

    def bounds(self, tails: np.ndarray) -> Scores:
        """The certificate: bounds on the errors of both scores. `tails`: the weights of the two
        highest coefficients.
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
        codes = self.evaluator.codes.to(self.sums.device)
        sizes = torch.bincount(codes).double()
        own = torch.nn.functional.one_hot(codes, len(sizes)).bool()
        counted = torch.where(own, (sizes - 1).clamp(min=1), sizes)
        e = torch.stack([self._combine(tail).abs_() for tail in tails]).sum(dim=0) / counted
        least = torch.full_like(e, torch.inf)  # of each mean distance, over the nodes
        larger, farthest = least[:, 0].clone(), torch.zeros_like(least[:, 0])
        for sums in self.sums:
            means = (sums / counted).masked_fill(own, torch.inf)
            separation = means.amin(dim=1)
            larger = torch.minimum(larger, torch.maximum((sums / counted)[own], separation))
            farthest = torch.maximum(farthest, (means + e).amin(dim=1))
            least = torch.minimum(least, means)
        may_be_nearest = own | (least - e <= farthest[:, None])
        e = e.masked_fill(~may_be_nearest, 0).amax(dim=1)
        least_larger = larger - e  # between the nodes, too
        # A score is in [-1, 1]
        point = torch.where(least_larger > e, 2 * e / (least_larger - e), 2.0).clamp(max=2.0)
        return Scores(float(of_isoscore), float(point.mean()))

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
