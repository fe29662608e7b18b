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
from replication.prepare.spec import SentencesSpec


@pytest.fixture
def raw(project: Path) -> dict[str, Any]:
    return yaml.safe_load((project / "config.yaml").read_text("utf8"))


def test_default_configuration_is_valid(raw: dict[str, Any], project: Path) -> None:
    study = load_study(raw, project)
    assert study.config.mickus2024.setups["polarity"].bias is False


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


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES["at_the_path"])
def test_configuration_errors_begin_with_the_path(
    raw: dict[str, Any], project: Path, path: str, value: Any, message: str
) -> None:
    expected = f"config: {path.replace('/', '.')}{message}"
    assert error_after(raw, project, path, value).startswith(expected)


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES["elsewhere"])
def test_configuration_errors_name_another_place(
    raw: dict[str, Any], project: Path, path: str, value: Any, message: str
) -> None:
    assert re.search(message, error_after(raw, project, path, value))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("mickus2024", "setups"), "supersenses"),
        (("datasets",), "mnli"),
        (("rudman2024", "tasks"), "qqp"),
    ],
)
def test_null_drops_an_entry(
    raw: dict[str, Any], project: Path, tmp_path: Path, path: tuple[str, ...], name: str
) -> None:
    """A configuration file can remove a named entry of the default study by the value null."""
    change: dict[str, Any] = {name: None}
    for key in reversed(path):
        change = {key: change}
    (tmp_path / "change.yaml").write_text(yaml.safe_dump(change))
    section: Any = load_study(
        read_configuration([project / "config.yaml", tmp_path / "change.yaml"], {}), project
    ).config
    for key in path:
        section, raw = getattr(section, key), raw[key]
    assert set(raw) - set(section) == {name}


def test_removing_a_needed_entry_is_an_error(raw: dict[str, Any], project: Path) -> None:
    raw["datasets"]["polarity"] = None
    with pytest.raises(IsotropyError, match="no data set 'polarity' in datasets"):
        load_study(raw, project)
    raw["mickus2024"]["setups"] = dict.fromkeys(raw["mickus2024"]["setups"])
    with pytest.raises(IsotropyError, match=r"mickus2024.setups: .* at least 1 item"):
        load_study(raw, project)


def test_deeply_nested_configuration_is_rejected(raw: dict[str, Any], project: Path) -> None:
    for _ in range(2000):
        raw["study"] = [raw["study"]]
    with pytest.raises(IsotropyError, match="config: nested too deeply, more than 50 levels"):
        load_study(raw, project)


def test_missing_key_is_named(raw: dict[str, Any], project: Path) -> None:
    del raw["sources"]["order"]
    with pytest.raises(IsotropyError, match=r"config: sources.order: missing"):
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
    raw["mickus2024"]["glue"] = {
        "tasks": ["cola", "rte"],
        "embeddings": ["all-MiniLM-L6-v2", "all-mpnet-base-v2"],
        "seeds": [0],
        "updates": 250,
        "sample_size": 20000,
    }
    paper = load_study(raw, project).config.mickus2024
    runs = paper.trajectories()
    assert [name for name, run in runs.items() if run.group == "glue"] == [
        f"{task}--{model}"
        for model in ("all-MiniLM-L6-v2", "all-mpnet-base-v2")
        for task in ("cola", "rte")
    ]
    assert runs["cola--all-mpnet-base-v2"].measure.sample_size == 20000
    assert all(run.setup.bias for run in runs.values() if run.group == "glue")
    base = runs["polarity"]
    changed = {
        name.removeprefix("polarity--"): {
            key
            for key, value in run.model_dump().items()
            if value != base.model_dump()[key] and key not in ("group", "variant", "seeds")
        }
        for name, run in runs.items()
        if run.group == "sensitivity"
    }
    assert changed == {
        "slow": {"learning_rate"},
        "fast": {"learning_rate"},
        "bias": {"setup"},
        "sampled": {"measure"},
    }


def test_full_scale_study_has_every_cell_of_table_3(project: Path) -> None:
    files = [project / "config.yaml", project / "config/paper.yaml"]
    runs = load_study(read_configuration(files, {}), project).config.mickus2024.trajectories()
    assert sum(run.group == "glue" for run in runs.values()) == 24
    assert {"polarity", "snli", "pos", "supersenses"} <= set(runs)
    assert all(len(run.seeds) == 5 for run in runs.values() if run.group == "section3")
