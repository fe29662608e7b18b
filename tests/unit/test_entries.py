"""Registry entries: files of YAML, and errors that name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isotropy.errors import IsotropyError
from replication.claims.read import fill
from replication.sources.registry import Registry, load_registry
from replication.yaml_files import read_yaml
from tests.unit.hub import REVISION

ORIGIN: dict[str, Any] = {
    "type": "hub",
    "content": "all",
    "repo": "owner/name",
    "repo_type": "dataset",
}
ORIGIN |= {"revision": REVISION, "files": {"b.txt": "a/b.txt"}}
CONTENT = {"status": "original", "title": "t", "format": "lines"}
DATA: dict[str, Any] = {"kind": "dataset", "licence": "none", "citation": "One (2001)"}
DATA |= {"contents": {"all": CONTENT}, "origins": [ORIGIN]}


def load(folder: Path, text: str | None = None, file: str = "datasets", **entries: Any) -> Registry:
    """Write a registry file from entries or a text, and load the folder."""
    (folder / f"{file}.yaml").write_text(json.dumps(entries) if text is None else text)
    return load_registry(folder)


def test_fill_replaces_names_in_braces() -> None:
    """A text that consists of one name becomes the value itself, of any type."""
    values = {"a": 1, "b": None, "c": {"d": "{a}"}}
    assert fill({"k{a}": ["{a}-{b}", "{c}", 2]}, values) == {"k1": ["1-None", {"d": "{a}"}, 2]}
    assert fill("p/c[a-r]{2}", values) == "p/c[a-r]{2}"
    assert fill("{x}", {}) == "{x}"
    with pytest.raises(ValueError, match="aa"):
        fill("{aa}", values)


def test_duplicates_are_rejected(tmp_path: Path) -> None:
    """PyYAML alone would silently keep the last key; merge keys are allowed."""
    for text in ("{a: {}, a: {}}", "{a: {licence: x, licence: y}}"):
        with pytest.raises(IsotropyError, match="duplicate key"):
            load(tmp_path, text)
    (tmp_path / "m.yaml").write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}\nc: {<<: [*a, *a]}\n")
    merged = read_yaml(tmp_path / "m.yaml")
    assert merged["b"] == {"x": 2, "y": 1}
    assert merged["c"] == {"x": 1, "y": 1}
    (tmp_path / "m.yaml").unlink()
    load(tmp_path, a=DATA)
    with pytest.raises(IsotropyError, match="another file"):
        load(tmp_path, file="lexicons", a=DATA)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"licens": "x"}, "a.licens"),
        ({"contents": {"all": CONTENT | {"rows": "3"}}}, "a.contents.all.rows"),
        ({"contents": {"all": CONTENT | {"status": "own"}}}, "status"),
        ({"origins": []}, "a.origins"),
        ({"origins": [ORIGIN | {"content": "al"}]}, "al"),
        ({"origins": [ORIGIN | {"revision": "main"}]}, "revision"),
        ({"origins": [ORIGIN | {"files": {"x": "../x"}}]}, "files"),
        ({"encoder": {"pooling": "mean", "normalize": True, "max_length": 8}}, "encoder"),
    ],
)
def test_mistakes_in_an_entry_name_the_field(
    change: dict[str, Any], place: str, tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match=place) as caught:
        load(tmp_path, a=DATA | change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "[]", "a: 3", "../a: {}", "[" * 60 + "]" * 60])
def test_malformed_registry_files_give_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(IsotropyError, match=r"datasets\.yaml") as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_random_control_names_a_model(tmp_path: Path) -> None:
    origin = {"type": "random", "content": "all", "like": "x", "seed": 0, "files": {"a": "a"}}
    with pytest.raises(IsotropyError, match="known"):
        load(tmp_path, a=DATA | {"origins": [origin]})
