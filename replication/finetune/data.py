"""Tokenized data sets of a task, padded batches, and windows and answers as in SQuAD v1.1.

Rajpurkar et al. (2016), doi:10.18653/v1/D16-1264. Stride, number of candidates and maximum
length of answers are those of the I-STAR code (Rudman & Eickhoff 2024).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from isotropy.device import to_device
from isotropy.models.batches import pad_rows
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


STRIDE = 128  # word pieces that neighbouring windows share
N_BEST = 20  # number of candidate starts and of candidate ends
LONGEST_ANSWER = 30  # in word pieces


class Window(NamedTuple):
    """A question with a part of its context."""

    item: int
    """Index of the question in the data set."""
    ids: list[int]
    types: list[int]
    spans: list[tuple[int, int] | None]
    """Character range of each word piece in the context; None for pieces outside the context."""
    answer: tuple[int, int]
    """First and last word piece of the answer; (0, 0), the first token, if it is not completely in
    this window."""


def windows(
    tokenizer: Any,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[tuple[str, int]],
    max_length: int,
) -> list[Window]:
    """Cut each context into windows that fit beside its question.

    Args:
        tokenizer: a fast tokenizer of transformers.
        questions: n strings.
        contexts: n strings.
        answers: text of each answer and its start in the context, in characters.
        max_length: maximum number of word pieces, including question and special tokens.
    """
    # Leading blanks, which some questions have, could fill a whole window.
    encoded = tokenizer(
        [q.lstrip() for q in questions],
        list(contexts),
        truncation="only_second",
        max_length=max_length,
        stride=min(STRIDE, max_length // 3),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    cut = []
    for row, item in enumerate(encoded["overflow_to_sample_mapping"]):
        in_context = [s == 1 for s in encoded.sequence_ids(row)]
        spans = [
            tuple(span) if inside else None
            for span, inside in zip(encoded["offset_mapping"][row], in_context, strict=True)
        ]
        text, start = answers[item]
        answer_pieces = _locate_answer(spans, start, start + len(text))
        cut.append(
            Window(
                item,
                encoded["input_ids"][row],
                encoded["token_type_ids"][row],
                spans,
                answer_pieces,
            )
        )
    return cut


def best_answers(
    context_windows: Sequence[Window],
    starts: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
    contexts: Sequence[str],
) -> list[str]:
    """Return the most likely answer to each question over all its windows, as a substring of its
    context; an empty string if no window has a valid span.

    Args:
        context_windows: windows of all questions.
        starts: for each window, the logits of its word pieces as the start of the answer.
        ends: the same as its end.
        contexts: n strings.
    """
    best: dict[int, tuple[float, str]] = {}
    for window, start, end in zip(context_windows, starts, ends, strict=True):
        for first in np.argsort(-start, kind="stable")[:N_BEST]:
            for last in np.argsort(-end, kind="stable")[:N_BEST]:
                if not first <= last < first + LONGEST_ANSWER:
                    continue
                left, right = window.spans[first], window.spans[last]
                if left is None or right is None:
                    continue
                score = float(start[first] + end[last])
                if window.item not in best or score > best[window.item][0]:
                    best[window.item] = score, contexts[window.item][left[0] : right[1]]
    return [best.get(item, (0.0, ""))[1] for item in range(len(contexts))]


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer equals a reference answer up to case, punctuation, articles and
    whitespace, else 0.
    """
    return float(any(_normalize(answer) == _normalize(reference) for reference in references))


def f1(answer: str, references: Sequence[str]) -> float:
    """Return the F1 of words, in [0, 1], with respect to the most similar reference answer."""
    return max(
        _f1(_normalize(answer).split(), _normalize(reference).split()) for reference in references
    )


def _f1(words: list[str], reference: list[str]) -> float:
    """Return the harmonic mean of precision and recall of words."""
    common = (Counter(words) & Counter(reference)).total()
    return 2 * common / (len(words) + len(reference)) if common else 0.0


def _normalize(text: str) -> str:
    """Normalize an answer as SQuAD's official evaluation does: convert to lower case, then remove
    punctuation, articles and superfluous whitespace.
    """
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _locate_answer(
    spans: Sequence[tuple[int, ...] | None], start: int, end: int
) -> tuple[int, int]:
    """Return the first and the last word piece of the characters `start` to `end` (exclusive); (0,
    0) if some of them are outside the window.
    """
    inside = [
        i for i, span in enumerate(spans) if span is not None and span[0] < end and span[1] > start
    ]
    if not inside:
        return 0, 0
    first, last = spans[inside[0]], spans[inside[-1]]
    assert first is not None
    assert last is not None
    return (inside[0], inside[-1]) if first[0] <= start and last[1] >= end else (0, 0)
