"""Sentences of several data sets, and their words in a layer (Ethayarajh 2019, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.embed.layers import read_layer, read_tokens
from isotropy.errors import IsotropyError
from isotropy.geometry.spec import Unit, Variant
from isotropy.geometry.token_types import is_massive, standardized


class Sentences(NamedTuple):
    """The tokens of different sentences, special tokens left out.

    Attributes:
        tokens: a row per token, one sentence after the other: `sentence` (number), `word` (which of
            the words between blanks), `piece`, `symbol` (neither letter nor digit).
        texts: the sentences.
        rows: of each data set, the rows of its token vectors that these are.
    """

    tokens: pd.DataFrame
    texts: list[str]
    rows: list[np.ndarray]


class Words(NamedTuple):
    """The words and symbols of sentences, in their order.

    Attributes:
        starts, lengths: row of the first token of each, and how many it has.
        types: number of its type.
        names: text of each type.
        sentences: which sentence it stands in.
        is_word: it has a letter or digit.
        leads: it is the first of its sentence.
    """

    starts: np.ndarray
    lengths: np.ndarray
    types: np.ndarray
    names: np.ndarray
    sentences: np.ndarray
    is_word: np.ndarray
    leads: np.ndarray


class Occurrences(NamedTuple):
    """Words of sentences with their vectors.

    Attributes:
        vectors: shape (n, d), float32.
        words: what they are of.
    """

    vectors: np.ndarray
    words: Words


def read_sentences(folders: Sequence[Path], tables: Sequence[Path]) -> Sentences:
    """Sentences of data sets; one that several have counts once.

    Args:
        folders: token vectors of each data set (`isotropy.embed.layers`), each text by itself.
        tables: its texts.

    Raises:
        IsotropyError: no sentences.
    """
    numbers: dict[str, int] = {}
    parts, rows = [], []
    for folder, table in zip(folders, tables, strict=True):
        tokens, texts = read_tokens(folder), list(pd.read_parquet(table)["text"])
        fresh = np.zeros(len(texts), dtype=bool)
        for i, text in enumerate(texts):
            fresh[i] = text not in numbers
            numbers.setdefault(text, len(numbers))
        of_text = np.array([numbers[text] for text in texts])
        own = tokens["text"].to_numpy()
        kept = np.flatnonzero(fresh[own] & (tokens["word"].to_numpy() >= 0))
        columns = tokens.iloc[kept][["word", "piece", "symbol"]]
        parts.append(columns.astype({"piece": str}).assign(sentence=of_text[own[kept]]))
        rows.append(kept)
    tokens = pd.concat(parts, ignore_index=True)
    if not len(tokens):
        raise IsotropyError(f"{', '.join(f.parent.parent.name for f in folders)}: no words")
    return Sentences(tokens, list(numbers), rows)


def read_vectors_of(sentences: Sentences, folders: Sequence[Path], layer: int) -> np.ndarray:
    """Vectors of the tokens of sentences in a layer, shape (n, d), float32."""
    parts = zip(folders, sentences.rows, strict=True)
    return np.concatenate([read_layer(folder, layer)[rows] for folder, rows in parts])


def split_words(sentences: Sentences, unit: Unit) -> Words:
    """The words of sentences.

    With unit `pieces` each token is one, and its type an entry of the vocabulary. Else a word is
    what stands between blanks, without the symbols before and after it, each of which is one of its
    own; its type is its text.
    """
    tokens = sentences.tokens
    sentence, symbol = tokens["sentence"].to_numpy(), tokens["symbol"].to_numpy()
    new_sentence = np.diff(sentence, prepend=-1) != 0
    if unit == "pieces":
        types, names = pd.factorize(tokens["piece"])
        starts = np.arange(len(tokens))
        return _words(sentences, starts, types, np.array(names, dtype=str), ~symbol, new_sentence)
    number = tokens["word"].to_numpy()
    between = new_sentence | (np.diff(number, prepend=-1) != 0)
    edge = _edges(between, symbol)
    begins = between | edge | np.concatenate([[False], edge[:-1]])
    starts = np.flatnonzero(begins)
    is_word = ~edge[starts]
    split = [text.split() for text in sentences.texts]
    pieces = tokens["piece"].to_numpy()
    texts = [
        _bare(split[sentence[row]][number[row]]) if whole else pieces[row]
        for row, whole in zip(starts.tolist(), is_word.tolist(), strict=True)
    ]
    types, names = pd.factorize(pd.Series(texts, dtype=object))
    return _words(sentences, starts, types, np.array(names, dtype=str), is_word, new_sentence)


def occurrences(vectors: np.ndarray, words: Words, unit: Unit, variant: Variant) -> Occurrences:
    """Words with their vectors.

    Args:
        vectors: of tokens, shape (n, d).
        words: those tokens as words.
        unit: what stands for a word.
        variant: which words count, and as what; `no-first` leaves out the first word of each
            sentence, `no-massive` words with a token that has a massive activation.

    Raises:
        IsotropyError: no words are left.
    """
    if variant == "standardized":
        vectors = standardized(vectors)
    kept = np.ones(len(words.starts), dtype=bool)
    if variant == "no-first":
        kept = ~words.leads
    elif variant == "no-massive":
        kept = ~np.logical_or.reduceat(is_massive(vectors), words.starts)
    if not kept.any():
        raise IsotropyError(f"variant {variant}: no words are left")
    if unit == "mean":
        sums = np.add.reduceat(vectors, words.starts, axis=0)
        own = sums / words.lengths[:, None].astype(vectors.dtype)
    else:
        own = vectors[words.starts]
    of_each = words._asdict() | {
        name: getattr(words, name)[kept] for name in Words._fields if name != "names"
    }
    return Occurrences(own[kept], Words(**of_each))


def in_contexts(words: Words, min_contexts: int, types: np.ndarray | None = None) -> np.ndarray:
    """Which words count for self-similarity: of types with letters or digits that stand in enough
    different sentences, the first in each.

    Args:
        words: of sentences, one sentence after the other.
        min_contexts: different sentences that a type must have.
        types: number of the type of each, where it is another than that of `words`.

    Returns:
        row numbers, rising.

    Raises:
        IsotropyError: no type has enough.
    """
    types = words.types if types is None else types
    own = np.flatnonzero(words.is_word)
    keys = types[own].astype(np.int64) * (int(words.sentences.max()) + 1) + words.sentences[own]
    once = own[np.sort(np.unique(keys, return_index=True)[1])]
    counts = np.bincount(types[once], minlength=int(types.max()) + 1)
    found: np.ndarray = once[counts[types[once]] >= min_contexts]
    if not len(found):
        raise IsotropyError(
            f"no word stands in {min_contexts} different sentences: take more sentences, or a "
            "smaller min_contexts"
        )
    return found


def _edges(between: np.ndarray, symbol: np.ndarray) -> np.ndarray:
    """Whether a token is a symbol before or after what is left of its word between blanks."""
    starts = np.flatnonzero(between)
    ends = np.append(starts[1:], len(symbol))
    place = np.arange(len(symbol))
    of_run = np.repeat(np.arange(len(starts)), ends - starts)
    first = np.minimum.reduceat(np.where(symbol, len(symbol), place), starts)
    last = np.maximum.reduceat(np.where(symbol, -1, place), starts)
    edges: np.ndarray = (place < first[of_run]) | (place > last[of_run])
    return edges


def _bare(word: str) -> str:
    """A word without what is neither letter nor digit before and after it."""
    return word.strip("".join({c for c in word if not c.isalnum()}))


def _words(
    sentences: Sentences,
    starts: np.ndarray,
    types: np.ndarray,
    names: np.ndarray,
    is_word: np.ndarray,
    new_sentence: np.ndarray,
) -> Words:
    tokens = sentences.tokens
    lengths = np.diff(np.append(starts, len(tokens)))
    own = is_word if len(is_word) == len(starts) else is_word[starts]
    sentence = tokens["sentence"].to_numpy()[starts]
    return Words(starts, lengths, types, names, sentence, own, new_sentence[starts])
