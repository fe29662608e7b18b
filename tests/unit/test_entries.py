"""Registry entries: families, implied values, and errors that name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from isotropy.errors import IsotropyError, suggest
from isotropy.sources.entries import MODEL_FILES
from isotropy.sources.registry import Registry, load_registry
from isotropy.sources.sizes import ModelSize, TextsSize
from isotropy.templates import fill, read_yaml
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


def test_a_hub_origin_implies_a_mirror_origin(tmp_path: Path) -> None:
    """It follows the hub origin, with the same content, in a folder by type of repository."""
    package = {"type": "package", "client": "pip", "package": "p", "version": "1", "sha256": None}
    both = [DATA["origins"][0], {**package, "files": {"b.txt": "x"}}]
    hub, mirror, last = load(tmp_path, a=DATA | {"origins": both}).sources["a"].origins
    assert (hub.type, mirror.type, last.type) == ("hub", "mirror", "package")
    assert (hub.content, mirror.content, last.content) == ("all", "all", "all")
    assert hub.files == {"b.txt": "a/b.txt"}
    assert mirror.files == {"b.txt": "hf/datasets/owner/name/a/b.txt"}
    assert hub.type == "hub"
    assert hub.repo_type == "dataset"
    alone = DATA | {"origins": [DATA["origins"][0] | {"mirror": False}]}
    assert [o.type for o in load(tmp_path, a=alone).sources["a"].origins] == ["hub"]


def test_model_entry_implies_its_files_and_kind(tmp_path: Path) -> None:
    size = {"weights": 1.5, "width": 4, "layers": 2, "gigabytes": 0.1}
    registry = load(tmp_path, file="models", m=MODEL | {"size": size})
    model = registry.sources["m"]
    assert model.kind == "model"
    assert [list(origin.files) for origin in model.origins] == [MODEL_FILES, MODEL_FILES]
    assert model.origins[1].files["config.json"] == "hf/models/owner/name/config.json"
    assert registry.sizes == {"m": ModelSize(weights=1.5, width=4, layers=2, gigabytes=0.1)}


def test_corpus_may_be_in_the_file_of_data_sets(tmp_path: Path) -> None:
    registry = load(tmp_path, a=DATA | {"kind": "corpus", "size": {"tokens": 7}}, b=DATA)
    assert [source.kind for source in registry.sources.values()] == ["corpus", "dataset"]
    assert registry.sizes == {"a": TextsSize(tokens=7)}


def test_citation_keys_are_resolved(tmp_path: Path) -> None:
    result = load(tmp_path, a=DATA, b=DATA | {"citation": ["two", "one"]}).sources
    assert result["a"].citation == "One (2001)"
    assert result["b"].citation == "Two (2002); One (2001)"


def test_a_template_is_expanded_to_entries(tmp_path: Path) -> None:
    """Each item gives an entry, which equals the same one written by hand."""
    template = {
        "each": [
            {"task": "cola", "rows": 3, "fields": ["x"]},
            {"task": "rte", "rows": 4, "fields": ["x", "y"]},
        ],
        "licence": "none",
        "citation": "one",
        "contents": {
            "all": {
                "status": "original",
                "title": "GLUE {task}, {rows} rows",
                "format": "hub-parquet",
                "text_fields": "{fields}",
                "expect": {"rows": "{rows}"},
            }
        },
        "origins": [DATA["origins"][0] | {"files": ["{task}/b.parquet"]}],
    }
    content = {
        "status": "original",
        "title": "GLUE rte, 4 rows",
        "format": "hub-parquet",
        "text_fields": ["x", "y"],
        "expect": {"rows": 4},
    }
    origins = [DATA["origins"][0] | {"files": {"b.parquet": "rte/b.parquet"}}]
    by_hand = DATA | {"contents": {"all": content}, "origins": origins}
    result = load(tmp_path, **{"glue-{task}": template}, hand=by_hand).sources
    assert list(result) == ["glue-cola", "glue-rte", "hand"]
    assert result["glue-rte"] == result["hand"]
    assert result["glue-cola"].contents["all"].text_fields == ["x"]


def test_fill_replaces_names_in_braces() -> None:
    """A text that consists of one name becomes the value itself, of any type."""
    values = {"a": 1, "b": None, "c": {"d": "{a}"}}
    assert fill({"k{a}": ["{a}-{b}", "{c}", 2]}, values) == {"k1": ["1-None", {"d": "{a}"}, 2]}
    assert fill("p/c[a-r]{2}", values) == "p/c[a-r]{2}"
    assert fill("{x}", {}) == "{x}"
    with pytest.raises(ValueError, match="an item has no 'aa'"):
        fill("{aa}", values)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (DATA | {"licens": "x"}, r"a\.licens: unknown field; did you mean 'licence'"),
        (DATA | {"citation": "three"}, r"a\.citation: expected a key of citations, got 'three'"),
        (
            {k: v for k, v in DATA.items() if k != "licence"},
            r"a\.licence: expected a value, got no",
        ),
        (DATA | {"kind": "data"}, r"a\.kind: expected 'model', .*got 'data'"),
        (DATA | {"size": {"rows": "3"}}, r"a\.size\.rows: expected a valid integer, got '3'"),
        (DATA | {"size": {"width": 3}}, r"a\.size\.width: unknown field"),
        (DATA | {"origins": []}, r"a\.origins: .*1 item"),
        (DATA | {"encoder": MODEL["encoder"]}, "a: encoder: expected none of a dataset, got one"),
        (DATA | {"each": 3}, "a: each: expected a list of mappings"),
        (
            DATA | {"each": [{"b": ["x"]}]} | {"contents": {"{b}": {}}},
            "a: each: expected a text or number for the key '.b.', got .'x'.",
        ),
        (
            DATA | {"each": [{"b": 1}]} | {"licence": "{c}"},
            "a: each: an item has no 'c': known: 'b'",
        ),
        (3, "a: expected a mapping, got 3"),
    ],
)
def test_errors_in_an_entry(tmp_path: Path, entry: Any, message: str) -> None:
    """The message has file, entry, field, the expected and the given value."""
    with pytest.raises(IsotropyError, match=rf"source registry .*datasets\.yaml: .*{message}"):
        load(tmp_path, a=entry)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": "line"}, r"contents\.all\.format: .*got 'line'; did you mean 'lines'\?"),
        ({"rows": 3}, r"contents\.all\.rows: move this field under `expect:`"),
        ({"expect": {"row": 3}}, r"contents\.all\.expect: expected the fields rows, .*got row"),
        ({"expect": {"rows": "3"}}, r"contents\.all\.expect\.rows: expected a valid integer"),
        ({"expect": {"files": {"b.txt": "0"}}}, r"contents\.all\.expect\.files\.b\.txt: expected"),
        ({"expect": {"files": {"c": "0" * 64}}}, r"hub dataset .*expected all files .*got no c"),
        (
            {"status": "own"},
            r"contents\.all\.status: expected 'original' or 'stand-in', got 'own'",
        ),
    ],
)
def test_errors_in_a_content(tmp_path: Path, content: Any, message: str) -> None:
    contents = {"all": DATA["contents"]["all"] | content}
    with pytest.raises(IsotropyError, match=rf"source registry .*datasets\.yaml: a.*{message}"):
        load(tmp_path, a=DATA | {"contents": contents})


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"revision": "main"}, r"a.origins.1.hub.revision.*'main'"),
        ({"mirror": "no"}, r"a\.origins\.mirror: expected true or false, got 'no'"),
        ({"content": "al"}, r"expected one of the contents, got 'al'; did you mean 'all'\?"),
        ({"files": ["a/x", "b/x"]}, r"a\.origins\.files: expected different names"),
        ({"files": {"a": "../b"}}, r"a\.origins\.1\.hub\.files: expected a path inside its folder"),
        ({"files": {}}, r"a\.origins\.1\.hub\.files: expected at least one file, got none"),
        ({"type": "ftp"}, r"a\.origins\.1: expected 'hub', 'url'.*got 'ftp'"),
    ],
)
def test_errors_in_an_origin(tmp_path: Path, origin: Any, message: str) -> None:
    """The index counts origins as in the file, without implied mirrors."""
    good = DATA["origins"][0]
    with pytest.raises(IsotropyError, match=message):
        load(tmp_path, a=DATA | {"origins": [good, good | origin]})


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


def test_folders_without_registry_files_are_rejected(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "no"):
        with pytest.raises(IsotropyError, match=r"expected files models\.yaml, .*got no such file"):
            load_registry(folder)
    (tmp_path / "model.yaml").write_text(yaml.safe_dump({}))
    with pytest.raises(IsotropyError, match=r"expected files models\.yaml, .*got model\.yaml"):
        load_registry(tmp_path)


def test_suggestions_are_short() -> None:
    """At most three names; if none is similar, their number and place."""
    names = [f"polarity{i}" for i in range(40)]
    assert suggest("polarity", names).count("polarity") == 3
    assert (
        suggest("glue", names, "in datasets")
        == "none of the 40 names listed in datasets is similar"
    )
    assert suggest("x", []) == "known: none"


@pytest.mark.parametrize("levels", [60, 20_000, 300_000])
def test_deeply_nested_yaml_is_rejected(tmp_path: Path, levels: int) -> None:
    (tmp_path / "datasets.yaml").write_text("sources: {a: " + "[" * levels + "]" * levels + "}")
    with pytest.raises(IsotropyError, match=r"datasets\.yaml: nested too deeply"):
        load_registry(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "sources: &a {x: *a, y: *a}",
        "sources: {a: &a [*a, *a], b: [*a, *a, *a]}",
        "sources: {a: {licence: 2024-02-30}}",
        "sources: {a: {licence: 0x" + "f" * 4000 + "}}",
    ],
    ids=["circle", "circle of lists", "no such day", "number of thousands of digits"],
)
def test_recursive_aliases_and_invalid_scalars_are_rejected(tmp_path: Path, text: str) -> None:
    """Recursive aliases, an impossible date, a huge number: an error message of one line."""
    (tmp_path / "datasets.yaml").write_text(text)
    with pytest.raises(IsotropyError) as caught:
        load_registry(tmp_path)
    assert "\n" not in str(caught.value)
