"""Cluster-based enhancement inside a model: of the first tokens of a batch, before the head (Rajaee
& Sheikhi 2020, slides).

The slides do not say at which point the method stands. Here it changes what the head reads of the
last layer: the first token of each item, after the encoder and before its pooler or classifier, in
training and in evaluation.
"""

from __future__ import annotations

from typing import Any

import torch

from isotropy.errors import IsotropyError
from isotropy.finetune.spec import Method
from isotropy.transforms import ClusterBasedEnhancement


class BatchClustering:
    """Subtracts cluster means and removes principal components from the first tokens of each batch.

    Means are differentiated, clusters and components are constants of the batch, found without a
    gradient. A batch that is too small for the wanted clusters has fewer, and one of one or two
    items is left as it is.

    Attributes:
        last: what the head read of the last batch, shape (B, d), without gradient.
    """

    def __init__(self, method: Method, seed: int) -> None:
        assert method.n_clusters is not None
        assert method.n_components is not None
        self.n_clusters, self.n_components, self.seed = method.n_clusters, method.n_components, seed
        self.last = torch.empty(0)

    def attach(self, model: Any) -> None:
        """Stand before the head of a model for classification.

        Raises:
            IsotropyError: a model whose head reads something else than the first token.
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
        head.register_forward_pre_hook(lambda _, read: (self._changed(read[0]), *read[1:]))

    def _changed(self, states: torch.Tensor) -> torch.Tensor:
        """First tokens changed, of states (B, T, d) or (B, d)."""
        if states.dim() == 2:
            return self.enhanced(states)
        return torch.cat([self.enhanced(states[:, 0])[:, None], states[:, 1:]], dim=1)

    def enhanced(self, tokens: torch.Tensor) -> torch.Tensor:
        """First tokens of a batch, shape (B, d), after the method."""
        n = len(tokens)
        removed = min(self.n_components, n - 2)
        if n < 3:  # nothing would be left of one or two
            self.last = tokens.detach()
            return tokens
        method = ClusterBasedEnhancement(min(self.n_clusters, n), removed, random_state=self.seed)
        method.fit(tokens.detach().float().cpu().numpy())
        labels = torch.from_numpy(method.labels_).long().to(tokens.device)
        result = tokens.clone()
        for c, components in enumerate(method.components_):
            rows = labels == c
            if not bool(rows.any()):
                continue
            centred = tokens[rows] - tokens[rows].mean(dim=0)
            top = torch.from_numpy(components).to(tokens)
            result[rows] = centred - (centred @ top.T) @ top
        self.last = result.detach()
        return result
