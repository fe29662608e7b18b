"""Configuration: every mistake is named before the first job, with its path, its value and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from isotropy.config import load_study
from isotropy.errors import IsotropyError
from isotropy.optimize.spec import Schedule
from isotropy.prepare.spec import SentencesSpec


@pytest.fixture
def raw(project: Path) -> dict[str, Any]:
    return yaml.safe_load((project / "config.yaml").read_text("utf8"))


def test_default_is_valid(raw: dict[str, Any], project: Path) -> None:
    study = load_study(raw, project)
    assert study.config.mickus2024.setups["polarity"].bias is False


MISTAKES = [
    (("mickus2024", "learning_rat"), 0.1, "mickus2024.learning_rat: unknown key; did you mean 'learning_rate'"),
    (("mickus2024", "learning_rate"), "0.1", "learning_rate: Input should be a valid number, got '0.1'; a number must not"),
    (("mickus2024", "learning_rate"), "1e-3", "YAML reads 1e-3 as text: write 0.001"),
    (("mickus2024", "learning_rate"), 0, "learning_rate: Input should be greater than 0, got 0"),
    (("mickus2024", "learning_rate"), float("nan"), "learning_rate: Input should be"),
    (("mickus2024", "updates"), 10.5, "updates: Input should be a valid integer"),
    (("mickus2024", "seeds"), [], "seeds: List should have at least 1 item"),
    (("compute", "device"), "gpu", "compute.device: Input should be 'auto', 'cpu' or 'cuda', got 'gpu'"),
    (("sources", "order"), ["hub", "cloud"], "sources.order.1: Input should be 'hub', 'url', 'mirror' or 'package'"),
    (("sources", "order"), ["hub"], "sources.order: polarity comes by mirror, package, url only"),
    (("sources", "mirror"), "nowhere", "sources.mirror: 'nowhere' is not a folder"),
    (("mickus2024", "seeds"), [1, 1], "seeds: Value error, a value stands there twice"),
    (("mickus2024", "setups"), {}, "setups: Dictionary should have at least 1 item"),
    (("datasets", "supersenses", "n_items"), "2275", "config: datasets.supersenses.n_items: Input should be a valid integer"),
    (("mickus2024", "setups", "supersenses", "bias"), "no", "config: mickus2024.setups.supersenses.bias: Input should be"),
    (
        ("mickus2024", "setups", "polarity", "loss"),
        "binary_cross_entropy",
        "polarity.loss: 'binary_cross_entropy' does not",
    ),
    (("sources", "registry"), "no.yaml", "source registry .*no.yaml: .*No such file"),
    (("datasets", "polarity", "source"), "polarty", "datasets.polarity.source: no source 'polarty'.*did you mean 'polarity'"),
    (("datasets", "polarity", "kind"), "words", "datasets.polarity"),
    (("datasets", "a.b"), {"kind": "sentences", "source": "polarity", "label_names": ["a", "b"]}, "datasets.a.b"),
    (("mickus2024", "setups", "polarity", "dataset"), "polarities", "no data set 'polarities'.*did you mean 'polarity'"),
    (("mickus2024", "setups", "polarity", "embedding"), "all-MiniLM-L6-v3", "did you mean 'all-MiniLM-L6-v2'"),
    (("mickus2024", "setups", "polarity", "embedding"), "wordnet", "'wordnet' is a lexicon, needed is a model"),
]


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES, ids=lambda v: ".".join(v) if isinstance(v, tuple) else None)
def test_mistakes(raw: dict[str, Any], project: Path, path: tuple[str, ...], value: Any, message: str) -> None:
    changed = copy.deepcopy(raw)
    where = changed
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    with pytest.raises(IsotropyError, match=message) as caught:
        load_study(changed, project)
    assert "\n" not in str(caught.value)


def test_missing_key(raw: dict[str, Any], project: Path) -> None:
    del raw["sources"]["order"]
    with pytest.raises(IsotropyError, match=r"config: sources.order: missing"):
        load_study(raw, project)


def test_specs_are_canonical() -> None:
    """Equal specs give equal text; parsing gives the spec back; nothing can be changed or added."""
    spec = SentencesSpec(kind="sentences", source="polarity", label_names=["b", "a"])
    assert SentencesSpec.parse(spec.canonical()) == spec
    assert spec.canonical() == '{"kind":"sentences","label_names":["b","a"],"sample":null,"source":"polarity"}'
    with pytest.raises(ValueError, match="frozen"):
        spec.source = "other"  # type: ignore[misc]


def test_schedule() -> None:
    assert Schedule(every_until=3, then_every=4).steps(10) == [0, 1, 2, 3, 4, 8, 10]
    assert Schedule(every_until=1000, then_every=1).steps(1000) == list(range(1001))
    assert "each of 1,000 updates" in Schedule(every_until=1000, then_every=1).describe(1000)
