"""Texts and labels from files of each format: what was written, or an error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from isotropy.errors import IsotropyError
from isotropy.read.text_files import Column, read_texts

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
    assert read_texts(Column(tmp_path / name, "text")) == TEXTS
    assert read_texts(Column(tmp_path / f"{name}.gz", None)) == TEXTS


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.tsv", 'text\tlabel\na "b"\t1\n"c\t2\nd\t3\n', "unexpected end of data"),
        ("x.csv", 'text,label\n"a" b,1\nc,2\n', "',' expected after '\"'"),
        ("x.csv", "text,text\na,1\nb,2\n", "expected one field 'text', got several"),
        ("x.csv", "text;label\na;1\nb\n", "line 3: expected 2 fields, got 1"),
        ("x.json", '["a", "b"]', "x.json, item 1: expected an object with fields, got 'a'"),
        ("x.json", '[{"text": "a"}', "expected an array of objects"),
        ("x.json", '{"text": "a"}\n{', "line 2: expected a line of JSON"),
        ("x.json", '[{"text": "a"}, {"txt": "b"}]', "item 2: no field 'text'"),
        ("x.csv.gz", "text\na\nb\n", "it is damaged or incomplete"),
        ("x.gz", "a\nb\n", "expected one of .txt"),
    ],
)
def test_broken_files_are_refused(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(IsotropyError) as caught:
        read_texts(Column(tmp_path / name, "text"))
    assert sentence in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_an_incomplete_archive_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(FILES["x.csv"].encode())
    (tmp_path / "x.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(IsotropyError, match="it is damaged or incomplete"):
        read_texts(Column(tmp_path / "x.csv.gz", "text"))
