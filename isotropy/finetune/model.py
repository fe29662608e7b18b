"""An encoder with the head of a task, its loss and its predictions."""

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
from isotropy.finetune.data import Batch


def load_tokenizer(folder: Path, max_length: int) -> Any:
    """The fast tokenizer of a fetched model.

    Raises:
        IsotropyError: it has no padding token, or the model cannot read inputs of `max_length`.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.pad_token_id is None:
        raise IsotropyError(
            f"the tokenizer of {folder.name} has no padding token: only encoders with one can be "
            "fine-tuned"
        )
    limit = getattr(
        AutoConfig.from_pretrained(folder, local_files_only=True), "max_position_embeddings", None
    )
    if limit is not None and max_length > limit:
        raise IsotropyError(
            f"max_length: {folder.name} reads at most {limit} word pieces, not {max_length}"
        )
    return tokenizer


def load_model(folder: Path, task: str, n_labels: int, seed: int) -> Any:
    """A fetched encoder in float32 with a new head, initialized by the seed.

    Args:
        folder: the fetched model.
        task: single-label, regression or extractive.
        n_labels: classes (single-label).
        seed: of torch's generator, which goes on from here.
    """
    # The head is new, and is meant to be.
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    kind = (
        AutoModelForQuestionAnswering
        if task == "extractive"
        else AutoModelForSequenceClassification
    )
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    config.num_labels = 2 if task == "extractive" else n_labels if task == "single-label" else 1
    torch.manual_seed(seed)
    return kind.from_pretrained(
        folder, config=config, local_files_only=True, use_safetensors=True, dtype=torch.float32
    )


def task_loss(outputs: Any, batch: Batch) -> torch.Tensor:
    """Mean over the batch: cross-entropy, squared error, or the mean of the cross-entropies of an
    answer's two ends.
    """
    if "start_logits" in outputs:
        first, last = batch.targets[:, 0], batch.targets[:, 1]
        ends = functional.cross_entropy(outputs.start_logits, first) + functional.cross_entropy(
            outputs.end_logits, last
        )
        return ends / 2
    if batch.targets.is_floating_point():
        return functional.mse_loss(outputs.logits.squeeze(-1), batch.targets)
    return functional.cross_entropy(outputs.logits, batch.targets)
