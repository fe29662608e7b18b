"""Tokenized data sets of a task, and padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from isotropy.device import to_device
from isotropy.models.batches import pad_rows
from replication.finetune.question_answering import Window, windows
from replication.finetune.spec import Training
from replication.prepare.table import Dataset, read_items, targets, text_rows


@dataclass
class Inputs:
    """Tokenized data set: one row per item or, for extractive tasks, per window of a context.

    Attributes:
        task: single-label, regression or extractive.
        ids: ids of the word pieces of each row, special tokens included.
        types: token type ids (the sentence of a pair that each piece is in); None if the model is
            not given them.
        targets: class numbers (n,), scores (n,), or first and last word piece of the answer (n, 2).
        windows: the window of a context that each row is (extractive tasks).
        answers: reference answers of each item (extractive tasks).
    """

    task: str
    ids: list[list[int]]
    types: list[list[int]] | None
    targets: np.ndarray
    windows: list[Window]
    answers: list[list[str]]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Batch:
    """A padded batch on a device.

    Attributes:
        positions: indices of the tokens that are not padding in the flattened mask, shape
            (tokens,): without them, whoever selects by the mask must wait for a GPU.
    """

    model_inputs: dict[str, torch.Tensor]
    targets: torch.Tensor
    positions: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """Attention mask, shape (B, T): 1 for tokens and 0 for padding."""
        return self.model_inputs["attention_mask"]


class TaskData(NamedTuple):
    """The training or validation data of a task."""

    inputs: Inputs
    dataset: Dataset
    contexts: list[str]
    """Context of each item of an extractive task; empty for other tasks."""
    n_items: int
    n_available: int
    """Number of items in the data set, before sampling."""


def read_task_data(
    tokenizer: Any, texts: Path, items: Path, training: Training, *, seed: int | None = None
) -> TaskData:
    """Read and tokenize a prepared data set (`replication.prepare.table`).

    Args:
        tokenizer: a fast tokenizer of transformers.
        texts: the table of texts.
        items: the table of items.
        training: settings: maximum length of a row, use of token types, and number of training
            items.
        seed: random seed of the sample of training items; None: all items.
    """
    strings = list(pd.read_parquet(texts)["text"])
    table, dataset = read_items(items)
    n_available = len(table)
    if seed is not None and training.n_train is not None and training.n_train < n_available:
        sample = np.random.default_rng(seed).choice(n_available, training.n_train, replace=False)
        table = table.iloc[np.sort(sample)].reset_index(drop=True)
    columns = [[strings[i] for i in column] for column in text_rows(table).T]
    use_types = training.token_types and "token_type_ids" in tokenizer.model_input_names
    if dataset.task != "extractive":
        encoded = tokenizer(
            *columns,
            truncation=True,
            max_length=training.max_length,
            return_token_type_ids=use_types,
        )
        types = encoded["token_type_ids"] if use_types else None
        inputs = Inputs(dataset.task, encoded["input_ids"], types, targets(table, dataset), [], [])
        return TaskData(inputs, dataset, [], len(table), n_available)
    contexts, questions = columns
    first_answers = [(labels[0]["text"], labels[0]["start"]) for labels in table["labels"]]
    context_windows = windows(tokenizer, questions, contexts, first_answers, training.max_length)
    inputs = Inputs(
        dataset.task,
        [w.ids for w in context_windows],
        [w.types for w in context_windows] if use_types else None,
        np.array([w.answer for w in context_windows], dtype=np.int64),
        context_windows if seed is None else [],  # only evaluation needs them, and they are large
        [[answer["text"] for answer in labels] for labels in table["labels"]],
    )
    return TaskData(inputs, dataset, contexts, len(table), n_available)


def collate(
    inputs: Inputs,
    rows: Sequence[int] | np.ndarray,
    pad: int,
    device: torch.device,
    length: int | None = None,
) -> Batch:
    """Collect rows in a batch, padded on the right to `length` or to the longest of them."""
    rows = np.asarray(rows)
    input_ids, mask = pad_rows([inputs.ids[i] for i in rows], pad, length)
    model_inputs = {"input_ids": to_device(input_ids, device)}
    model_inputs["attention_mask"] = to_device(mask, device)
    if inputs.types is not None:
        types, _ = pad_rows([inputs.types[i] for i in rows], 0, length)
        model_inputs["token_type_ids"] = to_device(types, device)
    positions = to_device(np.flatnonzero(mask), device)
    return Batch(model_inputs, to_device(inputs.targets[rows], device), positions)
