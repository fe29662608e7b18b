"""Sentences of several data sets, and the vectors of their words in a layer (Ethayarajh 2019,
section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from replication.embed.layers import read_layer, read_tokens
from replication.geometry.spec import Unit, Variant
from replication.geometry.token_types import is_massive, standardized


class Sentences(NamedTuple):
    """The tokens of distinct sentences, without special tokens.

    Attributes:
        tokens: a row per token, one sentence after the other: `sentence` (number), `word` (index
            among the whitespace-separated words), `piece` (text of the token), `symbol` (whether it
            has neither a letter nor a digit).
        texts: the sentences.
        rows: for each data set, the rows of its token vectors that belong to these tokens.
    """

    tokens: pd.DataFrame
    texts: list[str]
    rows: list[np.ndarray]


class Words(NamedTuple):
    """The words and symbols of sentences, in text order.

    Attributes:
        starts, lengths: row of the first token of each word, and its number of tokens.
        types: type number of each word.
        names: text of each type, by type number.
        sentences: number of the sentence of each word.
        is_word: whether it has a letter or a digit, and so is not a symbol.
        leads: whether it is the first word of its sentence.
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
        vectors: a vector per word, shape (n, d), float32.
        words: the words, in the same order.
    """

    vectors: np.ndarray
    words: Words


def read_sentences(folders: Sequence[Path], tables: Sequence[Path]) -> Sentences:
    """Read the sentences of data sets; a sentence that occurs several times is kept once.

    Args:
        folders: for each data set, the folder of its token vectors (`embed.layers`), each
            text embedded by itself.
        tables: for each data set, the table of its texts.

    Raises:
        IsotropyError: the sentences have no words.
    """
    numbers: dict[str, int] = {}
    parts, rows = [], []
    for folder, table in zip(folders, tables, strict=True):
        tokens, texts = read_tokens(folder), list(pd.read_parquet(table)["text"])
        is_new = np.zeros(len(texts), dtype=bool)
        for i, text in enumerate(texts):
            is_new[i] = text not in numbers
            numbers.setdefault(text, len(numbers))
        sentence_numbers = np.array([numbers[text] for text in texts])
        text_indices = tokens["text"].to_numpy()
        kept_rows = np.flatnonzero(is_new[text_indices] & (tokens["word"].to_numpy() >= 0))
        columns = tokens.iloc[kept_rows][["word", "piece", "symbol"]]
        parts.append(
            columns.astype({"piece": str}).assign(
                sentence=sentence_numbers[text_indices[kept_rows]]
            )
        )
        rows.append(kept_rows)
    tokens = pd.concat(parts, ignore_index=True)
    if not len(tokens):
        raise IsotropyError(f"{', '.join(f.parent.parent.name for f in folders)}: no words")
    return Sentences(tokens, list(numbers), rows)


def read_token_vectors(sentences: Sentences, folders: Sequence[Path], layer: int) -> np.ndarray:
    """Read the vectors of the tokens of sentences in a layer, shape (n, d), float32."""
    parts = zip(folders, sentences.rows, strict=True)
    return np.concatenate([read_layer(folder, layer)[rows] for folder, rows in parts])


def split_words(sentences: Sentences, unit: Unit) -> Words:
    """Group the tokens of sentences into words.

    With unit `pieces`, each token is a word, and its type is an entry of the vocabulary. With other
    units, the text between blanks is a word, without leading and trailing symbols, each of which is
    a word of its own; the type is the text.
    """
    tokens = sentences.tokens
    sentence, symbol = tokens["sentence"].to_numpy(), tokens["symbol"].to_numpy()
    new_sentence = np.diff(sentence, prepend=-1) != 0
    if unit == "pieces":
        types, names = pd.factorize(tokens["piece"])
        starts = np.arange(len(tokens))
        return _make_words(
            sentences, starts, types, np.array(names, dtype=str), ~symbol, new_sentence
        )
    word_index = tokens["word"].to_numpy()
    starts_word = new_sentence | (np.diff(word_index, prepend=-1) != 0)
    is_edge_symbol = _edge_symbols(starts_word, symbol)
    is_start = starts_word | is_edge_symbol | np.concatenate([[False], is_edge_symbol[:-1]])
    starts = np.flatnonzero(is_start)
    is_word = ~is_edge_symbol[starts]
    split = [text.split() for text in sentences.texts]
    pieces = tokens["piece"].to_numpy()
    texts = [
        _strip_symbols(split[sentence[row]][word_index[row]]) if is_whole_word else pieces[row]
        for row, is_whole_word in zip(starts.tolist(), is_word.tolist(), strict=True)
    ]
    types, names = pd.factorize(pd.Series(texts, dtype=object))
    return _make_words(sentences, starts, types, np.array(names, dtype=str), is_word, new_sentence)


def occurrences(vectors: np.ndarray, words: Words, unit: Unit, variant: Variant) -> Occurrences:
    """Select words by the variant, and attach their vectors.

    Args:
        vectors: token vectors, shape (n, d).
        words: the same tokens, grouped into words.
        unit: which vector represents a word.
        variant: which words are selected, and how vectors are transformed; `no-first` leaves out
            the first word of each sentence, `no-massive` words with a token that has a massive
            activation.

    Raises:
        IsotropyError: the variant leaves no words.
    """
    if variant == "standardized":
        vectors = standardized(vectors)
    keep = np.ones(len(words.starts), dtype=bool)
    if variant == "no-first":
        keep = ~words.leads
    elif variant == "no-massive":
        keep = ~np.logical_or.reduceat(is_massive(vectors), words.starts)
    if not keep.any():
        raise IsotropyError(f"variant {variant}: no words are left")
    if unit == "mean":
        sums = np.add.reduceat(vectors, words.starts, axis=0)
        word_vectors = sums / words.lengths[:, None].astype(vectors.dtype)
    else:
        word_vectors = vectors[words.starts]
    fields = words._asdict() | {
        name: getattr(words, name)[keep] for name in Words._fields if name != "names"
    }
    return Occurrences(word_vectors[keep], Words(**fields))


def first_occurrences(
    words: Words, min_contexts: int, types: np.ndarray | None = None
) -> np.ndarray:
    """Select the occurrences that self-similarity is measured on: for each word type (no symbols)
    in at least `min_contexts` different sentences, its first occurrence in each sentence.

    Args:
        words: words, one sentence after the other.
        min_contexts: minimum number of different sentences of a type.
        types: type number of each word; None: `words.types`.

    Returns:
        Row numbers in ascending order.

    Raises:
        IsotropyError: no type occurs in enough sentences.
    """
    types = words.types if types is None else types
    word_rows = np.flatnonzero(words.is_word)
    keys = (
        types[word_rows].astype(np.int64) * (int(words.sentences.max()) + 1)
        + words.sentences[word_rows]
    )
    first_rows = word_rows[np.sort(np.unique(keys, return_index=True)[1])]
    counts = np.bincount(types[first_rows], minlength=int(types.max()) + 1)
    selected: np.ndarray = first_rows[counts[types[first_rows]] >= min_contexts]
    if not len(selected):
        raise IsotropyError(
            f"no word occurs in {min_contexts} different sentences: use more sentences or a "
            "smaller min_contexts"
        )
    return selected


def _edge_symbols(starts_word: np.ndarray, symbol: np.ndarray) -> np.ndarray:
    """Mark leading and trailing symbols of the text between two blanks.

    Args:
        starts_word: whether a token is the first after a blank.
        symbol: whether a token is a symbol.
    """
    starts = np.flatnonzero(starts_word)
    ends = np.append(starts[1:], len(symbol))
    position = np.arange(len(symbol))
    run_index = np.repeat(np.arange(len(starts)), ends - starts)
    first_non_symbol = np.minimum.reduceat(np.where(symbol, len(symbol), position), starts)
    last_non_symbol = np.maximum.reduceat(np.where(symbol, -1, position), starts)
    edges: np.ndarray = (position < first_non_symbol[run_index]) | (
        position > last_non_symbol[run_index]
    )
    return edges


def _strip_symbols(word: str) -> str:
    """Return a word without leading and trailing characters that are neither letters nor digits."""
    return word.strip("".join({c for c in word if not c.isalnum()}))


def _make_words(
    sentences: Sentences,
    starts: np.ndarray,
    types: np.ndarray,
    names: np.ndarray,
    is_word: np.ndarray,
    new_sentence: np.ndarray,
) -> Words:
    tokens = sentences.tokens
    lengths = np.diff(np.append(starts, len(tokens)))
    word_flags = is_word if len(is_word) == len(starts) else is_word[starts]
    sentence = tokens["sentence"].to_numpy()[starts]
    return Words(starts, lengths, types, names, sentence, word_flags, new_sentence[starts])
