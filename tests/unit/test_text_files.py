"""Texts and vectors from text files of each format: what was written, or an error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from isotropy.errors import IsotropyError
from isotropy.read.arrays import open_file
from isotropy.read.text_files import Column, read_texts, read_values
from isotropy.read.word_vectors import read_text_vectors

TEXTS = ['say "tea"', "one, two", "one; two", "two\tthree", "two\nlines", "long " * 40_000]
FRAME = pd.DataFrame({"label": range(len(TEXTS)), "text": TEXTS})
OBJECTS = FRAME.to_dict("records")
FILES = {
    "x.csv": FRAME.to_csv(index=False),
    "semicolons.csv": FRAME.to_csv(index=False, sep=";"),
    "tabs.csv": FRAME.to_csv(index=False, sep="\t"),
    "x.tsv": FRAME.to_csv(index=False, sep="\t"),
    "commas in names.tsv": FRAME.rename(columns={"label": "a,b"}).to_csv(index=False, sep="\t"),
    "x.jsonl": "".join(json.dumps(item) + "\n" for item in OBJECTS),
    "x.ndjson": "\r\n".join(json.dumps(item) for item in OBJECTS),
    "x.json": json.dumps(OBJECTS, indent=1),
    "array in one line.jsonl": json.dumps(OBJECTS),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_texts_are_those_that_were_written(name: str, mark: str, tmp_path: Path) -> None:
    data = (mark + FILES[name]).encode()
    (tmp_path / name).write_bytes(data)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    has_tabs = "\t" in FILES[name].partition("\n")[0]
    assert read_texts(Column(tmp_path / name, "text", has_tabs)) == TEXTS
    assert read_texts(Column(tmp_path / f"{name}.gz", None, has_tabs)) == TEXTS


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", b'text,label\na "b",1\n"c,2\nd,3\n', "unexpected end"),
        ("x.tsv", b'text\tlabel\n"a\tb"\t1\nc\t2\n', "got 3 .read without quoting"),
        ("x.tsv", b'"text"\t"label"\n"a"\t1\n"b"\t2\n', "--quoting"),
        ("x.csv", b'text,label\n"a" b,1\nc,2\n', "after '\"'"),
        ("x.csv", b"text,text\na,1\nb,2\n", "several"),
        ("x.csv", b"text;label\na;1\nb\n", "line 3"),
        ("x.json", b'["a", "b"]', "item 1"),
        ("x.json", b'[{"text": "a"}', "array of objects"),
        ("x.json", b'{"text": "a"}\n{', "line 2"),
        ("x.json", b'[{"text": "a"}, {"txt": "b"}]', "item 2"),
        ("x.csv.gz", b"text\na\nb\n", "damaged"),
        ("x.csv.gz", gzip.compress(FILES["x.csv"].encode())[:200], "damaged"),
        ("x.gz", b"a\nb\n", "one of .txt"),
    ],
)
def test_broken_files_are_refused(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(IsotropyError, match=words) as caught:
        read_texts(Column(tmp_path / name, "text"))
    assert str(tmp_path / name) in str(caught.value)


FIELDS = st.text(st.sampled_from("\"'a1.,; \u00a0\u3000\x85\u2028"), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(FIELDS, min_size=2, max_size=9),
    st.sampled_from(["x.tsv", "x.csv"]),
    st.sampled_from("\t,;"),
    st.booleans(),
)
def test_fields_are_those_that_were_written(
    tmp_path: Path, words: list[str], name: str, separator: str, quoting: bool
) -> None:
    """Quotation marks enclose fields; between tabs only if the user says so."""
    name = name if separator == "\t" else "x.csv"
    frame = pd.DataFrame({"word": words, "x0": range(len(words)), "x1": 0.5})
    rows = [["word", "x0", "x1"], *frame.astype(str).to_numpy().tolist()]
    as_is = "".join(f"{separator.join(row)}\n" for row in rows)
    is_quoted = quoting or separator != "\t"
    content = frame.to_csv(sep=separator, index=False) if is_quoted else as_is
    (tmp_path / name).write_text(content, "utf8", newline="")
    assert read_values(Column(tmp_path / name, "word", quoting), "word") == words
    (cloud,) = open_file(
        tmp_path / name, None, tmp_path, ["x?"], separator=separator, quoting=quoting
    )
    assert np.array_equal(np.concatenate(list(cloud.blocks())), frame[["x0", "x1"]])


VECTORS = {
    "numpy.savetxt": ("0.1 0.2 0.3\n0.4 0.1 0.9\n0.7 0.3 0.2\n", 3, "no words"),
    "scientific": ("1e-3 -2E+1 .5\n1 2 3\n", 3, "no words"),
    "two integers": ("4 2\n1 3\n5 6\n", 2, "no words"),
    "tab after the word": ("a\t1 2 3\nb\t2 3 1\nc\t3 1 0\n", 3, ""),
    "several blanks": ("a  1   2 3 \nb 2  3 1\n", 3, ""),
    "byte order mark": ("\ufeffa 1 2 3\nb 2 3 1\n", 3, ""),
    "blank last lines": ("a 1 2 3\nb 2 3 1\n\n  \n", 3, ""),
    "no last line break": ("a 1 2 3\nb 2 3 1", 3, ""),
    "carriage returns": ("a 1 2 3\r\nb 2 3 1\r\n", 3, ""),
    "words with blanks": ("New York 1 2 3\nb 2 3 1\nc 0 1 2\n", 3, ""),
    "words that end in numbers": ("catch 22 1 2 3\na 2 3 1\nb 0 1 2\n", 3, ""),
    "header, words with blanks": ("2 3\nNew York 1 2 3\nb 2 3 1\n", 3, ""),
    "header, words that are numbers": ("3 2\n1 .1 .2\n2 .3 .4\n3 .5 .6\n", 2, ""),
    "header, a matrix of two columns": ("2 1\n1 2\n3 4\n", 2, "no words"),
    "words of blanks": ("\u00a0 1 2 3\n\u3000 2 3 1\n\u2003\u2003\t0 1 2\n", 3, ""),
    "header, one less": ("4 3\na 1 2 3\nb 2 3 1\nc 0 1 2\n", 3, "one less"),
}


def vectors(folder: Path, content: str) -> tuple[np.ndarray, list[str]]:
    (folder / "x.txt").write_text(content, "utf8", newline="")
    stored, notes = read_text_vectors(folder / "x.txt", folder / "target")
    values = np.fromfile(stored.path, dtype=stored.dtype).reshape(stored.shape)
    return values, notes


def test_words_cut_inside_a_character_are_counted(tmp_path: Path) -> None:
    """As word2vec cuts long words."""
    lines = [b"3 2", b"caf\xc3 1 2", b"\xe4\xb8 3 4", b"caf\xc3\xa9 5 6"]
    (tmp_path / "x.vec").write_bytes(b"\n".join(lines))
    stored, notes = read_text_vectors(tmp_path / "x.vec", tmp_path / "target")
    assert np.fromfile(stored.path, stored.dtype).tolist() == [1, 2, 3, 4, 5, 6]
    assert notes == ["2 words are not valid UTF-8"]


@pytest.mark.parametrize("case", VECTORS)
def test_vectors_are_those_that_were_written(case: str, tmp_path: Path) -> None:
    content, d, note = VECTORS[case]
    values, notes = vectors(tmp_path, content)
    assert values.shape[1] == d
    lines = [line for line in content.lstrip("\ufeff").splitlines() if line.strip()]
    has_header = case.startswith("header, ") and "matrix" not in case
    expected = [[float(x) for x in line.split()[-d:]] for line in lines[has_header:]]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert [note in obtained for obtained in notes] == [True] * bool(note)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("4 2\na 1 2 3\nb 2 3 1\nc 3 1 0\nd 1 1 1\n", "4 vectors of 2"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3 1 0\n", "has 3: it is cut off"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3 1 0.", "has 3: it is cut off"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3", "line 4"),
        ("a 1 2 3\nb 2 3\nc 3 1 0\n", "line 2: .* got 3 fields"),
        ("a 1 2 3\nb 2 x 3\nc 3 1 0\n", "line 2: .* got 'x'"),
        ("1 2 3\n4 5\n6 7 8\n", "line 2: .* got 2"),
    ],
)
def test_vectors_that_contradict_themselves_are_refused(
    content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match=message):
        vectors(tmp_path, content)


WORDS = st.text(
    st.characters(categories=["L", "N", "P", "Zs"], exclude_characters=" ")
    | st.sampled_from("\x85\u2028\x0b\x1c"),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(WORDS, min_size=3, max_size=12)
    | st.lists(st.integers(0, 99).map(str), min_size=3, max_size=12),
    st.integers(2, 6),
    st.booleans(),
    st.sampled_from([" ", "\t", "  "]),
    st.integers(0, 2**32 - 1),
)
def test_written_vectors_are_read_or_refused(
    tmp_path: Path, words: list[str], d: int, header: bool, blank: str, seed: int
) -> None:
    """As word2vec and GloVe write them, with words that may be numbers."""
    X = np.random.default_rng(seed).standard_normal((len(words), d)).astype(np.float32)
    lines = [blank.join([w, *map(repr, map(float, x))]) for w, x in zip(words, X, strict=True)]
    content = "\n".join([*([f"{len(words)} {d}"] if header else []), *lines, ""])
    numeric = all(_is_number(word) for word in words)
    values, notes = vectors(tmp_path, content)
    if numeric and not header:  # words that are all numbers look like another column
        assert values.shape == (len(words), d + 1)
        assert "no words" in notes[0]
    else:
        assert np.array_equal(values, X)


def _is_number(word: str) -> bool:
    try:
        float(word.encode())
    except ValueError:
        return False
    return True
