"""Scores of many updates from few evaluations: interpolation over time, with error bounds.

While embeddings are trained, the distances between them and their covariance are smooth functions
of the number of updates, for any number of classes. In a window of updates, the sums of distances
to each class and the covariance are evaluated at q = NODES steps, spaced as Chebyshev-Lobatto
points, and interpolated by the polynomial through all nodes. The scores of each step are computed
from the interpolated quantities; the scores themselves have kinks (where the nearest other class
changes) and are not interpolated. IsoScore depends only on trace and Frobenius norm of the
interpolated covariance, sum w_k C_k, and thus on the traces and scalar products of the C_k. On the
CPU the nodes of a window share most of the work on distances if the points move in a subspace of
low rank (`isotropy.metrics.moving`).

Error bound: the remainder of polynomials of degree q - 3 is estimated by the two highest Chebyshev
coefficients, of T_(q-1) and T_(q-2). Let e_i be the sum of their absolute values in the mean
distances of point i to its own and the nearest classes, plus its residual from the subspace, and a
and b the cohesion and separation of the point. Then

    |error of s_i| <= 2 e_i / (max(a, b) - e_i)
    |error of IsoScore| <= 2 PR (dt/t + df/f) / (d - 1)

where PR is the participation ratio, t and f are the trace and Frobenius norm of the covariance, and
dt and df are those of its two coefficients. Each quantity is taken at its worst over the nodes and
moved by its error once more, to cover the steps between them. Coefficients of a smooth function
decay geometrically, so that the interpolant, which includes both terms, has a far smaller error.
This decay is assumed, not proved: each window is therefore also checked at the step farthest from
its nodes, which is evaluated directly. A window that fails either test is repeated with a smaller
width; below MIN_WIDTH, every step is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from replication.optimize.descent import Descent, Evaluation, read_evaluations
from replication.optimize.evaluator import Evaluator, Scores
from replication.optimize.spec import NODES

RESIDUAL_FRACTION = 0.1
"""Root mean square residual allowed for the subspace of a window, as a fraction of the
tolerance."""
MIN_WIDTH = 16  # updates; a narrower window saves too little
DIRECT_UPDATES = 8
"""Number of updates that are evaluated directly at a time where windows cannot be used."""
# Facts before the first window, and of runs without windows
ZERO_FACTS = {
    "windows": 0,
    "walked_again": 0,
    "evaluations": 0,
    "rank": 0,
    "error_bound": 0.0,
    "error_checked": 0.0,
}
SAFETY = 0.8  # fraction of the width at which the error bound is expected to reach the tolerance


def place_nodes(width: int) -> np.ndarray:
    """Return the steps of the nodes in a window of `width` updates: rounded Chebyshev-Lobatto
    points, including 0 and `width`.
    """
    x = np.cos(np.pi * np.arange(NODES) / (NODES - 1))[::-1]
    nodes = np.rint((x + 1) / 2 * width).astype(int)
    for i in range(1, NODES - 1):  # rounding may put two nodes on the same step
        nodes[i] = max(nodes[i], nodes[i - 1] + 1)
    for i in range(NODES - 2, 0, -1):
        nodes[i] = min(nodes[i], nodes[i + 1] - 1)
    return nodes


def interpolation_weights(nodes: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute weights of the values at q nodes that interpolate the values at `steps`.

    Returns:
        Interpolation weights, shape (steps, q); and weights, shape (2, q), that give the two
        highest coefficients, of T_(q-2) and T_(q-1), in the Chebyshev basis on [0, last node].
    """

    def basis(t: np.ndarray) -> np.ndarray:
        return np.polynomial.chebyshev.chebvander(2 * t / nodes[-1] - 1, len(nodes) - 1)

    to_coefficients = np.linalg.inv(basis(nodes))
    return basis(steps) @ to_coefficients, to_coefficients[-2:]


class _FirstNode(NamedTuple):
    """Quantities at the end of the last window, which is the first node of the next one."""

    step: int
    covariance: torch.Tensor
    sums: torch.Tensor | None
    """Sums of distances; None if they were computed together with those of the other nodes."""


@dataclass
class Windows:
    """Advances a descent window by window and computes the scores after each update.

    Attributes:
        width: number of updates in the next window.
        facts: counts and errors so far, which are saved in checkpoints.
    """

    evaluator: Evaluator
    tolerance: float
    width: int = MIN_WIDTH
    facts: dict[str, Any] = field(default_factory=ZERO_FACTS.copy)
    _first_node: _FirstNode | None = None

    def advance_window(self, descent: Descent, max_updates: int) -> list[dict[str, Any]] | None:
        """Advance by one window of at most `max_updates` updates.

        Returns:
            A row for each update; or None, with the descent restored to its previous state, if the
            window does not meet the tolerance.
        """
        width = min(self.width, max_updates)
        nodes, steps = place_nodes(width), np.arange(1, width + 1)
        weights, tail_weights = interpolation_weights(nodes, steps)
        check_step = _step_to_check(nodes)
        first_step, state_before = descent.step, descent.state()
        start = self._evaluate_first_node(descent)
        rows: list[dict[str, Any]] = []
        unread: list[Evaluation] = []
        covariances, clouds = [start.covariance], [descent.model.points().clone()]
        check = None  # points and IsoScore at the step that is checked
        for step in steps:
            descent.update()
            unread.append(descent.evaluate())
            if step in nodes or step == check_step:  # losses first, to stop if one is not finite
                rows, unread = [*rows, *read_evaluations(unread)], []
            if step in nodes:
                covariances.append(self.evaluator.covariance(descent.model))
                clouds.append(descent.model.points().clone())
            elif step == check_step:
                check = descent.model.points().clone(), self.evaluator.isoscore(descent.model)
        clouds += [] if check is None else [check[0]]
        self.facts["evaluations"] += len(clouds) - 1
        sums, residuals = self._distance_sums(clouds, start.sums)
        window = _Window(self.evaluator, torch.stack(covariances), sums[: len(nodes)])
        bound, error_ratio = self._bound_errors(window, tail_weights, weights, residuals)
        error = 0.0
        if check is not None:
            direct = Scores(check[1], self.evaluator.mean_silhouette(sums[-1]))
            error = _max_difference(direct, window.scores(weights[check_step - 1 : check_step])[0])
            error_ratio = max(error_ratio, error / self.tolerance)
        growth = SAFETY * max(error_ratio, 1e-12) ** (-1 / (NODES - 2))
        if not error_ratio <= 1:  # also true if it is NaN
            self.facts["walked_again"] += 1
            self.width = int(width * min(max(growth, 0.25), 0.75)) if np.isfinite(growth) else 0
            descent.restore(state_before, first_step)
            return None
        for row, scores in zip(rows, window.scores(weights), strict=True):
            row |= scores._asdict()
        self._count_window(bound, error)
        self.width = max(MIN_WIDTH, int(self.width * min(growth, 2.0)))
        last_sums = sums[len(nodes) - 1] if residuals is None else None
        self._first_node = _FirstNode(descent.step, covariances[-1], last_sums)
        return rows

    def _count_window(self, bound: float, error: float) -> None:
        self.facts["windows"] += 1
        self.facts["error_bound"] = max(self.facts["error_bound"], bound)
        self.facts["error_checked"] = max(self.facts["error_checked"], error)

    def advance_directly(self, descent: Descent, n: int) -> list[dict[str, Any]]:
        """Make n updates and evaluate each directly.

        Returns:
            A row for each update.
        """
        clouds, rows = [descent.model.points().clone()], []
        for _ in range(n):
            descent.update()
            # The loss first, to stop if it is not finite
            (row,) = read_evaluations([descent.evaluate()])
            rows.append(row | {"isoscore": self.evaluator.isoscore(descent.model)})
            clouds.append(descent.model.points().clone())
        self.facts["evaluations"] += n
        moving = self.evaluator.moving_sums(clouds, RESIDUAL_FRACTION * self.tolerance)
        if moving is not None:
            errors = self.evaluator.bound_sum_errors(moving.residuals)
            bound = self.evaluator.bound_silhouette_error(moving.sums, errors)
            if bound <= self.tolerance:
                self.facts["error_bound"] = max(self.facts["error_bound"], bound)
                for row, sums in zip(rows, moving.sums[1:], strict=True):
                    row["silhouette"] = self.evaluator.mean_silhouette(sums)
                return rows
        for row, cloud in zip(rows, clouds[1:], strict=True):
            row["silhouette"] = self.evaluator.silhouette(cloud)
        return rows

    def saved_state(self, descent: Descent) -> dict[str, Any]:
        """Return the state that a checkpoint stores in addition to that of the descent."""
        first_node = (
            self._first_node if self._first_node and self._first_node.step == descent.step else None
        )
        return {
            "width": self.width,
            "facts": self.facts,
            "evaluated": first_node is not None,
            "sums": first_node is not None and first_node.sums is not None,
        }

    def resume(self, descent: Descent, saved_state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.width, self.facts = saved_state["width"], saved_state["facts"]
        if saved_state["evaluated"]:  # already counted before the run was interrupted
            sums = self.evaluator.sums(descent.model.points()) if saved_state["sums"] else None
            self._first_node = _FirstNode(
                descent.step, self.evaluator.covariance(descent.model), sums
            )

    def _bound_errors(
        self,
        window: _Window,
        tail_weights: np.ndarray,
        weights: np.ndarray,
        residuals: torch.Tensor | None,
    ) -> tuple[float, float]:
        """Bound the errors of all scores in a window.

        Returns:
            The bound; and the error of the interpolation alone, relative to what the residuals,
            which do not depend on the width, leave of the tolerance.
        """
        interpolation_bound = max(window.bounds(tail_weights))
        if residuals is None:
            return interpolation_bound, interpolation_bound / self.tolerance
        amplification = np.abs(weights).sum(axis=1).max()  # largest factor on errors at the nodes
        bound = max(window.bounds(tail_weights, residuals * amplification))
        available = max(self.tolerance - (bound - interpolation_bound), 1e-3 * self.tolerance)
        return bound, interpolation_bound / available

    def _evaluate_first_node(self, descent: Descent) -> _FirstNode:
        """Return the quantities at the first node of a window; evaluate them if they are not
        known.
        """
        if self._first_node is None or self._first_node.step != descent.step:
            self.facts["evaluations"] += 1
            self._first_node = _FirstNode(
                descent.step, self.evaluator.covariance(descent.model), None
            )
        return self._first_node

    def _distance_sums(
        self, clouds: list[torch.Tensor], first: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Compute the sums of distances at all nodes, shape (q, n, K), and the residual of each
        point, shape (n,), or None where the sums are exact.

        Args:
            clouds: points at the nodes.
            first: sums at the first node, if they are known.
        """
        moving = self.evaluator.moving_sums(clouds, RESIDUAL_FRACTION * self.tolerance)
        if moving is None:
            known_sums = [] if first is None else [first]
            other_sums = [self.evaluator.sums(cloud) for cloud in clouds[len(known_sums) :]]
            return torch.stack([*known_sums, *other_sums]), None
        self.facts["rank"] = max(self.facts["rank"], moving.rank)
        return moving.sums, moving.residuals


class _Window:
    """One window: the quantities at its nodes, and the scores and error bounds that follow."""

    def __init__(self, evaluator: Evaluator, covariances: torch.Tensor, sums: torch.Tensor) -> None:
        self.evaluator, self.sums, self.d = evaluator, sums, covariances.shape[1]
        flat = covariances.flatten(start_dim=1)
        self.gram = (flat @ flat.T).cpu().numpy()
        self.trace = covariances.diagonal(dim1=1, dim2=2).sum(dim=1).cpu().numpy()

    def scores(self, weights: np.ndarray) -> list[Scores]:
        """Compute the scores at some steps from their interpolation weights, shape (steps, q)."""
        ratios = [(row @ self.trace) ** 2 / (row @ self.gram @ row) for row in weights]
        silhouettes = self.evaluator.interpolated_silhouettes(self.sums, weights)
        return [
            Scores(float((ratio - 1) / (self.d - 1)), float(silhouette))
            for ratio, silhouette in zip(ratios, silhouettes, strict=True)
        ]

    def bounds(self, tail_weights: np.ndarray, residuals: torch.Tensor | None = None) -> Scores:
        """Bound the errors of both scores.

        Args:
            tail_weights: weights that give the two highest Chebyshev coefficients, shape (2, q).
            residuals: bounds on the distance between the position of each point and that from which
                its distances were computed, shape (n,); None: zero.
        """
        t, f = self.trace, np.sqrt(np.diag(self.gram))
        dt, df = (
            np.abs(tail_weights @ t).sum(),
            np.sqrt(
                np.einsum("ik,kl,il->i", tail_weights, self.gram, tail_weights).clip(min=0)
            ).sum(),
        )
        min_t, min_f = t.min() - dt, f.min() - df  # also between the nodes
        if min_t <= 0 or min_f <= 0:
            isoscore_error = 1.0
        else:
            isoscore_error = (
                2 * (t.max() + dt) ** 2 / min_f**2 * (dt / min_t + df / min_f) / (self.d - 1)
            )
        errors = torch.stack([self._combine(weights).abs_() for weights in tail_weights]).sum(dim=0)
        if residuals is not None:
            errors += self.evaluator.bound_sum_errors(residuals)
        return Scores(
            float(isoscore_error), self.evaluator.bound_silhouette_error(self.sums, errors)
        )

    def _combine(self, weights: np.ndarray) -> torch.Tensor:
        """Combine the sums of distances at the nodes linearly, with weights of shape (q,)."""
        # A copy, since the rounding of the product depends on the alignment of its operands.
        weights_copy = torch.tensor(weights, device=self.sums.device)
        combined: torch.Tensor = torch.tensordot(weights_copy, self.sums, dims=1)
        return combined


def _step_to_check(nodes: np.ndarray) -> int:
    """Return the step in the middle of the widest gap between nodes; 0, which is a node, if there
    is no step between nodes.
    """
    gap = int(np.argmax(np.diff(nodes)))
    middle = int(nodes[gap] + nodes[gap + 1]) // 2
    return middle if middle not in nodes else 0


def _max_difference(direct: Scores, interpolated: Scores) -> float:
    """Return the largest absolute difference of the two scores."""
    return max(abs(a - b) for a, b in zip(direct, interpolated, strict=True))
