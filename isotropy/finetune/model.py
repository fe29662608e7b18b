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

from isotropy.embed.linear import use_onednn_where_faster
from isotropy.embed.sentence_encoder import longest_text
from isotropy.errors import IsotropyError
from isotropy.finetune.data import Batch

PADDING = "<pad>"
"""Added to tokenizers that have no padding token, as those of GPT and GPT-2."""


def load_tokenizer(folder: Path, max_length: int) -> Any:
    """The fast tokenizer of a fetched model, with a padding token: where it has none, a new one
    behind its vocabulary. None of its own would do: a head that reads the last token finds it by
    what is not padding, and texts may end with any of them.

    Raises:
        IsotropyError: the model cannot read inputs of `max_length`.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.pad_token_id is None:
        tokenizer.add_special_tokens({"pad_token": PADDING})
    limit = longest_text(AutoConfig.from_pretrained(folder, local_files_only=True))
    if max_length > limit:
        raise IsotropyError(
            f"max_length: {folder.name} reads at most {limit} word pieces, not {max_length}"
        )
    return tokenizer


def load_model(folder: Path, task: str, n_labels: int, seed: int, pad: int) -> Any:
    """A fetched model in float32 with a new head, initialized by the seed.

    Args:
        folder: the fetched model.
        task: single-label, regression or extractive.
        n_labels: classes (single-label).
        seed: of torch's generator, which goes on from here.
        pad: id of the padding token; the model gets an embedding for one that it does not know.
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
    model = kind.from_pretrained(
        folder, config=config, local_files_only=True, use_safetensors=True, dtype=torch.float32
    )
    model.config.pad_token_id = pad
    if pad >= model.config.vocab_size:
        model.resize_token_embeddings(pad + 1, mean_resizing=False)
    use_onednn_where_faster(model)
    return model


def reads_last(model: Any) -> bool:
    """Whether the last token of a text stands for it, as in models that read from left to right;
    the first token of encoders.

    Args:
        model: as `load_model` gives it.
    """
    return hasattr(model, "score") or model.config.model_type in LEFT_TO_RIGHT


LEFT_TO_RIGHT = ("gpt2", "gpt_neo", "gptj", "llama")
"""Kinds of models with a head for spans whose first token knows nothing of what follows."""


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
