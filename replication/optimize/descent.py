"""Gradient descent on embeddings and a linear classifier: full-batch Adam with PyTorch's defaults
(Mickus et al. 2024, section 3.1).

A pair is represented by the concatenation (u, v) of its two vectors. Its logits W_u u + W_v v are
computed for each distinct vector and then gathered. So an update never builds the n x 2d matrix of
pairs, and the backward pass scatters only n_labels columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from isotropy.errors import IsotropyError
from replication.optimize.spec import Control, OptimizeSpec

State = dict[str, torch.Tensor]


class Items(NamedTuple):
    """Vectors and targets of the items of a data set."""

    vectors: np.ndarray
    """Initial vectors of the distinct texts, shape (u, d), float32."""
    rows: np.ndarray
    """Rows of `vectors` that make up each item, shape (n, 1), or (n, 2) for pairs, int64."""
    targets: np.ndarray
    """Class numbers, shape (n,), for cross-entropy; label indicators, shape (n, n_labels), for
    binary cross-entropy."""


class Classifier(nn.Module):
    """Trainable vectors, shape (u, d), and a linear classifier of the items that consist of
    them.
    """

    def __init__(
        self, vectors: np.ndarray, rows: np.ndarray, n_labels: int, *, bias: bool, seed: int
    ) -> None:
        super().__init__()
        # Copied to torch's aligned memory, since the rounding of products depends on alignment.
        self.embeddings = nn.Parameter(torch.tensor(vectors, dtype=torch.float32))
        # Default initialization, which depends on nothing but this seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.linear = nn.Linear(rows.shape[1] * vectors.shape[1], n_labels, bias=bias)
        self.rows: torch.Tensor
        self.register_buffer("rows", torch.from_numpy(rows.T.copy()))
        self.one_to_one = rows.shape[1] == 1 and np.array_equal(rows[:, 0], np.arange(len(vectors)))

    def forward(self) -> torch.Tensor:
        """Compute the logits of all items, shape (n, n_labels)."""
        if self.one_to_one:
            logits: torch.Tensor = self.linear(self.embeddings)
            return logits
        n_labels, d = len(self.linear.weight), self.embeddings.shape[1]
        # One product for both vectors of pairs: its backward pass computes their gradient once.
        weight = self.linear.weight.view(n_labels, -1, d).transpose(0, 1).reshape(-1, d)
        all_projections = functional.linear(self.embeddings, weight)
        projections = all_projections.split(n_labels, dim=1)  # type: ignore[no-untyped-call]
        logits = torch.index_select(projections[0], 0, self.rows[0])
        for projection, rows in zip(projections[1:], self.rows[1:], strict=True):
            logits = logits + torch.index_select(projection, 0, rows)
        return logits if self.linear.bias is None else logits + self.linear.bias

    def points(self, items: torch.Tensor | None = None) -> torch.Tensor:
        """Return the points of some items (default: all), shape (n, d), or (n, 2d) for pairs,
        without gradient.
        """
        vectors = self.embeddings.detach()
        if self.one_to_one:
            return vectors if items is None else vectors[items]
        rows = self.rows if items is None else self.rows[:, items]
        return torch.cat([vectors[r] for r in rows], dim=1)

    def n_params(self) -> int:
        """Return the number of trainable parameters, as in the paper's Tables 1 and 2."""
        return sum(p.numel() for p in self.parameters())


class Evaluation(NamedTuple):
    """Loss and accuracy after a step, on the device, shape (2,), float64. They are not read at
    once: to read a number, a GPU must be waited for.
    """

    step: int
    values: torch.Tensor


def read_evaluations(evaluations: list[Evaluation]) -> list[dict[str, Any]]:
    """Read evaluations from their device: step, loss and accuracy of each.

    Raises:
        IsotropyError: a loss is not finite.
    """
    if not evaluations:
        return []
    values = torch.stack([evaluation.values for evaluation in evaluations]).tolist()
    rows = []
    for (step, _), (loss, accuracy) in zip(evaluations, values, strict=True):
        if not np.isfinite(loss):
            raise IsotropyError(
                f"the loss is {loss} at update {step}: training diverged; lower the learning rate"
            )
        rows.append({"step": step, "loss": loss, "accuracy": accuracy})
    return rows


class Descent:
    """A classifier in training: the model, its optimizer and the number of updates made.

    Raises:
        IsotropyError: the targets do not fit the loss, or are all equal.
    """

    def __init__(
        self, spec: OptimizeSpec, items: Items, n_labels: int, device: torch.device
    ) -> None:
        if (spec.loss == "cross_entropy") != (items.targets.ndim == 1):
            raise IsotropyError(
                f"setup {spec.setup}: loss {spec.loss} does not fit targets of shape "
                f"{items.targets.shape}"
            )
        if len(np.unique(items.targets, axis=0)) < 2:
            raise IsotropyError(
                f"setup {spec.setup}: all items have the same label, there is nothing to classify"
            )
        vectors = items.vectors
        if spec.mean_norm is not None:
            mean = np.linalg.norm(vectors, axis=1).mean(dtype=np.float64)
            vectors = vectors * (spec.mean_norm / mean).astype(np.float32)
        self.model = Classifier(vectors, items.rows, n_labels, bias=spec.bias, seed=spec.seed).to(
            device
        )
        self.adam = torch.optim.Adam(self.model.parameters(), lr=spec.learning_rate, fused=True)
        self.targets = torch.from_numpy(items.targets).to(device)
        self.step = 0
        self._loss: torch.Tensor | None = None

    def evaluate(self) -> Evaluation:
        """Compute loss and accuracy: the fraction of correct decisions, of which there is one per
        item, or one per item and label.
        """
        logits, targets = self.model(), self.targets
        if targets.ndim == 1:
            self._loss = functional.cross_entropy(logits, targets)
            correct = logits.argmax(dim=1) == targets
        else:
            self._loss = functional.binary_cross_entropy_with_logits(logits, targets)
            correct = (logits > 0) == (targets > 0.5)
        loss = self._loss.detach().double()
        return Evaluation(self.step, torch.stack([loss, correct.double().mean()]))

    def update(self) -> None:
        """Make one update of all parameters."""
        if self._loss is None:
            self.evaluate()
        assert self._loss is not None
        self.adam.zero_grad(set_to_none=True)
        torch.autograd.backward(self._loss)
        self.adam.step()
        self.step, self._loss = self.step + 1, None

    def state(self) -> State:
        """Return copies of the parameters and of Adam's moments."""
        state = {
            f"parameter.{name}": p.detach().clone() for name, p in self.model.named_parameters()
        }
        for name, p in self.model.named_parameters():
            state |= {
                f"adam.{key}.{name}": value.clone() for key, value in self.adam.state[p].items()
            }
        return state

    def restore(self, state: State, step: int) -> None:
        """Restore a state from `state` after `step` updates; the state itself is not modified."""
        moments: dict[int, dict[str, torch.Tensor]] = {}
        with torch.no_grad():
            for i, (name, p) in enumerate(self.model.named_parameters()):
                p.copy_(state[f"parameter.{name}"])
                if step:
                    moments[i] = {
                        key: state[f"adam.{key}.{name}"].clone()
                        for key in ("step", "exp_avg", "exp_avg_sq")
                    }
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})
        self.step, self._loss = step, None


def control_items(items: Items, control: Control, seed: int) -> Items:
    """Make the items of a control.

    Shuffled labels: a random part of the items, whose targets are permuted among them. Noise:
    normal vectors, scaled to the root mean square norm of the data set's, so that an update is as
    large beside them, with random targets of classes of equal size.

    Args:
        items: the data set, with class numbers as targets.
        control: kind and sizes.
        seed: seed of the part, the permutation and the noise.
    """
    rng = np.random.default_rng(seed)
    n = min(control.n_items, len(items.targets))
    chosen = np.sort(rng.permutation(len(items.targets))[:n])
    if control.kind == "shuffled":
        distinct, rows = np.unique(items.rows[chosen], return_inverse=True)
        targets = rng.permutation(items.targets[chosen])
        return Items(items.vectors[distinct], rows.reshape(n, -1), targets)
    d = control.dimensions or items.vectors.shape[1]
    n_classes = control.n_classes or len(np.unique(items.targets))
    length = np.sqrt(np.square(items.vectors, dtype=np.float64).sum(axis=1).mean())
    deviations = control.decay ** np.arange(d)
    vectors = rng.standard_normal((n, d)) * (length * deviations / np.linalg.norm(deviations))
    targets = rng.permutation(np.arange(n) % n_classes)
    return Items(vectors.astype(np.float32), np.arange(n)[:, None], targets)
