"""Registry entries: families, implied values, and errors that name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isotropy.errors import IsotropyError
from replication.sources.registry import Registry, load_registry
from replication.templates import fill, read_yaml
from tests.unit.hub import REVISION

DATA: dict[str, Any] = {
    "licence": "none",
    "citation": "one",
    "contents": {"all": {"status": "original", "title": "t", "format": "lines"}},
    "origins": [{"type": "hub", "repo": "owner/name", "revision": REVISION, "files": ["a/b.txt"]}],
}
MODEL: dict[str, Any] = {
    "licence": "none",
    "citation": "one",
    "encoder": {"pooling": "mean", "normalize": True, "max_length": 8},
    "contents": {"weights": {"status": "original", "title": "m"}},
    "origins": [{"type": "hub", "repo": "owner/name", "revision": REVISION}],
}


def load(folder: Path, text: str | None = None, file: str = "datasets", **entries: Any) -> Registry:
    """Write a registry file from entries or a text, and load the folder."""
    data = {"citations": {"one": "One (2001)", "two": "Two (2002)"}, "sources": entries}
    (folder / f"{file}.yaml").write_text(json.dumps(data) if text is None else text)
    return load_registry(folder)


def test_fill_replaces_names_in_braces() -> None:
    """A text that consists of one name becomes the value itself, of any type."""
    values = {"a": 1, "b": None, "c": {"d": "{a}"}}
    assert fill({"k{a}": ["{a}-{b}", "{c}", 2]}, values) == {"k1": ["1-None", {"d": "{a}"}, 2]}
    assert fill("p/c[a-r]{2}", values) == "p/c[a-r]{2}"
    assert fill("{x}", {}) == "{x}"
    with pytest.raises(ValueError, match="an item has no 'aa'"):
        fill("{aa}", values)


def test_duplicate_yaml_keys_are_rejected(tmp_path: Path) -> None:
    """PyYAML alone would silently keep the last one; merge keys are allowed."""
    for text in (
        "sources: {a: {}, a: {}}",
        "sources: {a: {licence: x, licence: y}}",
        "citations: {}\ncitations: {}",
    ):
        with pytest.raises(IsotropyError, match=r"datasets\.yaml: .*duplicate key '\w+'"):
            load(tmp_path, text)
    (tmp_path / "m.yaml").write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}\nc: {<<: [*a, *a]}\n")
    merged = read_yaml(tmp_path / "m.yaml")
    assert merged["b"] == {"x": 2, "y": 1}
    assert merged["c"] == {"x": 1, "y": 1}


def test_duplicate_entries_are_rejected(tmp_path: Path) -> None:
    """In two files, and in a template and a single entry."""
    template = DATA | {"each": [{"b": "x"}]}
    with pytest.raises(
        IsotropyError, match=r"datasets\.yaml: a-x: duplicate entry, also in .*data"
    ):
        load(tmp_path, **{"a-{b}": template, "a-x": DATA})
    load(tmp_path, a=DATA)
    with pytest.raises(IsotropyError, match=r"lexicons\.yaml: citations\.one: duplicate key"):
        load(tmp_path, file="lexicons", a=DATA)
    (tmp_path / "lexicons.yaml").write_text(json.dumps({"sources": {"a": DATA}}))
    with pytest.raises(
        IsotropyError, match=r"lexicons\.yaml: a: duplicate entry, .*datasets\.yaml"
    ):
        load_registry(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "datasets.yaml: while parsing"),
        ("[]", "expected the keys sources and citations"),
        ("polarity: {}", "expected the keys sources and citations"),
        ("sources: 3", "sources: expected a mapping, got 3"),
        ("citations: {a: 3}", "citations.a: expected text, got 3"),
        ("sources: {../a: {}}", r"\.\./a: expected an id of letters"),
    ],
)
def test_malformed_registry_files_give_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(IsotropyError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
