"""Vectors as text: what is read is what was written, or an error."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from isotropy.errors import IsotropyError
from isotropy.read.word_vectors import read_text_vectors

CASES = {
    "numpy.savetxt": ("0.1 0.2 0.3\n0.4 0.1 0.9\n0.7 0.3 0.2\n", 3),
    "scientific": ("1e-3 -2E+1 .5\n1 2 3\n", 3),
    "two integers": ("4 2\n1 3\n5 6\n", 2),
    "tab after the word": ("a\t1 2 3\nb\t2 3 1\nc\t3 1 0\n", 3),
    "tabs only": ("a\t1\t2\t3\nb\t2\t3\t1\n", 3),
    "several blanks": ("a  1   2 3 \nb 2  3 1\n", 3),
    "byte order mark": ("\ufeffa 1 2 3\nb 2 3 1\n", 3),
    "blank last lines": ("a 1 2 3\nb 2 3 1\n\n  \n", 3),
    "no last line break": ("a 1 2 3\nb 2 3 1", 3),
    "carriage returns": ("a 1 2 3\r\nb 2 3 1\r\n", 3),
    "words with blanks": ("New York 1 2 3\nb 2 3 1\nc 0 1 2\n", 3),
    "words that are numbers": ("7 1 2 3\na 2 3 1\nb 0 1 2\n", 3),
    "words that end in numbers": ("catch 22 1 2 3\na 2 3 1\nb 0 1 2\n", 3),
    "header": ("2 3\na 1 2 3\nb 2 3 1\n", 3),
    "header, words with blanks": ("2 3\nNew York 1 2 3\nb 2 3 1\n", 3),
    "header, one less": ("4 3\na 1 2 3\nb 2 3 1\nc 0 1 2\n", 3),
}


def read(folder: Path, content: str) -> tuple[np.ndarray, list[str]]:
    (folder / "x.txt").write_text(content, "utf8", newline="")
    stored, notes = read_text_vectors(folder / "x.txt", folder / "target")
    values = np.fromfile(stored.path, dtype=stored.dtype).reshape(stored.shape)
    return values, notes


@pytest.mark.parametrize("case", CASES)
def test_dimensions(case: str, tmp_path: Path) -> None:
    content, d = CASES[case]
    values, notes = read(tmp_path, content)
    assert values.shape[1] == d
    lines = [line for line in content.lstrip("\ufeff").splitlines() if line.strip()]
    has_header = case.startswith("header")
    expected = [[float(x) for x in line.split()[-d:]] for line in lines[has_header:]]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    without_words = case in ("numpy.savetxt", "scientific", "two integers")
    assert notes == (
        [f"no words: each line is a vector of {d} numbers"] * without_words
        + ["line 1 promises 4 vectors, the file has one less"] * (case == "header, one less")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("4 2\na 1 2 3\nb 2 3 1\nc 3 1 0\nd 1 1 1\n", "4 vectors of 2 numbers, but lines have at"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3 1 0\n", "promises 9 vectors, the file has 3: it is cut off"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3 1 0.", "promises 9 vectors, the file has 3: it is cut off"),
        ("9 3\na 1 2 3\nb 2 3 1\nc 3", "line 4: expected a word and 3 numbers"),
        ("a 1 2 3\nb 2 3\nc 3 1 0\n", "line 2: expected a word and 3 numbers, got 3 fields"),
        ("a 1 2 3\nb 2 x 3\nc 3 1 0\n", "line 2: expected a number, got 'x'"),
        ("1 2 3\n4 5\n6 7 8\n", "line 2: expected 3 numbers, got 2"),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match=message):
        read(tmp_path, content)


WORDS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(WORDS, min_size=3, max_size=12),
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
    if header and numeric:  # words that are all numbers look like another column
        with pytest.raises(IsotropyError, match="promises"):
            read(tmp_path, content)
        return
    values, notes = read(tmp_path, content)
    if numeric:
        assert values.shape == (len(words), d + 1)
        assert notes == [f"no words: each line is a vector of {d + 1} numbers"]
    else:
        assert np.array_equal(values, X)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
