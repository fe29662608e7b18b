"""Configuration: errors name the path, the value and what is allowed; files are merged; derived
runs."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from isotropy.errors import IsotropyError
from replication.plan.config import load_study, read_configuration
from replication.plan.costs import read_rates
from replication.prepare.spec import SentencesSpec


@pytest.fixture
def raw(project: Path) -> dict[str, Any]:
    return yaml.safe_load((project / "config.yaml").read_text("utf8"))


def test_order_of_keys_is_that_of_the_default_configuration(
    raw: dict[str, Any], project: Path
) -> None:
    """Snakemake merges in another order in a module than from the command line."""
    shuffled = copy.deepcopy(raw)
    setups = shuffled["mickus2024"]["setups"]
    shuffled["mickus2024"]["setups"] = {"mine": POLARITY} | dict(reversed(setups.items()))
    expected = [*raw["mickus2024"]["setups"], "mine"]
    assert list(load_study(shuffled, project).config.mickus2024.setups) == expected


POLARITY = {
    "dataset": "polarity",
    "embedding": "all-MiniLM-L6-v2",
    "loss": "cross_entropy",
    "bias": False,
}
MISTAKES = yaml.safe_load(Path(__file__).with_name("configuration_mistakes.yaml").read_text("utf8"))


def error_after(raw: dict[str, Any], project: Path, path: str, value: Any) -> str:
    """Return the error, of one line, of the default configuration with one changed value."""
    *parents, field = path.split("/")
    section = raw
    for key in parents:
        section = section[key]
    section[field] = value
    with pytest.raises(IsotropyError) as caught:
        load_study(raw, project)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    """At the top, where a whole section would be lost, and within."""
    file = tmp_path / "mine.yaml"
    for text in ("study: a\nstudy: b\n", "compute: {shards: 2, shards: 3}\n"):
        file.write_text(text)
        with pytest.raises(IsotropyError, match=r"mine\.yaml: .*duplicate key"):
            read_configuration([file], {})
        with pytest.raises(IsotropyError, match="duplicate key"):
            read_rates(file)


@pytest.mark.parametrize(("path", "value", "words"), MISTAKES["at_the_path"])
def test_configuration_errors_begin_with_the_path(
    raw: dict[str, Any], project: Path, path: str, value: Any, words: str
) -> None:
    error = error_after(raw, project, path, value)
    assert re.match(re.escape(f"config: {path.replace('/', '.')}") + words, error)


@pytest.mark.parametrize(("path", "value", "words"), MISTAKES["elsewhere"])
def test_configuration_errors_name_another_place(
    raw: dict[str, Any], project: Path, path: str, value: Any, words: str
) -> None:
    assert re.search(words, error_after(raw, project, path, value))


@pytest.mark.parametrize(
    ("section", "field", "name"),
    [
        ("mickus2024", "setups", "supersenses"),
        ("rudman2024", "tasks", "qqp"),
    ],
)
def test_null_drops_an_entry(
    raw: dict[str, Any], project: Path, tmp_path: Path, section: str, field: str, name: str
) -> None:
    """A configuration file can remove a named entry of the default study by the value null."""
    (tmp_path / "change.yaml").write_text(yaml.safe_dump({section: {field: {name: None}}}))
    files = [project / "config.yaml", tmp_path / "change.yaml"]
    config: Any = load_study(read_configuration(files, {}), project).config
    assert set(raw[section][field]) - set(getattr(getattr(config, section), field)) == {name}


def test_removing_a_needed_entry_is_an_error(raw: dict[str, Any], project: Path) -> None:
    raw["datasets"]["polarity"] = None
    with pytest.raises(IsotropyError, match="no data set 'polarity'"):
        load_study(raw, project)
    raw["mickus2024"]["setups"] = dict.fromkeys(raw["mickus2024"]["setups"])
    with pytest.raises(IsotropyError, match=r"mickus2024\.setups"):
        load_study(raw, project)


def test_deeply_nested_configuration_is_rejected(raw: dict[str, Any], project: Path) -> None:
    for _ in range(2000):
        raw["study"] = [raw["study"]]
    with pytest.raises(IsotropyError, match="nested"):
        load_study(raw, project)


def test_missing_key_is_named(raw: dict[str, Any], project: Path) -> None:
    del raw["sources"]["order"]
    with pytest.raises(IsotropyError, match=r"sources\.order: missing"):
        load_study(raw, project)


def test_specs_have_a_canonical_text() -> None:
    """The text is parsed to an equal spec; specs are immutable."""
    spec = SentencesSpec(kind="sentences", source="polarity", label_names=["b", "a"])
    assert SentencesSpec.parse(spec.canonical()) == spec
    rest = '"reading":"rows","sample":null,"source":"polarity","split":null,"task":"single-label"'
    assert spec.canonical() == '{"kind":"sentences","label_names":["b","a"],' + rest + "}"
    with pytest.raises(ValueError, match="frozen"):
        spec.source = "other"  # type: ignore[misc]


def test_trajectories_cover_appendix_a_and_variants(raw: dict[str, Any], project: Path) -> None:
    """Appendix A combines every task with every encoder; a variant changes one field of its base
    setup."""
    tasks, models = ["cola", "rte"], ["all-MiniLM-L6-v2", "all-mpnet-base-v2"]
    glue = {"tasks": tasks, "embeddings": models, "seeds": [0], "updates": 9, "sample_size": 20000}
    raw["mickus2024"]["glue"] = glue
    runs = load_study(raw, project).config.mickus2024.trajectories()
    cells = [name for name, run in runs.items() if run.group == "glue"]
    assert cells == [f"{task}--{model}" for model in models for task in tasks]
    assert runs["cola--all-mpnet-base-v2"].measure.sample_size == 20000
    assert all(run.setup.bias for run in runs.values() if run.group == "glue")
    base = runs["polarity"].model_dump()
    changed = {
        name.removeprefix("polarity--"): {k for k, v in run.model_dump().items() if v != base[k]}
        for name, run in runs.items()
        if run.group == "sensitivity"
    }
    fields = {
        "slow": "learning_rate",
        "fast": "learning_rate",
        "bias": "setup",
        "sampled": "measure",
    }
    labels = {"group", "variant", "seeds"}
    assert {name: found - labels for name, found in changed.items()} == {
        name: {field} for name, field in fields.items()
    }


def test_full_scale_study_has_every_cell_of_table_3(project: Path) -> None:
    files = [project / "config.yaml", project / "config/paper.yaml"]
    runs = load_study(read_configuration(files, {}), project).config.mickus2024.trajectories()
    assert sum(run.group == "glue" for run in runs.values()) == 24
    assert {"polarity", "snli", "pos", "supersenses"} <= set(runs)
    assert all(len(run.seeds) == 5 for run in runs.values() if run.group == "section3")
