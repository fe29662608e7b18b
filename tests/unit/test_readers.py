"""Readers: a small file of each format, and files in wrong formats."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isotropy.errors import IsotropyError
from replication.sources import formats
from replication.sources.formats import (
    Row,
    content_sha256,
    label_names,
    read_rows,
    read_vectors,
    verify_rows,
)
from replication.sources.own.texts import READERS as USER_READERS
from replication.sources.readers import READERS, murmur64
from replication.sources.registry import load_registry
from replication.sources.spec import Content


def test_every_format_has_a_used_reader(project: Path) -> None:
    """Every format of an entry has a reader of the right type; every reader is used by an entry, or
    for users' files."""
    named = set()
    for name, source in load_registry(project / "config/sources").sources.items():
        for content in source.contents.values():
            if content.format is None:
                assert source.kind == "model", name
                continue
            named.add(content.format)
            reader = READERS[content.format].read
            gives = "StaticVectors" if source.kind == "vectors" else "Iterator[Row]"
            assert reader.__annotations__["return"] == gives, content.format
            assert reader.__doc__, content.format
    assert named | set(USER_READERS.values()) == set(formats.known_formats())


def test_reader_modules_of_a_source(project: Path) -> None:
    """The readers of all contents, whatever the origin; models have none."""
    sources = load_registry(project / "config/sources").sources
    assert formats.modules(sources["parts-of-speech"]) == [
        "replication.sources.readers:codwoe",
        "replication.sources.readers:wordnet-parts-of-speech",
    ]
    assert formats.modules(sources["sst5"]) == ["replication.sources.readers:hub-jsonl"]
    assert formats.modules(sources["all-MiniLM-L6-v2"]) == []


def test_formats_of_the_wrong_kind_are_rejected(tmp_path: Path) -> None:
    """Rows are not read as vectors, nor vectors as rows; unknown formats are named."""
    (tmp_path / "words.txt").write_text("tea\n")
    (tmp_path / "vectors.txt").write_text("tea 1 2\n")
    words = Content(status="original", title="w", format="word-list")
    glove = Content(status="original", title="g", format="glove-text")
    with pytest.raises(IsotropyError, match="g: expected a format of rows, got glove-text"):
        read_rows(glove, tmp_path)
    with pytest.raises(IsotropyError, match="w: expected a format of vectors, got word-list"):
        read_vectors(words, tmp_path)
    with pytest.raises(IsotropyError, match="w: expected a format of a lexicon with labels"):
        label_names(words)
    strange = words.model_copy(update={"format": "word-lists"})
    with pytest.raises(IsotropyError, match="got 'word-lists'; did you mean 'word-list'"):
        read_rows(strange, tmp_path)


def test_word2vec_binary_reader(tmp_path: Path) -> None:
    """A file as written by word2vec, and a truncated file."""
    vectors = np.arange(6, dtype="<f4").reshape(2, 3)
    body = (
        b"2 3\n"
        + b"caf\xc3\xa9 "
        + vectors[0].tobytes()
        + b"\n"
        + b"tea "
        + vectors[1].tobytes()
        + b"\n"
    )
    content = Content(status="original", title="w", format="word2vec-binary")
    (tmp_path / "model.bin").write_bytes(body)
    table = read_vectors(content, tmp_path)
    assert table.words == ["café", "tea"]
    assert (table.vectors == vectors).all()
    (tmp_path / "model.bin").write_bytes(body[:-9])
    with pytest.raises(IsotropyError, match="ends after 1 of 2 words"):
        read_vectors(content, tmp_path)


def test_compressed_word2vec_reader(tmp_path: Path) -> None:
    body = b"1 2\n" + b"tea " + np.arange(2, dtype="<f4").tobytes() + b"\n"
    (tmp_path / "model.bin.gz").write_bytes(gzip.compress(body))
    table = read_vectors(Content(status="original", title="w", format="word2vec-binary"), tmp_path)
    assert (table.words, table.vectors.tolist()) == (["tea"], [[0, 1]])


def test_glove_readers(tmp_path: Path) -> None:
    """Text, in which a word may contain blanks, and an array with a table of words."""
    (tmp_path / "vectors.txt").write_text("tea 1 2.5\n. . . -1 0\n", "utf8")
    text = read_vectors(Content(status="original", title="g", format="glove-text"), tmp_path)
    pd.DataFrame({"index": text.words}).to_parquet(tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", text.vectors)
    content = Content(status="original", title="g", format="named-array")
    for table in (text, read_vectors(content, tmp_path)):
        assert table.words == ["tea", ". . ."]
        assert table.vectors.tolist() == [[1, 2.5], [-1, 0]]
    np.save(tmp_path / "vectors.npy", text.vectors[:1])
    with pytest.raises(IsotropyError, match="2 words and 1 vectors"):
        read_vectors(content, tmp_path)


def test_corpus_readers(tmp_path: Path) -> None:
    """Rows without labels: lines, sentences without tags, a single column; the digest covers the
    texts."""
    (tmp_path / "lines.txt").write_text(" \n = A = \nb\n", "utf8")
    lines = read_rows(Content(status="original", title="l", format="lines"), tmp_path)
    assert [row.texts[0] for row in lines] == [" ", " = A = ", "b"]
    assert content_sha256(lines[2:]) == hashlib.sha256(b'["b"]\n').hexdigest()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/cb").write_text("\n\tto/to be/be 1/2/cd ./.\n\n", "utf8")
    (tmp_path / "texts/ca").write_text("\tfirst/od\n", "utf8")
    brown = read_rows(Content(status="stand-in", title="b", format="brown"), tmp_path)
    assert brown == [Row(("first",)), Row(("to be 1/2 .",))]
    pd.DataFrame({"text": ["", " x \n"]}).to_parquet(tmp_path / "train.parquet")
    content = Content(
        status="original", title="w", format="hub-parquet", text_fields=["text"], label_field=None
    )
    assert read_rows(content, tmp_path) == [Row(("",)), Row((" x \n",))]


def test_hub_parquet_reader(tmp_path: Path) -> None:
    """Columns are selected by name, and rows without a label are left out."""
    frame = pd.DataFrame(
        {"idx": [0, 1, 2], "b": ["x", "y", "z"], "a": ["1", "2", "3"], "label": [1, -1, 0]}
    )
    frame.to_parquet(tmp_path / "train.parquet")
    content = Content(status="original", title="t", format="hub-parquet", text_fields=["a", "b"])
    assert read_rows(content, tmp_path) == [Row(("1", "x"), 1), Row(("3", "z"), 0)]
    with pytest.raises(IsotropyError, match="not readable as hub-parquet"):
        read_rows(content.model_copy(update={"text_fields": ["c"]}), tmp_path)


def test_hub_jsonl_reader(tmp_path: Path) -> None:
    lines = [
        {"text": "x\u2028y", "label": 4, "label_text": "very positive"},
        {"text": "z", "label": 0},
    ]
    (tmp_path / "dev.jsonl").write_text(
        "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n", "utf8"
    )
    content = Content(status="original", title="t", format="hub-jsonl", text_fields=["text"])
    assert read_rows(content, tmp_path) == [Row(("x\u2028y",), 4), Row(("z",), 0)]
    with pytest.raises(IsotropyError, match="not readable as hub-jsonl"):
        read_rows(content.model_copy(update={"label_field": "score"}), tmp_path)
    without = read_rows(content.model_copy(update={"label_field": None}), tmp_path)
    assert [row.label for row in without] == [None, None]


def test_snli_reader(tmp_path: Path) -> None:
    """The authors' format, with the hub's numbers of labels."""
    gold = ["contradiction", "-", "entailment"]
    lines = [
        json.dumps({"gold_label": g, "sentence1": f"p{i}", "sentence2": f"h{i}"})
        for i, g in enumerate(gold)
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines) + "\n")
    content = Content(status="original", title="t", format="snli-jsonl")
    assert read_rows(content, tmp_path) == [Row(("p0", "h0"), 2), Row(("p2", "h2"), 0)]


def test_readers_of_parts_of_speech(tmp_path: Path) -> None:
    """CoDWoE's dictionary and WordNet's files give the same kind of rows; other parts of speech are
    left out."""
    (tmp_path / "en.complete.csv").write_text(
        'word,pos,gloss\nRun,verb,"to move, fast"\nrun,noun,a race\noh,intj,surprise\n'
    )
    codwoe = Content(status="original", title="t", format="codwoe")
    assert read_rows(codwoe, tmp_path) == [Row(("run",), ["noun", "verb"])]
    (tmp_path / "en.complete.csv").write_text("word,gloss\nrun,to move\n")
    with pytest.raises(IsotropyError, match="expected a column 'pos', got 'word', 'gloss'"):
        read_rows(codwoe, tmp_path)
    head = "  1 licence\n"
    (tmp_path / "data.noun").write_text(
        head + "00001740 03 n 02 Run 0 race 0 001 @ 0 n 0000 | gloss\n"
    )
    (tmp_path / "data.adj").write_text(head + "00001740 00 a 01 alive(p) 0 000 | gloss\n")
    wordnet = Content(status="stand-in", title="t", format="wordnet-parts-of-speech")
    result = {row.texts[0]: row.label for row in read_rows(wordnet, tmp_path)}
    assert result == {"run": ["noun"], "race": ["noun"], "alive": ["adjective"]}
    assert all(set(labels) <= set(label_names(wordnet)) for labels in result.values())


def test_murmur_hash_equals_spacys() -> None:
    """Against a key in spaCy's documentation."""
    assert murmur64(b"coffee") == 3197928453018144401
    assert murmur64(b"") != murmur64(b"a")


REVIEWS = Content(status="stand-in", title="reviews", format="movie-reviews")
HEADER = "text,label,source\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_with_and_without_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    """Columns are in any order, and quoted fields may contain line breaks."""
    text = mark + 'source,label,text\nrotten_tomatoes,1,"good,\nreally"\nimdb,0,bad\n'
    (tmp_path / "combined_movie_reviews.csv").write_text(text, "utf8")
    assert read_rows(REVIEWS, tmp_path) == [Row(("good,\nreally",), 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence,label,source\nx,1,a\n", "expected a column 'text', got 'sentence', 'label'"),
        ("text|label|source\nx|1|a\n", "its fields must be separated by commas"),
        ("text;label;text;source\n", "expected one column 'text', got several"),
        ("", "expected a column 'text', got an empty file"),
        (HEADER + "x,1,a\ny,1\n", "line 3: expected 3 fields, got 2"),
        (HEADER + "x,1,a,b,c\n", "line 2: expected 3 fields, got 5"),
        (HEADER + "x,one,rotten_tomatoes\n", "line 2, column label: expected a whole number"),
        (HEADER + '"x,1,a\n', "line 2: expected 3 fields, got 1"),
    ],
)
def test_errors_in_csv_name_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "combined_movie_reviews.csv").write_text(text, "utf8")
    with pytest.raises(IsotropyError, match=f"reviews: not readable as movie-reviews .*{message}"):
        read_rows(REVIEWS, tmp_path)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"text": ["a"]}', '{"text": "\\ud800"}', "{"])
def test_rows_without_valid_texts_are_rejected(tmp_path: Path, line: str) -> None:
    content = Content(
        status="stand-in", title="lines", format="hub-jsonl", text_fields=["text"], label_field=None
    )
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(IsotropyError, match=r"^lines: (row 1: expected a text|not readable)"):
        verify_rows(content, read_rows(content, tmp_path))


@pytest.mark.parametrize("end", [0, 20])
def test_damaged_compressed_vectors_are_rejected(tmp_path: Path, end: int) -> None:
    """A word without an end, and a truncated file."""
    complete, endless = b"2 2\na " + bytes(8) + b"b " + bytes(8), b"9 9\n" + b"x" * 10**6
    data = gzip.compress(complete)[:end] if end else gzip.compress(endless)
    (tmp_path / "model.bin.gz").write_bytes(data)
    content = Content(status="stand-in", title="vectors", format="word2vec-binary")
    with pytest.raises(IsotropyError, match="vectors: not readable as word2vec-binary"):
        read_vectors(content, tmp_path)
