"""How contextual vectors are: of a word in its sentences, and of the words of a sentence.

Ethayarajh (2019), "How Contextual are Contextualized Word Representations?", EMNLP, section 3. With
u the unit vectors of the n occurrences of a word:

    self-similarity = (|sum u|^2 - n) / (n (n - 1))               exact over all pairs, in O(n d)

and with x the vectors of the n tokens of a sentence, whose mean is m:

    intra-sentence similarity = mean of cos(x_i, m)
    leave-one-out             = mean of cos(x_i, mean of the others)

A vector is a part of its sentence's mean, so the first is high without any likeness: of vectors of
equal length with pairwise cosine a, it is sqrt((1 + (n - 1) a) / n), which is more than a; the
second is a / sqrt((1 + (n - 2) a) / (n - 1)) (`intra_sentence_null`).

Maximum explainable variance, the share of the first principal component of a word's vectors, has
three estimates in the paper and its code (`ExplainableVariance`), which differ by orders of
magnitude where vectors have a common mean.

A zero vector has no direction: its cosines count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import torch

from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, oriented
from isotropy.metrics.validation import Points, as_codes, as_points

FULL_SPECTRUM = 96
"""Matrices up to this size go to a solver of all eigenvalues, many at a time; of larger ones the
first alone is faster."""


class SelfSimilarity(NamedTuple):
    """Of each word, in the order of `np.unique(words)`.

    Attributes:
        values: mean cosine over all pairs of its occurrences, shape (W,); NaN with one occurrence.
        counts: occurrences, shape (W,).
    """

    values: np.ndarray
    counts: np.ndarray


class IntraSentenceSimilarity(NamedTuple):
    """Of each sentence, in the order of `np.unique(sentences)`, each of shape (S,).

    Attributes:
        values: mean cosine between its tokens and their mean.
        leave_one_out: mean cosine between each token and the mean of the others, which leaves the
            token's likeness to itself out; NaN with one token.
    """

    values: np.ndarray
    leave_one_out: np.ndarray


class ExplainableVariance(NamedTuple):
    """Share of the first principal component of the vectors of each word, each of shape (W,), in
    the order of `np.unique(words)`.

    Attributes:
        uncentred: the paper's formula: the first squared singular value over their sum. At least s
            + (1 - s) / n where self-similarity is s and vectors have equal lengths, whatever else.
        centred: principal component analysis: the same about the mean; at least 1 / (n - 1).
        truncated_svd: the variance about the mean along the first direction of the uncentred
            vectors, as scikit-learn's TruncatedSVD reports it (the first version of the authors'
            code): near 0 where the mean dominates that direction.

    NaN where a word has one occurrence, or no variance; uncentred, where all vectors are zero.
    """

    uncentred: np.ndarray
    centred: np.ndarray
    truncated_svd: np.ndarray


class MeanCosine(NamedTuple):
    """A mean cosine and its standard error."""

    value: float
    error: float


@full_precision
def self_similarity(X: Points, words: Any) -> SelfSimilarity:
    """Mean cosine between the occurrences of a word, exact over all pairs.

    Args:
        X: vectors of occurrences, shape (n, d), array or tensor on any device.
        words: the word of each, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 1.
    """
    points, codes = _of_groups(X, words, "words")
    counts = np.bincount(codes)
    values = np.full(len(counts), np.nan)
    for groups, rows, lengths in _chunks(points, codes):
        units = _units(rows)
        squares = _totals(units, lengths).square().sum(dim=1)
        own = _totals(units.square().sum(dim=1, keepdim=True), lengths)[:, 0]
        k = lengths.double()
        values[groups] = ((squares - own) / (k * (k - 1))).cpu().numpy()  # NaN where k = 1
    return SelfSimilarity(values, counts)


@full_precision
def intra_sentence_similarity(X: Points, sentences: Any) -> IntraSentenceSimilarity:
    """Mean cosine between the tokens of a sentence and their mean, or that of the others.

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        sentences: the sentence of each, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 2; leave_one_out is ours.
    """
    points, codes = _of_groups(X, sentences, "sentences")
    found = np.empty((2, int(codes.max()) + 1))
    for groups, rows, lengths in _chunks(points, codes):
        units, totals = _units(rows), _totals(rows, lengths)
        k = lengths.double()
        # The mean of cosines with one vector is the cosine with the mean of units.
        whole = (_totals(units, lengths) * _units(totals)).sum(dim=1) / k
        others = _units(torch.repeat_interleave(totals, lengths, dim=0) - rows)
        cosines = (units * others).sum(dim=1, keepdim=True)
        left = torch.where(k > 1, _totals(cosines, lengths)[:, 0] / k, torch.nan)
        found[:, groups] = torch.stack([whole, left]).cpu().numpy()
    return IntraSentenceSimilarity(*found)


def intra_sentence_null(lengths: Any, cosine: float, *, leave_one_out: bool = False) -> np.ndarray:
    """Intra-sentence similarity of vectors of equal length that are alike in no other way than by a
    common pairwise cosine.

    Args:
        lengths: tokens of each sentence, shape (S,).
        cosine: between any two, at least 0.
        leave_one_out: as in `intra_sentence_similarity`.

    Returns:
        shape (S,); NaN for one token with leave_one_out.

    Source:
        Ours, from |mean|^2 = (1 + (n - 1) a) / n.
    """
    n = np.asarray(lengths, dtype=np.float64)
    if not 0 <= cosine <= 1 or (n < 1).any():
        raise ValueError("expected lengths of at least 1, and a cosine between 0 and 1")
    if not leave_one_out:
        whole: np.ndarray = np.sqrt((1 + (n - 1) * cosine) / n)
        return whole
    others = np.where(n > 1, n - 1, np.nan)
    length = np.sqrt((1 + (others - 1) * cosine) / others)
    null: np.ndarray = cosine / length
    return null


@full_precision
def cosine_between(X: Points, groups: Any) -> MeanCosine:
    """Mean cosine of two tokens of different groups, such as sentences: each group counts as much
    as any other, and each token as much as the others of its group.

    It is what the mean over draws of one token from each of two groups goes to. The standard error
    is that of the jackknife over groups, exact and in O(n d).

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        groups: the group of each, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity, or fewer than three groups.

    Source:
        Ethayarajh (2019), section 3.4, whose draw it replaces; Efron & Tibshirani (1993), chapter
        11.
    """
    points, codes = _of_groups(X, groups, "groups")
    n = int(codes.max()) + 1
    if n < 3:
        raise ValueError(f"expected at least 3 groups, got {n}")
    means = torch.empty(n, points.shape[1], dtype=torch.float64, device=points.device)
    for own, rows, lengths in _chunks(points, codes):
        means[own] = _totals(_units(rows), lengths) / lengths[:, None]
    total = means.sum(dim=0)
    squares = means.square().sum(dim=1)
    pairs = total.square().sum() - squares.sum()  # ordered pairs of different groups
    value = pairs / (n * (n - 1))
    without = (pairs - 2 * ((means * total).sum(dim=1) - squares)) / ((n - 1) * (n - 2))
    variance = (n - 1) / n * (without - without.mean()).square().sum()
    return MeanCosine(float(value), float(variance.sqrt()))


@full_precision
def cosine_contributions(X: Points) -> np.ndarray:
    """Contribution of each dimension to the mean cosine over all pairs, whose sum it is.

    Args:
        X: point cloud, shape (n, d), n >= 2, array or tensor on any device.

    Returns:
        shape (d,): the mean over pairs i != j of the products of coordinates of unit vectors.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Timkey & van Schijndel (2021), equation 3; exact over all pairs.
    """
    points = _in_range(as_points(X, min_dims=1).detach())
    n, d = points.shape
    total = torch.zeros(d, dtype=torch.float64, device=points.device)
    squares = torch.zeros_like(total)
    for block in torch.split(points, ROWS_PER_BLOCK):
        units = _units(block.double())
        total += units.sum(dim=0)
        squares += units.square().sum(dim=0)
    found: np.ndarray = ((total.square() - squares) / (n * (n - 1))).cpu().numpy()
    return found


@full_precision
def explainable_variance(X: Points, words: Any = None) -> ExplainableVariance:
    """Maximum explainable variance of each word, by all three estimates.

    Args:
        X: vectors of occurrences, shape (n, d), array or tensor on any device.
        words: the word of each, shape (n,); None: all are of one.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 3.
    """
    points = _in_range(as_points(X, min_dims=1, min_points=1, in_place=True).detach())
    codes = np.zeros(len(points), np.int64) if words is None else _codes(words, len(points))
    found = np.full((3, int(codes.max()) + 1), np.nan)
    for groups, stack in _stacks(points, codes):
        if stack.shape[1] > 1:
            found[:, groups] = _shares(stack)
    return ExplainableVariance(*found)


@full_precision
def first_components(X: Points, words: Any, *, centred: bool = False) -> np.ndarray:
    """The first principal component of the vectors of each word: its static embedding.

    Solvers leave the sign open: each is turned towards the mean of its word.

    Args:
        X: vectors of occurrences, shape (n, d), array or tensor on any device.
        words: the word of each, shape (n,).
        centred: about the mean of the word, as principal component analysis (the authors' code);
            else the first singular vector (their text).

    Returns:
        shape (W, d), in the order of `np.unique(words)`, unit vectors; of a word with one
        occurrence, or no variance, its direction if not centred, else zeros.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), section 4.3.
    """
    points, codes = _of_groups(X, words, "words")
    found = np.zeros((int(codes.max()) + 1, points.shape[1]))
    for groups, stack in _stacks(points, codes):
        means = stack.mean(dim=1, keepdim=True)
        own = stack - means if centred else stack
        directions = _first_directions(own)
        against = np.einsum("ij,ij->i", directions, means[:, 0].cpu().numpy()) < 0
        found[groups] = np.where(against[:, None], -directions, directions)
    return found


def _codes(labels: Any, n: int, name: str = "words") -> np.ndarray:
    found: np.ndarray = as_codes(labels, n, name=name, min_classes=1).numpy()
    return found


def _of_groups(X: Points, labels: Any, name: str) -> tuple[torch.Tensor, np.ndarray]:
    """Vectors, and the number of the group of each."""
    points = _in_range(as_points(X, min_dims=1, min_points=1, in_place=True).detach())
    return points, _codes(labels, len(points), name)


def _in_range(points: torch.Tensor) -> torch.Tensor:
    """The cloud in another unit, where squares of its coordinates leave the range of float64; no
    score depends on the unit.
    """
    unit = float(points.abs().amax()) if points.dtype == torch.float64 else 1.0
    return points if unit == 0 or 1e-100 < unit < 1e100 else points / unit


def _chunks(
    points: torch.Tensor, codes: np.ndarray
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Whole groups, about ROWS_PER_BLOCK rows at a time: which groups, their rows in float64, one
    group after the other, and how many each has.
    """
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        start = ends[first] - counts[first]
        last = max(first + 1, int(np.searchsorted(ends, start + ROWS_PER_BLOCK, side="right")))
        rows = torch.from_numpy(order[start : ends[last - 1]]).to(points.device)
        lengths = torch.from_numpy(counts[first:last]).to(points.device)
        yield slice(first, last), points[rows].double(), lengths
        first = last


def _stacks(points: torch.Tensor, codes: np.ndarray) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Groups of equal size, shape (b, k, d) in float64, b of them so that rows are few, and which
    they are.
    """
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(counts) - counts
    for k in np.unique(counts).tolist():
        own = np.flatnonzero(counts == k)
        for groups in np.array_split(own, -(-len(own) * k // ROWS_PER_BLOCK)):
            if len(groups):
                rows = order[starts[groups][:, None] + np.arange(k)]
                yield groups, points[torch.from_numpy(rows).to(points.device)].double()


def _totals(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Sums of the rows of each group, which follow each other, shape (groups, d)."""
    return torch.segment_reduce(rows, "sum", lengths=lengths, unsafe=True)


def _units(rows: torch.Tensor) -> torch.Tensor:
    """Directions of rows in float64; a zero vector stays."""
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(norms > 0, norms, 1)


def _shares(stack: torch.Tensor) -> np.ndarray:
    """The three shares of groups of equal size, shape (b, k, d) to (3, b)."""
    k = stack.shape[1]
    totals = stack.sum(dim=1)
    sizes, about = stack.square().sum(dim=(1, 2)), stack - totals[:, None] / k
    variances = about.square().sum(dim=(1, 2))
    directions = torch.from_numpy(_first_directions(stack)).to(stack.device)
    along = (stack @ directions[:, :, None]).square().sum(dim=(1, 2))
    about_along = (about @ directions[:, :, None]).square().sum(dim=(1, 2))
    of_centred = torch.from_numpy(_first_directions(about)).to(stack.device)
    first = (about @ of_centred[:, :, None]).square().sum(dim=(1, 2))
    # What rounding leaves of copies of one vector is no variance.
    eps = torch.finfo(torch.float64).eps
    varied = variances > (16 * k * eps) ** 2 * sizes
    shares = [
        torch.where(sizes > 0, along / sizes, torch.nan),
        torch.where(varied, first / variances, torch.nan),
        torch.where(varied, about_along / variances, torch.nan),
    ]
    found: np.ndarray = torch.stack(shares).cpu().numpy()
    return found


def _first_directions(stack: torch.Tensor) -> np.ndarray:
    """First right singular vector of each matrix, shape (b, k, d) to (b, d), with a fixed sign;
    zeros of a matrix of zeros.
    """
    _, k, d = stack.shape
    wide = k <= d
    products = stack @ stack.mT if wide else stack.mT @ stack
    first = torch.from_numpy(_first_eigenvectors(products.cpu().numpy())).to(stack.device)
    rows = (first[:, None, :] @ stack)[:, 0] if wide else first
    rows = torch.where((products.diagonal(dim1=1, dim2=2).sum(dim=1) > 0)[:, None], rows, 0)
    return oriented(_units(rows).cpu().numpy())


def _first_eigenvectors(products: np.ndarray) -> np.ndarray:
    """Eigenvector of the largest eigenvalue of each symmetric matrix, shape (b, m, m) to (b, m)."""
    m = products.shape[1]
    if m <= FULL_SPECTRUM:
        found: np.ndarray = np.linalg.eigh(products)[1][:, :, -1]
        return found
    last = (m - 1, m - 1)
    return np.stack([scipy.linalg.eigh(one, subset_by_index=last)[1][:, 0] for one in products])
