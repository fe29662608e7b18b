"""Extractive question answering, as SQuAD v1.1 has it: windows over long contexts, the best span,
exact match and F1.

Rajpurkar et al. (2016), doi:10.18653/v1/D16-1264. Stride, number of candidates and longest answer
are those of the I-STAR code (Rudman & Eickhoff 2024).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

STRIDE = 128  # word pieces that neighbouring windows share
N_BEST = 20  # starts and ends that are combined
LONGEST_ANSWER = 30  # word pieces


class Window(NamedTuple):
    """A question with a part of its context."""

    item: int
    """Row of the data set."""
    ids: list[int]
    types: list[int]
    spans: list[tuple[int, int] | None]
    """Characters of the context that each word piece stands for; None outside the context."""
    answer: tuple[int, int]
    """First and last word piece of the answer; (0, 0), the first token, where this window does not
    hold it."""


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
        answers: text and first character of each answer.
        max_length: longest window in word pieces, question and special tokens included.
    """
    # Some questions begin with blanks, which could make them longer than a window.
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
    found = []
    for row, item in enumerate(encoded["overflow_to_sample_mapping"]):
        of_context = [s == 1 for s in encoded.sequence_ids(row)]
        spans = [
            tuple(span) if inside else None
            for span, inside in zip(encoded["offset_mapping"][row], of_context, strict=True)
        ]
        text, start = answers[item]
        place = _place(spans, start, start + len(text))
        found.append(
            Window(item, encoded["input_ids"][row], encoded["token_type_ids"][row], spans, place)
        )
    return found


def best_answers(
    found: Sequence[Window],
    starts: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
    contexts: Sequence[str],
) -> list[str]:
    """The most likely span of each item over all its windows, as text of its context.

    Args:
        found: windows.
        starts: logits of each window's word pieces, to be the first of the answer.
        ends: the same, to be the last.
        contexts: n strings.
    """
    best: dict[int, tuple[float, str]] = {}
    for window, start, end in zip(found, starts, ends, strict=True):
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


def exact_match(answer: str, right: Sequence[str]) -> float:
    """1 if the answer equals one of the right ones but for case, punctuation, articles and blanks,
    else 0.
    """
    return float(any(_normalized(answer) == _normalized(r) for r in right))


def f1(answer: str, right: Sequence[str]) -> float:
    """Largest harmonic mean of precision and recall of words over the right answers, in [0, 1]."""
    return max(_f1(_normalized(answer).split(), _normalized(r).split()) for r in right)


def _f1(words: list[str], right: list[str]) -> float:
    common = (Counter(words) & Counter(right)).total()
    if not words or not right:
        return float(words == right)
    return 2 * common / (len(words) + len(right))


def _normalized(text: str) -> str:
    """As SQuAD's own evaluation does: lower case, without punctuation, then without articles and
    superfluous blanks.
    """
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _place(spans: Sequence[tuple[int, ...] | None], start: int, end: int) -> tuple[int, int]:
    """First and last word piece of the characters from `start` to before `end`; (0, 0) if they are
    not all here.
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
