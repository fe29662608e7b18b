"""The papers' protocols: each spec field belongs to a choice of the authors or is listed as without
influence; deviations are derived from the choices; paper pages compare them with the study."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from replication.papers.protocol import WITHOUT_INFLUENCE, Line, deviations
from replication.papers.registry import KEYS
from replication.plan.config import load_study, read_configuration
from replication.plan.page_spec import PageSpec
from replication.plan.plan import Plan
from replication.spec import PaperSpec

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
        target[last] = deepcopy(value)
    return type(spec).model_validate(data)


def fields(model: type[BaseModel], spec: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields, including those of nested models."""
    for name in model.model_fields:
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from fields(type(value), value, f"{prefix}{name}.")
        else:
            yield prefix + name


def parents_of(path: str) -> set[str]:
    return {path[:i] for i, letter in enumerate(path) if letter == "."}


@pytest.mark.parametrize("key", KEYS)
def test_every_field_is_bound_or_without_influence(key: str, project: Path) -> None:
    protocol = import_module(f"replication.papers.{key}.protocol")
    kinds = {kind for kind, group in specs(project).items() if any(s.paper == key for s in group)}
    assert kinds == set(protocol.CHOICES)
    for kind in kinds:
        bound = {path for choice in protocol.CHOICES[kind] for path in choice.fields}
        without = WITHOUT_INFLUENCE | protocol.WITHOUT_INFLUENCE.get(kind, {})
        explained = bound | without.keys()
        for spec in (s for s in specs(project)[kind] if s.paper == key):
            for path in fields(kind, spec):
                assert {path, *parents_of(path)} & explained, (
                    f"{kind.__name__}.{path}: no choice, no reason"
                )
        assert not bound & without.keys()
        assert all(len(reason.split()) >= 3 for reason in without.values())
        existing = {path for spec in specs(project)[kind] for path in fields(kind, spec)}
        existing |= {parent for path in existing for parent in parents_of(path)}
        assert bound <= existing
        assert protocol.WITHOUT_INFLUENCE.get(kind, {}).keys() <= existing


RUDMAN = ("rudman2024", "FinetuneSpec")
MICKUS = ("mickus2024", "OptimizeSpec")
CAI = ("cai2021", "LayerSpec")
CONTEXTS, STATIC = ("ethayarajh2019", "ContextsSpec"), ("ethayarajh2019", "StaticWordsSpec")
SIMILARITY, FROZEN = ("rajaee2021", "SimilaritySpec"), ("rajaee2021", "ClassifySpec")
COSREG = {"kind": "cosreg", "strength": 1.0, "zeta": None, "layers": "last"}
CONVERGED = {"init": "k-means++", "max_iter": 300, "tol": 1e-4}
GLUE = {"group": "glue", "base": "rte", "updates": 250, "bias": True}
OF_SST2 = {"learning_rate": 1e-5, "batch_size": 32, "epochs": 4, "max_length": 256}
SST2 = {"task": "sst2", "model": "bert-base-cased", "metric": "accuracy"}
SST2 |= {f"training__{name}": value for name, value in OF_SST2.items()}
SST2["training__n_train"] = None
OTHER_TRAINING = {
    "max_length": (64, "longest input: 64, the authors' 256"),
    "learning_rate": (0.001, "learning rate, SST-2: 0.001, the authors' 1e-05"),
    "max_grad_norm": (1.0, "gradient clipping: 1, the authors' none"),
    "keep_padding": (False, "padding counts in the penalty: no, the authors' yes"),
    "pad_to_max_length": (True, "padding to the longest input: yes, the authors' no"),
    "shrinkage_tokens": (60, "tokens of the shrinkage covariance: 60, the authors' 250,000"),
    "precision": ("float32", "precision: float32, the authors' float16"),
}
SQUAD = {"task": "squad", "metric": "f1", "training__max_length": 384}
SQUAD = SST2 | SQUAD | {"training__pad_to_max_length": True}
BERT = {"embedding": "bert-base-uncased", "layer": 12}
BERT["parameters"] = {"n_clusters": 27, "n_components": 12, "n_components_global": 15}
KMEANS = {"k_max": 15, "sample_size": 20_000, "threshold": 0.1, "n_components": None}
PTB = {"source": "ptb", "model": "gpt2", "window": 512, "lid__k": 100, "lid__n_queries": None}
PTB |= {f"clustering__{name}": value for name, value in (KMEANS | {"n_init": 10}).items()}
STS = ["sts12", "sts13", "sts14", "sts15", "sts16"]
WORDS = {"datasets": STS, "model": "bert-base-cased", "min_contexts": 5}
OF_BERT = WORDS | {"unit": "pieces", "n_baseline": 1000}


@pytest.mark.parametrize(
    ("kind", "settings", "changes", "reason"),
    [
        (RUDMAN, SST2, {"method__strength": 70.0}, "lambda is 70"),
        (RUDMAN, SST2, {"method__zeta": 0.95}, "zeta is 0.95"),
        (RUDMAN, SST2, {"metric": "f1"}, "measured by f1"),
        (RUDMAN, SST2, {"model": "m"}, "fine-tuned is m"),
        (RUDMAN, SST2, {"measure__zeta": 0.5}, "zeta 0.5"),
        (RUDMAN, SST2, {"method": COSREG | {"strength": 2}}, "lambda of CosReg is 2"),
        (RUDMAN, SST2, {"method": COSREG | {"layers": "all"}}, "all layers"),
        *(
            (RUDMAN, SST2, {f"training__{name}": value}, reason)
            for name, (value, reason) in OTHER_TRAINING.items()
        ),
        (RUDMAN, SQUAD, {"training__pad_to_max_length": False}, "padding to the longest input: no"),
        (RUDMAN, SQUAD, {"training__max_length": 256}, "longest input: 256"),
        (MICKUS, GLUE, {"measure__sample_size": 50}, "{n:,} items"),
        (MICKUS, {}, {"measure__sample_size": 50}, "{n:,} items"),
        (MICKUS, {}, {"bias": True}, "with bias"),
        (MICKUS, {}, {"embedding": "gpt2"}, "embeddings of gpt2"),
        (MICKUS, {}, {"updates": 40}, "40 updates"),
        (MICKUS, {}, {"learning_rate": 0.01}, "learning rate 0.01"),
        (MICKUS, {}, {"mean_norm": 3.0}, "mean norm 3"),
        (CAI, PTB, {"window": 64}, "windows"),
        (CAI, PTB, {"source": "brown"}, "brown"),
        (CAI, PTB, {"source": "wikitext-2", "empty": ""}, "empty lines"),
        (CAI, PTB, {"model": "m"}, "m is not among"),
        (CAI, PTB, {"clustering__k_max": 3}, "clusters are not counted"),
        (CAI, PTB, {"clustering__n_init": 1}, "starts of k-means: 1"),
        (CAI, PTB, {"lid__n_queries": 50}, "at 50 points"),
        (("cai2021", "VectorsSpec"), {}, {"lid__k": 10}, "10 neighbours"),
        (("cai2021", "VectorsSpec"), {}, {"vectors": "v"}, "v are not among"),
        (CONTEXTS, OF_BERT, {"n_baseline": 10}, "10 random words"),
        (CONTEXTS, OF_BERT, {"model": "m"}, "m is not among"),
        (CONTEXTS, OF_BERT, {"datasets": ["brown"]}, "STS 2012"),
        (CONTEXTS, OF_BERT, {"min_contexts": 2}, "in 2 sentences"),
        (CONTEXTS, OF_BERT, {"unit": "mean"}, "words by mean"),
        (STATIC, {"vectors": []}, {"vectors": ["table"]}, "not GloVe"),
        (SIMILARITY, BERT, {"repeat_texts": False}, "counts once"),
        (SIMILARITY, BERT, {"parameters__n_clusters": 4}, "components"),
        (SIMILARITY, BERT, {"layer": 1}, "layer 1,"),
        (SIMILARITY, BERT, {"drop_tokens": "nothing"}, "do not count: nothing"),
        (SIMILARITY, BERT, {"clusterer": CONVERGED}, "ten iterations"),
        (SIMILARITY, BERT, {"embedding": "v", "layer": None}, "v is not among"),
        (FROZEN, BERT, {"dtype": "bfloat16"}, "bfloat16"),
        (FROZEN, BERT, {"mlp__learning_rate": 0.1}, "learning rate 0.1"),
        (("rajaee2021", "FinetuneSpec"), {}, {"training__epochs": 1}, "epochs is 1"),
    ],
)
def test_changed_fields_are_reported_as_deviations(
    kind: tuple[str, str],
    settings: dict[str, Any],
    changes: dict[str, Any],
    reason: str,
    project: Path,
) -> None:
    """One text is added, and no other."""
    before = deviations(changed_spec(project, *kind, **settings))
    after = deviations(changed_spec(project, *kind, **(settings | changes)))
    added = [text for text in after if text not in before]
    assert [reason in text for text in added] == [True], added


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        (RUDMAN, SST2, []),
        (RUDMAN, SST2 | {"method": COSREG}, []),
        (RUDMAN, SST2 | {"task": "rte"}, ["unknown .* learning_rate, batch_size, epochs"]),
        (RUDMAN, SST2 | {"task": "t"}, ["t is not among", "unknown .* epochs"]),
        (MICKUS, {"measure__sample_size": None}, []),
        (MICKUS, GLUE | {"measure__sample_size": None}, []),
        (CAI, PTB, []),
        (CAI, PTB | {"source": "wikitext-2", "empty": " "}, []),
        (CONTEXTS, OF_BERT, []),
        (STATIC, WORDS | {"vectors": []}, ["means of their pieces"]),
        (SIMILARITY, BERT, []),
        (FROZEN, BERT | {"n_train": None}, []),
    ],
)
def test_authors_own_settings_have_no_other_deviations(
    kind: tuple[str, str], settings: dict[str, Any], expected: list[str], project: Path
) -> None:
    """BERT on SST-2 as in the authors' script, polarity as in the paper, GPT-2 on Penn Treebank."""
    obtained = deviations(changed_spec(project, *kind, **settings))
    assert len(obtained) == len(expected), obtained
    for text, pattern in zip(obtained, expected, strict=True):
        assert re.search(pattern, text)


def test_a_part_of_the_items_is_a_deviation(project: Path) -> None:
    spec = changed_spec(project, *RUDMAN, training__n_train=100)
    spec = spec.model_copy(update={"deviations": deviations(spec)})
    assert "trained on 100 of 1,000 items" in spec.deviations_of(100, 1000)
    assert not any(text.startswith("trained on") for text in spec.deviations_of(90, 90))
    drawn = changed_spec(project, *MICKUS, measure__sample_size=500)
    drawn = drawn.model_copy(update={"deviations": deviations(drawn)})
    assert drawn.deviations_of(500, 10662) == ["metrics on 500 items drawn at each step"]
    assert drawn.deviations_of(500, 500) == []


def lines(project: Path, key: str, **overrides: object) -> dict[str, Line]:
    spec = plan(project, "config/paper.yaml", **overrides).spec(f"site/{key}")
    assert isinstance(spec, PageSpec)
    assert len({line.topic for line in spec.protocol}) == len(spec.protocol)
    return {line.topic: line for line in spec.protocol}


@pytest.mark.parametrize("key", KEYS)
def test_known_deviations_of_the_full_scale_study(key: str, project: Path) -> None:
    """config/paper.yaml deviates in the listed topics only."""
    result = lines(project, key)
    for word in REQUIRED_TOPICS:
        if (key, word) != ("ethayarajh2019", "pooling"):  # words, not sentences
            assert any(word in topic for topic in result), word
    assert all(line.source and line.study for line in result.values())
    not_followed = {topic for topic, line in result.items() if line.state == "not followed"}
    known = {"rajaee2021": {"classification: items"}, "cai2021": {"models", "data"}}
    static = {f"static vectors{which}" for which in ("", ": models", ": vocabulary")}
    known["mickus2024"] = {"length of vectors"}
    known["ethayarajh2019"] = {"models", "sentences", *static}
    assert not_followed == known.get(key, set())


def test_changed_configuration_is_shown_as_not_followed(project: Path) -> None:
    training = {"keep_padding": False, "max_grad_norm": 1, "batch_size": 8}
    changed = lines(project, "rudman2024", rudman2024={"training": training})
    for topic in ("padding counts in the penalty", "gradient clipping", "batch size, SST-2"):
        assert changed[topic].state == "not followed", topic
    assert changed["batch size, other tasks"].state == "unknown"


def test_choices_without_a_value_are_said_in_words(project: Path) -> None:
    """What the authors leave out, or no configuration changes, is not called none or unknown."""
    for key, topic, study in (
        ("mickus2024", "step 0 counts in r", "yes"),
        ("mickus2024", "items of a metric", "all"),
        ("rudman2024", "training items", "all"),
        ("cai2021", "split", "the data above"),
        ("ethayarajh2019", "static vectors: vocabulary", "not cut"),
    ):
        assert lines(project, key)[topic].study == study, topic


def test_seeds_are_those_of_each_experiment(project: Path) -> None:
    """Five seeds of one setup and three of others are not five."""
    assert lines(project, "mickus2024")["seeds"].study == "5"
    setups = {"supersenses-scaled": {"seeds": [0, 1, 2]}}
    changed = lines(project, "mickus2024", mickus2024={"setups": setups})["seeds"]
    assert (changed.study, changed.state) == ("3, 5", "not followed")


def test_omitted_paper_has_no_protocol_lines(project: Path) -> None:
    assert lines(project, "cai2021", cai2021=None) == {}


def test_training_is_too_short_or_too_fast() -> None:
    """Under a tenth of the authors' updates, or over ten times their learning rate; a task that
    they do not have is held against their smallest."""
    protocol = import_module("replication.papers.rudman2024.protocol")
    training = protocol.TRAINING
    # The authors' published script on SST-2; the counts of the others by the same settings.
    updates = [training.updates(task) for task in ("sst2", "rte", "mrpc", "polarity")]
    assert updates == [8420, 312, 460, 312]
    assert "too short: 25 updates" in training.shortfall("polarity", 25, 2e-4)
    assert "too high" in training.shortfall("sst2", 842, 2e-4)
    shortfalls = [bool(training.shortfall("sst2", n, 1e-4)) for n in (841, 842, 8420)]
    assert shortfalls == [True, False, False]
    slides = import_module("replication.papers.rajaee2021.protocol").TRAINING
    assert slides.updates("rte") == 156
    assert slides.shortfall("rte", 16, 1.0) == ""
    assert "theirs unknown" in slides.shortfall("rte", 15, 2e-4)


@pytest.mark.parametrize("key", KEYS)
def test_training_items_are_those_of_the_registry(key: str, project: Path) -> None:
    """Sizes of training sets in protocols, where the registry knows the source."""
    training = getattr(import_module(f"replication.papers.{key}.protocol"), "TRAINING", None)
    registry = plan(project).study.registry.sources
    for task, n_items in (training.items if training else {}).items():
        source = registry[f"glue-{task}" if f"glue-{task}" in registry else task]
        rows = {content.rows for content in source.contents.values()}
        assert rows <= {n_items, None}, task
