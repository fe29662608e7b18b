"""Loading of models with a task head, and the loss of a task."""

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
from replication.finetune.data import Batch
from replication.finetune.spec import Method

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
        The `replication.finetune.batch_enhancement.BatchClustering`; None for other methods.
    """
    if method.kind != "cluster":
        return None
    from replication.finetune.batch_enhancement import BatchClustering  # loads scikit-learn

    clustering = BatchClustering(method, seed)
    clustering.attach(model)
    return clustering


def reads_last(model: Any) -> bool:
    """Return whether a text is represented by its last token, as in left-to-right models, rather
    than by its first, as in encoders.

    Args:
        model: a model from `load_model`.
    """
    return hasattr(model, "score") or model.config.model_type in LEFT_TO_RIGHT


LEFT_TO_RIGHT = ("gpt2", "gpt_neo", "gptj", "llama")
"""Types of left-to-right models with a head for answer spans."""


def task_loss(outputs: Any, batch: Batch) -> torch.Tensor:
    """Compute the mean loss of a batch: cross-entropy for classes, squared error for scores, or the
    mean of the cross-entropies of start and end for answers.
    """
    if "start_logits" in outputs:
        logits = (outputs.start_logits, outputs.end_logits)
        ends = [
            functional.cross_entropy(one, targets)
            for one, targets in zip(logits, batch.targets.T, strict=True)
        ]
        return (ends[0] + ends[1]) / 2
    if batch.targets.is_floating_point():
        return functional.mse_loss(outputs.logits.squeeze(-1), batch.targets)
    return functional.cross_entropy(outputs.logits, batch.targets)
