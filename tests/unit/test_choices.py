"""The papers' protocols: each spec field belongs to a choice of the authors or is listed as without
influence; deviations are derived from the choices; paper pages compare them with the study."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from isotropy.papers.choices import (
    UNKNOWN,
    WITHOUT_INFLUENCE,
    Choice,
    Line,
    choices,
    deviations,
    shown,
)
from isotropy.papers.registry import KEYS
from isotropy.spec import PaperSpec
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.page_spec import PageSpec
from isotropy.workflow.plan import Plan

REQUIRED_TOPICS = ("model", "data", "split", "seeds", "metric", "pooling")
"""Topics that each paper's protocol must cover."""
STUDIES = ("config/paper.yaml", "config/smoke.yaml", "config/gallery.yaml")


def plan(project: Path, *files: str, **overrides: object) -> Plan:
    configured = [project / "config.yaml", *(project / file for file in files)]
    study = load_study(
        read_configuration(configured, dict(overrides)), project, require_mirror=False
    )
    return Plan(study, project, project)


@cache
def specs(project: Path) -> dict[type[PaperSpec], list[PaperSpec]]:
    """Collect the specs of all papers' results in several studies, by class."""
    by_class: dict[type[PaperSpec], list[PaperSpec]] = {}
    for file in STUDIES:
        for result in plan(project, file).of_papers.values():
            spec = result.spec()
            assert isinstance(spec, PaperSpec)
            by_class.setdefault(type(spec), []).append(spec)
    return by_class


def changed_spec(project: Path, paper: str, kind: str, **changes: Any) -> PaperSpec:
    """Return a spec of one of a paper's results, with some fields changed."""
    every = (spec for group in specs(project).values() for spec in group)
    fitting = [s for s in every if (type(s).__name__, s.paper) == (kind, paper)]
    spec = next((s for s in fitting if "istar" in str(s) and "sst2" in str(s)), fitting[0])
    data = spec.model_dump()
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = data
        for name in parents:
            target = target[name]
        target[last] = value
    return type(spec).model_validate(data)


def fields(model: type[BaseModel], spec: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields, including those of nested models."""
    for name in model.model_fields:
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from fields(type(value), value, f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.mark.parametrize("key", KEYS)
def test_every_field_is_bound_or_without_influence(key: str, project: Path) -> None:
    protocol = import_module(f"isotropy.papers.{key}.protocol")
    kinds = {kind for kind, group in specs(project).items() if any(s.paper == key for s in group)}
    assert kinds == set(protocol.CHOICES)
    for kind in kinds:
        bound = {path for choice in protocol.CHOICES[kind] for path in choice.fields}
        without = WITHOUT_INFLUENCE | protocol.WITHOUT_INFLUENCE.get(kind, {})
        explained = bound | without.keys()
        for spec in (s for s in specs(project)[kind] if s.paper == key):
            for path in fields(kind, spec):
                parents = {path[:i] for i, letter in enumerate(path) if letter == "."}
                assert {path, *parents} & explained, f"{kind.__name__}.{path}: no choice, no reason"
        assert not bound & without.keys()
        assert all(len(reason.split()) >= 3 for reason in without.values())
        existing = {path for spec in specs(project)[kind] for path in fields(kind, spec)}
        existing |= {
            path[:i] for path in existing for i, letter in enumerate(path) if letter == "."
        }
        assert bound <= existing
        assert protocol.WITHOUT_INFLUENCE.get(kind, {}).keys() <= existing


@pytest.mark.parametrize(
    ("paper", "kind", "changes", "reason"),
    [
        # Deviations that an earlier version missed
        ("rudman2024", "FinetuneSpec", {"method__strength": 70.0}, "lambda is 70, which is not"),
        ("rudman2024", "FinetuneSpec", {"method__zeta": 0.95}, "zeta is 0.95, which is not"),
        ("rudman2024", "FinetuneSpec", {"metric": "f1"}, "measured by f1, the authors' by acc"),
        ("rudman2024", "FinetuneSpec", {"training__max_length": 64}, "max_length is 64, the aut"),
        (
            "mickus2024",
            "OptimizeSpec",
            {"group": "glue", "base": "rte", "measure__sample_size": 50},
            "metrics on {n:,} items drawn at each step, whose number is not known of the authors",
        ),
        ("mickus2024", "OptimizeSpec", {"bias": True}, "classifier with bias, unlike"),
        ("mickus2024", "OptimizeSpec", {"embedding": "gpt2"}, "embeddings of gpt2, the authors"),
        ("mickus2024", "OptimizeSpec", {"updates": 40}, "40 updates, not 1,000"),
        ("cai2021", "LayerSpec", {"window": 64}, "windows are not the authors', of 512 tokens"),
        ("cai2021", "LayerSpec", {"clustering__k_max": 3}, "clusters are not counted as"),
        ("cai2021", "LayerSpec", {"lid__n_queries": 50}, "local dimension at 50 points only"),
        ("cai2021", "VectorsSpec", {"lid__k": 10}, "10 neighbours, the authors have 100"),
        ("ethayarajh2019", "ContextsSpec", {"n_baseline": 10}, "10 random words, the authors"),
        ("ethayarajh2019", "StaticWordsSpec", {}, "words are means of their pieces"),
        ("rajaee2021", "SimilaritySpec", {"repeat_texts": False}, "a sentence counts once"),
        ("rajaee2021", "ClassifySpec", {"dtype": "bfloat16"}, "computed in bfloat16"),
        ("rajaee2021", "FinetuneSpec", {"training__epochs": 1}, "epochs is 1, the authors have 2"),
    ],
)
def test_changed_fields_are_reported_as_deviations(
    paper: str, kind: str, changes: dict[str, Any], reason: str, project: Path
) -> None:
    result = deviations(changed_spec(project, paper, kind, **changes))
    assert [text for text in result if text.startswith(reason)], result


def test_authors_own_settings_have_no_known_deviations(project: Path) -> None:
    """BERT on SST-2 as in the authors' script, and polarity as in the paper."""
    training = {
        "learning_rate": 1e-5,
        "batch_size": 32,
        "epochs": 4,
        "max_length": 256,
        "n_train": None,
    }
    bert = changed_spec(
        project,
        "rudman2024",
        "FinetuneSpec",
        task="sst2",
        model="bert-base-cased",
        metric="accuracy",
        **{f"training__{name}": value for name, value in training.items()},
    )
    assert deviations(bert) == []
    rte = bert.model_copy(update={"task": "rte"})
    assert deviations(rte) == [
        "unknown of the authors' runs on rte: learning_rate, batch_size, epochs"
    ]
    polarity = changed_spec(project, "mickus2024", "OptimizeSpec", measure__sample_size=None)
    assert deviations(polarity) == []


def test_training_on_a_part_of_the_items_is_a_deviation(project: Path) -> None:
    spec = changed_spec(project, "rudman2024", "FinetuneSpec", training__n_train=100)
    spec = spec.model_copy(update={"deviations": deviations(spec)})
    assert "trained on 100 of 1,000 items" in spec.departures(100, 1000)
    assert not any(text.startswith("trained on") for text in spec.departures(90, 90))


def lines(project: Path, key: str, **overrides: object) -> dict[str, Line]:
    spec = plan(project, "config/paper.yaml", **overrides).spec(f"site/{key}")
    assert isinstance(spec, PageSpec)
    assert len({line.topic for line in spec.protocol}) == len(spec.protocol)
    return {line.topic: line for line in spec.protocol}


def test_values_are_formatted_as_text() -> None:
    values = (None, True, 1e-05, 1000, ["a", 2], [])
    assert [shown(value) for value in values] == ["none", "yes", "1e-05", "1,000", "a, 2", "none"]


@pytest.mark.parametrize("key", KEYS)
def test_known_deviations_of_the_full_scale_study(key: str, project: Path) -> None:
    """config/paper.yaml deviates in the listed topics only."""
    result = lines(project, key)
    for word in REQUIRED_TOPICS:
        if (key, word) != ("ethayarajh2019", "pooling"):  # words, not sentences
            assert any(word in topic for topic in result), word
    assert all(line.source and line.study for line in result.values())
    departed = {topic for topic, line in result.items() if line.state == "departed from"}
    assert (
        departed
        == {
            "mickus2024": set(),
            "rudman2024": set(),
            "rajaee2021": {"classification: items"},
            "cai2021": {"models", "data"},
            "ethayarajh2019": {
                "models",
                "sentences",
                "static vectors: models",
                "static vectors",
                "static vectors: vocabulary",
            },
        }[key]
    )


def test_changed_configuration_is_shown_as_departed_from(project: Path) -> None:
    changed = lines(
        project,
        "rudman2024",
        rudman2024={"training": {"keep_padding": False, "max_grad_norm": 1, "batch_size": 8}},
    )
    for topic in ("padding counts in the penalty", "gradient clipping", "batch size, SST-2"):
        assert changed[topic].state == "departed from", topic
    assert changed["batch size, other tasks"].state == "unknown"


def test_omitted_paper_has_no_protocol_lines(project: Path) -> None:
    assert lines(project, "cai2021", cai2021=None) == {}


@pytest.mark.parametrize("key", KEYS)
def test_choices_have_sources(key: str) -> None:
    for choice in choices(key):
        assert isinstance(choice, Choice)
        assert choice.source
        assert choice.theirs is UNKNOWN or choice.fields or isinstance(choice.theirs, str)
