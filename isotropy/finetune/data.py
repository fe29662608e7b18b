"""Tokenized inputs of a task, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from isotropy.finetune.question_answering import Window, windows
from isotropy.finetune.spec import Training
from isotropy.prepare.table import Dataset, read_items, targets, text_rows


@dataclass
class Inputs:
    """What a model reads of a data set: one row per item, or per window of a context (extractive
    tasks).

    Attributes:
        task: single-label, regression or extractive.
        ids: word pieces of each row, special tokens included.
        types: the sentence of a pair that each is in; None where the model does not get it.
        targets: class numbers (n,), scores (n,), or first and last word piece of an answer (n, 2).
        windows: where each row lies in its context (extractive tasks).
        answers: right answers of each item (extractive tasks).
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
    """A padded batch on a device."""

    model_inputs: dict[str, torch.Tensor]
    targets: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """Shape (B, T), 1 for tokens and 0 for padding."""
        return self.model_inputs["attention_mask"]


class Side(NamedTuple):
    """Training or validation items of a task."""

    inputs: Inputs
    dataset: Dataset
    contexts: list[str]
    """Of each item of an extractive task."""
    n_items: int
    n_all: int
    """Before a part was drawn."""


def read_side(
    tokenizer: Any, texts: Path, items: Path, training: Training, *, seed: int | None = None
) -> Side:
    """Read and tokenize a prepared data set (`isotropy.prepare.table`).

    Args:
        tokenizer: a fast tokenizer of transformers.
        texts: the table of texts.
        items: the table of items.
        training: longest row in word pieces, whether the model gets the sentence of a token, and
            how many training items.
        seed: of the choice of training items; None: all items.
    """
    strings = list(pd.read_parquet(texts)["text"])
    table, dataset = read_items(items)
    n_all = len(table)
    if seed is not None and training.n_train is not None and training.n_train < n_all:
        chosen = np.random.default_rng(seed).choice(n_all, training.n_train, replace=False)
        table = table.iloc[np.sort(chosen)].reset_index(drop=True)
    columns = [[strings[i] for i in column] for column in text_rows(table).T]
    typed = training.token_types and "token_type_ids" in tokenizer.model_input_names
    if dataset.task != "extractive":
        encoded = tokenizer(
            *columns, truncation=True, max_length=training.max_length, return_token_type_ids=typed
        )
        types = encoded["token_type_ids"] if typed else None
        inputs = Inputs(dataset.task, encoded["input_ids"], types, targets(table, dataset), [], [])
        return Side(inputs, dataset, [], len(table), n_all)
    contexts, questions = columns
    first = [(labels[0]["text"], labels[0]["start"]) for labels in table["labels"]]
    found = windows(tokenizer, questions, contexts, first, training.max_length)
    inputs = Inputs(
        dataset.task,
        [w.ids for w in found],
        [w.types for w in found] if typed else None,
        np.array([w.answer for w in found], dtype=np.int64),
        found if seed is None else [],  # only predictions need them, and they are large
        [[answer["text"] for answer in labels] for labels in table["labels"]],
    )
    return Side(inputs, dataset, contexts, len(table), n_all)


def collate(
    inputs: Inputs,
    rows: Sequence[int] | np.ndarray,
    pad: int,
    device: torch.device,
    length: int | None = None,
) -> Batch:
    """Rows padded on the right to a length, or to the longest of them."""
    length = length or max(len(inputs.ids[i]) for i in rows)

    def padded(lists: list[list[int]], value: int) -> torch.Tensor:
        return torch.tensor(
            [[*lists[i], *[value] * (length - len(lists[i]))] for i in rows], device=device
        )

    lengths = torch.tensor([len(inputs.ids[i]) for i in rows], device=device)
    model_inputs = {
        "input_ids": padded(inputs.ids, pad),
        "attention_mask": (torch.arange(length, device=device) < lengths[:, None]).long(),
    }
    if inputs.types is not None:
        model_inputs["token_type_ids"] = padded(inputs.types, 0)
    return Batch(model_inputs, torch.from_numpy(inputs.targets[np.asarray(rows)]).to(device))
