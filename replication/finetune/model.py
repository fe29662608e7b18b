"""Loading of models with a task head, the loss of a task, and the cluster-based method inside.

The slides of Rajaee & Sheikhi do not say where the method is applied. Here it changes the input of
the head: the first token of each item, after the last layer of the encoder, in training and in
evaluation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from isotropy.errors import IsotropyError
from isotropy.models.loading import LoadedModel, load_weights
from isotropy.models.sentence_encoder import max_input_tokens
from isotropy.transforms import ClusterBasedEnhancement
from replication.finetune.data import Batch
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


PADDING = "<pad>"
"""Padding token that is added to tokenizers without one, such as those of GPT and GPT-2."""


def load_tokenizer(folder: Path, max_length: int) -> Any:
    """Load the fast tokenizer of a fetched model. If it has no padding token, a new one is appended
    to the vocabulary. An existing token cannot serve as padding: heads that read the last token
    take the last one that is not padding, and a text may end with any existing token.

    Raises:
        IsotropyError: `max_length` exceeds the maximum input length of the model.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.pad_token_id is None:
        tokenizer.add_special_tokens({"pad_token": PADDING})
    limit = max_input_tokens(AutoConfig.from_pretrained(folder, local_files_only=True))
    if max_length > limit:
        raise IsotropyError(
            f"max_length: {folder.name} reads at most {limit} word pieces, not {max_length}"
        )
    return tokenizer


def load_model(folder: Path, task: str, n_labels: int, seed: int, pad: int) -> LoadedModel:
    """Load a fetched model in float32 with a new, randomly initialized head.

    Args:
        folder: the fetched model.
        task: single-label, regression or extractive.
        n_labels: number of classes (single-label).
        seed: random seed; the state of torch's global generator is set with it.
        pad: id of the padding token; if the model has no embedding for it, one is added.
    """
    # No warning that the weights of the head are new
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    model_class = (
        AutoModelForQuestionAnswering
        if task == "extractive"
        else AutoModelForSequenceClassification
    )
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    config.num_labels = 2 if task == "extractive" else n_labels if task == "single-label" else 1
    torch.manual_seed(seed)
    model, weights = load_weights(
        model_class, folder, config=config, use_safetensors=True, dtype=torch.float32
    )
    model.config.pad_token_id = pad
    if pad >= model.config.vocab_size:
        model.resize_token_embeddings(pad + 1, mean_resizing=False)
    return LoadedModel(model, weights)


def attach_clustering(model: Any, method: Method, seed: int) -> Any:
    """Let the head of a model read first tokens from which clusters of their batch have been
    removed, if the method does that.

    Returns:
        The `BatchClustering`; None for other methods.
    """
    if method.kind != "cluster":
        return None
    clustering = BatchClustering(method, seed)
    clustering.attach(model)
    return clustering


@torch.inference_mode()
def reads_last(model: Any) -> bool:
    """Return whether a text is represented by its last token rather than by its first, as in
    left-to-right models: those whose first token's state does not depend on later tokens.

    Args:
        model: a model from `load_model`, in evaluation mode.
    """
    first_states = []
    for later_tokens in ([4, 5, 6], [7, 8, 9]):
        ids = torch.tensor([[3, *later_tokens]], device=model.device)
        outputs = model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))
        first_states.append(outputs[0][:, 0])
    return torch.allclose(*first_states)


def task_loss(outputs: Any, batch: Batch) -> torch.Tensor:
    """Compute the mean loss of a batch: cross-entropy for classes, squared error for scores, or the
    mean of the cross-entropies of start and end for answers.
    """
    if "start_logits" in outputs:
        logits = (outputs.start_logits, outputs.end_logits)
        ends = [
            functional.cross_entropy(scores, targets)
            for scores, targets in zip(logits, batch.targets.T, strict=True)
        ]
        return (ends[0] + ends[1]) / 2
    if batch.targets.is_floating_point():
        return functional.mse_loss(outputs.logits.squeeze(-1), batch.targets)
    return functional.cross_entropy(outputs.logits, batch.targets)
