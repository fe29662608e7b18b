"""Cluster-based isotropy enhancement inside a model: applied to the first tokens of each batch,
before the head (Rajaee & Sheikhi 2020, slides).

The slides do not say where in the model the method is applied. Here it changes the input of the
head: the first token of each item, after the last layer of the encoder and before its pooler or
classifier, in training and in evaluation.
"""

from __future__ import annotations

from typing import Any

import torch

from isotropy.errors import IsotropyError
from isotropy.transforms import ClusterBasedEnhancement
from replication.finetune.spec import Method


class BatchClustering:
    """Subtracts cluster means and removes principal components from the first tokens of each batch.

    Gradients flow through the means; the assignment to clusters and the components are treated as
    constants. A batch that is too small for the specified number of clusters has fewer, and a batch
    of one or two items is not changed.

    Attributes:
        last: input of the head in the last forward pass, shape (B, d), without gradient.
    """

    def __init__(self, method: Method, seed: int) -> None:
        assert method.n_clusters is not None
        assert method.n_components is not None
        self.n_clusters, self.n_components, self.seed = method.n_clusters, method.n_components, seed
        self.last = torch.empty(0)

    def attach(self, model: Any) -> None:
        """Insert the method before the head of a model for sequence classification.

        Raises:
            IsotropyError: the model's head does not read the first token.
        """
        base = model.base_model
        heads = (
            getattr(base, "pooler", None),
            getattr(model, "pre_classifier", None),
            getattr(model, "classifier", None),
        )
        head = next((h for h in heads if h is not None), None)
        if head is None:
            raise IsotropyError(
                f"method cluster: expected a model whose head reads the first token, got "
                f"{type(model).__name__}"
            )
        head.register_forward_pre_hook(
            lambda _, inputs: (self._enhance_states(inputs[0]), *inputs[1:])
        )

    def _enhance_states(self, states: torch.Tensor) -> torch.Tensor:
        """Enhance the first tokens of hidden states of shape (B, T, d), or first tokens (B, d)."""
        if states.dim() == 2:
            return self.enhanced(states)
        return torch.cat([self.enhanced(states[:, 0])[:, None], states[:, 1:]], dim=1)

    def enhanced(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the enhanced first tokens of a batch, shape (B, d)."""
        n = len(tokens)
        n_removed = min(self.n_components, n - 2)
        if n < 3:  # one or two points would become zero
            self.last = tokens.detach()
            return tokens
        method = ClusterBasedEnhancement(min(self.n_clusters, n), n_removed, random_state=self.seed)
        method.fit(tokens.detach().float().cpu().numpy())
        labels = torch.from_numpy(method.labels_).long().to(tokens.device)
        result = tokens.clone()
        for c, components in enumerate(method.components_):
            rows = labels == c
            if not bool(rows.any()):
                continue
            centred = tokens[rows] - tokens[rows].mean(dim=0)
            top_components = torch.from_numpy(components).to(tokens)
            result[rows] = centred - (centred @ top_components.T) @ top_components
        self.last = result.detach()
        return result
