"""Contextuality of vectors: of a word across its sentences, and of the words of a sentence.

Ethayarajh (2019), "How Contextual are Contextualized Word Representations?", EMNLP, section 3. With
u the unit vectors of the n occurrences of a word:

    self-similarity = (|sum u|^2 - n) / (n (n - 1))               exact over all pairs, in O(n d)

and with x the vectors of the n tokens of a sentence, whose mean is m:

    intra-sentence similarity = mean of cos(x_i, m)
    leave-one-out             = mean of cos(x_i, mean of the others)

Each vector is a part of its sentence's mean, so the first is high even for unrelated vectors: with
equal lengths and pairwise cosines a, it is sqrt((1 + (n - 1) a) / n), which is more than a; the
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

from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, with_fixed_signs
from isotropy.metrics.validation import Points, as_codes, as_numbers, as_points, scaled

MAX_BATCHED_EIGH_SIZE = 96
"""Largest matrix for which NumPy's batched solver of all eigenvectors is used; for larger ones,
computing only the first is faster."""


class SelfSimilarity(NamedTuple):
    """Self-similarity of each word, in the order of `np.unique(words)`.

    Attributes:
        values: mean cosine over all pairs of its occurrences, shape (W,); NaN with one occurrence.
        counts: number of its occurrences, shape (W,).
    """

    values: np.ndarray
    counts: np.ndarray


class IntraSentenceSimilarity(NamedTuple):
    """Intra-sentence similarity of each sentence, in the order of `np.unique(sentences)`; both
    arrays have shape (S,).

    Attributes:
        values: mean cosine between its tokens and their mean.
        leave_one_out: mean cosine between each token and the mean of the others, which excludes the
            token's similarity to itself; NaN with one token.
    """

    values: np.ndarray
    leave_one_out: np.ndarray


class ExplainableVariance(NamedTuple):
    """Share of variance of the first principal component of the vectors of each word, by three
    estimates, each of shape (W,), in the order of `np.unique(words)`.

    Attributes:
        uncentred: the paper's formula: the first squared singular value divided by the sum of all.
            For vectors of equal length with self-similarity s it is at least s + (1 - s) / n.
        centred: the same after the mean is subtracted, as in principal component analysis; at least
            1 / (n - 1).
        truncated_svd: the variance about the mean along the first direction of the uncentred
            vectors, as scikit-learn's TruncatedSVD reports it (the first version of the authors'
            code): near 0 where the mean dominates that direction.

    All are NaN for a word with one occurrence, `centred` and `truncated_svd` for one without
    variance, and `uncentred` for one whose vectors are all zero.
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
        words: word of each occurrence, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 1.

    Examples:
        >>> self_similarity([[1.0, 0.0], [1.0, 1.0], [2.0, 2.0]], ["a", "b", "b"]).values.round(2)
        array([nan,  1.])
    """
    points, codes = _points_and_codes(X, words, "words")
    counts = np.bincount(codes)
    values = np.full(len(counts), np.nan)
    for groups, rows, lengths in _group_blocks(points, codes):
        units = _unit_vectors(rows)
        squares = _group_sums(units, lengths).square().sum(dim=1)
        diagonal = _group_sums(units.square().sum(dim=1, keepdim=True), lengths)[:, 0]
        k = lengths.double()
        values[groups] = ((squares - diagonal) / (k * (k - 1))).cpu().numpy()  # NaN where k = 1
    return SelfSimilarity(values, counts)


@full_precision
def intra_sentence_similarity(X: Points, sentences: Any) -> IntraSentenceSimilarity:
    """Mean cosine between the tokens of a sentence and their mean, and with leave-one-out the mean
    of the other tokens.

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        sentences: sentence of each token, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 2; leave_one_out is not in the paper.
    """
    points, codes = _points_and_codes(X, sentences, "sentences")
    similarities = np.empty((2, int(codes.max()) + 1))
    for groups, rows, lengths in _group_blocks(points, codes):
        units, totals = _unit_vectors(rows), _group_sums(rows, lengths)
        k = lengths.double()
        # The mean cosine with a vector is its direction times the mean of the unit vectors.
        with_mean = (_group_sums(units, lengths) * _unit_vectors(totals)).sum(dim=1) / k
        others = _unit_vectors(torch.repeat_interleave(totals, lengths, dim=0) - rows)
        cosines = (units * others).sum(dim=1, keepdim=True)
        with_others = torch.where(k > 1, _group_sums(cosines, lengths)[:, 0] / k, torch.nan)
        similarities[:, groups] = torch.stack([with_mean, with_others]).cpu().numpy()
    return IntraSentenceSimilarity(*similarities)


def intra_sentence_null(lengths: Any, cosine: float, *, leave_one_out: bool = False) -> np.ndarray:
    """Intra-sentence similarity under the null hypothesis that all pairs of vectors, of equal
    length, have the same cosine.

    Args:
        lengths: number of tokens of each sentence, shape (S,).
        cosine: cosine of each pair, in [0, 1].
        leave_one_out: return the null value of the leave-one-out similarity (see
            `IntraSentenceSimilarity`).

    Returns:
        Null value for each sentence, shape (S,); NaN for one token with leave_one_out.

    Source:
        Not in the paper; derived from |mean|^2 = (1 + (n - 1) a) / n.
    """
    n = as_numbers(lengths, "lengths").double().cpu().numpy()
    if not 0 <= cosine <= 1 or not ((n >= 1) & (n < np.inf)).all():
        raise ValueError("expected lengths of at least 1, and a cosine between 0 and 1")
    if not leave_one_out:
        similarity: np.ndarray = np.sqrt((1 + (n - 1) * cosine) / n)
        return similarity
    n_others = np.where(n > 1, n - 1, np.nan)
    mean_length = np.sqrt((1 + (n_others - 1) * cosine) / n_others)
    null: np.ndarray = cosine / mean_length
    return null


@full_precision
def cosine_between(X: Points, groups: Any) -> MeanCosine:
    """Mean cosine between tokens of different groups, such as sentences, with equal weights for all
    groups, and for all tokens of a group.

    It is the expected cosine of two tokens drawn from two random groups. The standard error is that
    of the jackknife over groups, computed exactly in O(n d).

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        groups: group of each token, shape (n,).

    Raises:
        ValueError: bad shapes, NaN or infinity, or fewer than three groups.

    Source:
        Ethayarajh (2019), section 3.4, whose random sample it replaces; Efron & Tibshirani (1993),
        chapter 11.
    """
    points, codes = _points_and_codes(X, groups, "groups")
    n = int(codes.max()) + 1
    if n < 3:
        raise ValueError(f"expected at least 3 groups, got {n}")
    means = torch.empty(n, points.shape[1], dtype=torch.float64, device=points.device)
    for block, rows, lengths in _group_blocks(points, codes):
        means[block] = _group_sums(_unit_vectors(rows), lengths) / lengths[:, None]
    total = means.sum(dim=0)
    squares = means.square().sum(dim=1)
    pairs = total.square().sum() - squares.sum()  # ordered pairs of different groups
    value = pairs / (n * (n - 1))
    without_group = (pairs - 2 * ((means * total).sum(dim=1) - squares)) / ((n - 1) * (n - 2))
    variance = (n - 1) / n * (without_group - without_group.mean()).square().sum()
    return MeanCosine(float(value), float(variance.sqrt()))


@full_precision
def cosine_contributions(X: Points) -> np.ndarray:
    """Contribution of each dimension to the mean cosine over all pairs; they add up to it.

    Args:
        X: point cloud, shape (n, d), n >= 2, array or tensor on any device.

    Returns:
        shape (d,): the mean over pairs i != j of the products of coordinates of unit vectors.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Timkey & van Schijndel (2021), equation 3; exact over all pairs.
    """
    points = scaled(as_points(X, min_dims=1).detach())
    n, d = points.shape
    total = torch.zeros(d, dtype=torch.float64, device=points.device)
    squares = torch.zeros_like(total)
    for block in torch.split(points, ROWS_PER_BLOCK):
        units = _unit_vectors(block.double())
        total += units.sum(dim=0)
        squares += units.square().sum(dim=0)
    contributions: np.ndarray = ((total.square() - squares) / (n * (n - 1))).cpu().numpy()
    return contributions


@full_precision
def explainable_variance(X: Points, words: Any = None) -> ExplainableVariance:
    """Maximum explainable variance of each word, by all three estimates.

    Args:
        X: vectors of occurrences, shape (n, d), array or tensor on any device.
        words: word of each occurrence, shape (n,); None: all vectors belong to one word.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), definition 3.
    """
    points = scaled(as_points(X, min_dims=1, min_points=1, in_place=True).detach())
    codes = np.zeros(len(points), np.int64) if words is None else _group_codes(words, len(points))
    estimates = np.full((3, int(codes.max()) + 1), np.nan)
    for groups, stack in _equal_size_batches(points, codes):
        if stack.shape[1] > 1:
            estimates[:, groups] = _explained_shares(stack)
    return ExplainableVariance(*estimates)


@full_precision
def first_components(X: Points, words: Any, *, centred: bool = False) -> np.ndarray:
    """First principal component of the vectors of each word: its static embedding.

    Solvers leave the sign open: it is chosen so that the component points towards the mean.

    Args:
        X: vectors of occurrences, shape (n, d), array or tensor on any device.
        words: word of each occurrence, shape (n,).
        centred: subtract the mean of the word first, as in principal component analysis (the
            authors' code); otherwise take the first singular vector (their text).

    Returns:
        Unit vectors, shape (W, d), in the order of `np.unique(words)`. For a word with one
        occurrence or no variance: its direction, or zeros if centred.

    Raises:
        ValueError: bad shapes, NaN or infinity.

    Source:
        Ethayarajh (2019), section 4.3.
    """
    points, codes = _points_and_codes(X, words, "words")
    components = np.zeros((int(codes.max()) + 1, points.shape[1]))
    for groups, stack in _equal_size_batches(points, codes):
        means = stack.mean(dim=1, keepdim=True)
        vectors = stack - means if centred else stack
        directions = _first_directions(vectors)
        opposite = np.einsum("ij,ij->i", directions, means[:, 0].cpu().numpy()) < 0
        components[groups] = np.where(opposite[:, None], -directions, directions)
    return components


def _group_codes(labels: Any, n: int, name: str = "words") -> np.ndarray:
    codes: np.ndarray = as_codes(labels, n, name=name, min_classes=1).numpy()
    return codes


def _points_and_codes(X: Points, labels: Any, name: str) -> tuple[torch.Tensor, np.ndarray]:
    """Return the checked vectors, and the code of the group of each."""
    points = scaled(as_points(X, min_dims=1, min_points=1, in_place=True).detach())
    return points, _group_codes(labels, len(points), name)


def _group_blocks(
    points: torch.Tensor, codes: np.ndarray
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Iterate over blocks of whole groups, of about ROWS_PER_BLOCK rows each: yield the slice of
    groups, their rows in float64, sorted by group, and the number of rows of each group.
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


def _equal_size_batches(
    points: torch.Tensor, codes: np.ndarray
) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Iterate over batches of groups of equal size: yield the codes of b groups, and their vectors
    in float64, shape (b, k, d), about ROWS_PER_BLOCK rows at a time.
    """
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(counts) - counts
    for k in np.unique(counts).tolist():
        groups_of_size = np.flatnonzero(counts == k)
        for groups in np.array_split(groups_of_size, -(-len(groups_of_size) * k // ROWS_PER_BLOCK)):
            if len(groups):
                rows = order[starts[groups][:, None] + np.arange(k)]
                yield groups, points[torch.from_numpy(rows).to(points.device)].double()


def _group_sums(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Sum the rows of each group, shape (groups, d); rows are sorted by group."""
    return torch.segment_reduce(rows, "sum", lengths=lengths, unsafe=True)


def _unit_vectors(rows: torch.Tensor) -> torch.Tensor:
    """Normalize rows, in float64, to unit length; zero vectors stay zero."""
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(norms > 0, norms, 1)


def _explained_shares(stack: torch.Tensor) -> np.ndarray:
    """Compute the estimates of `ExplainableVariance` for a batch, shape (b, k, d) to (3, b)."""
    k = stack.shape[1]
    totals = stack.sum(dim=1)
    squares, centred = stack.square().sum(dim=(1, 2)), stack - totals[:, None] / k
    variances = centred.square().sum(dim=(1, 2))
    directions = torch.from_numpy(_first_directions(stack)).to(stack.device)
    along_first = (stack @ directions[:, :, None]).square().sum(dim=(1, 2))
    centred_along_first = (centred @ directions[:, :, None]).square().sum(dim=(1, 2))
    centred_directions = torch.from_numpy(_first_directions(centred)).to(stack.device)
    first_variance = (centred @ centred_directions[:, :, None]).square().sum(dim=(1, 2))
    # Copies of one vector have no variance but rounding errors.
    eps = torch.finfo(torch.float64).eps
    has_variance = variances > (16 * k * eps) ** 2 * squares
    shares = [
        torch.where(squares > 0, along_first / squares, torch.nan),
        torch.where(has_variance, first_variance / variances, torch.nan),
        torch.where(has_variance, centred_along_first / variances, torch.nan),
    ]
    estimates: np.ndarray = torch.stack(shares).cpu().numpy()
    return estimates


def _first_directions(stack: torch.Tensor) -> np.ndarray:
    """First right singular vector of each matrix, shape (b, k, d) to (b, d), with a fixed sign;
    zeros for a matrix of zeros.
    """
    _, k, d = stack.shape
    wide = k <= d
    products = stack @ stack.mT if wide else stack.mT @ stack
    first = torch.from_numpy(_first_eigenvectors(products.cpu().numpy())).to(stack.device)
    rows = (first[:, None, :] @ stack)[:, 0] if wide else first
    rows = torch.where((products.diagonal(dim1=1, dim2=2).sum(dim=1) > 0)[:, None], rows, 0)
    return with_fixed_signs(_unit_vectors(rows).cpu().numpy())


def _first_eigenvectors(products: np.ndarray) -> np.ndarray:
    """Eigenvector of the largest eigenvalue of each symmetric matrix, shape (b, m, m) to (b, m)."""
    m = products.shape[1]
    if m <= MAX_BATCHED_EIGH_SIZE:
        vectors: np.ndarray = np.linalg.eigh(products)[1][:, :, -1]
        return vectors
    last = (m - 1, m - 1)
    return np.stack(
        [scipy.linalg.eigh(matrix, subset_by_index=last)[1][:, 0] for matrix in products]
    )
