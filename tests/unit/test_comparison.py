"""A study beside the papers' texts: each line has a source and a state, and the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotropy.papers.comparison import Line, line, shown
from isotropy.papers.registry import KEYS
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.page_spec import PageSpec
from isotropy.workflow.plan import Plan

ASKED = ("model", "data", "split", "seeds", "metric", "pooling")
"""Words that some line of each paper is about."""


def lines(project: Path, key: str, **overrides: object) -> dict[str, Line]:
    files = [project / "config.yaml", project / "config/paper.yaml"]
    study = load_study(read_configuration(files, dict(overrides)), project)
    spec = Plan(study, project, project).spec(f"site/{key}")
    assert isinstance(spec, PageSpec)
    assert len({one.topic for one in spec.protocol}) == len(spec.protocol)
    return {one.topic: one for one in spec.protocol}


def test_states() -> None:
    assert line("a", None, 3, "s").state == "unknown"
    assert line("a", 3, 3, "s").state == "followed"
    assert line("a", 3, 4, "s").state == "departed from"
    assert line("a", ("x", "y"), ["y", "z", "x"], "s").state == "followed"
    assert line("a", ("x", "y"), ["y"], "s").state == "departed from"
    values = (None, True, 1e-05, 1000, ["a", 2], [])
    assert [shown(value) for value in values] == ["none", "yes", "1e-05", "1,000", "a, 2", "none"]


@pytest.mark.parametrize("key", KEYS)
def test_the_paper_study_line_by_line(key: str, project: Path) -> None:
    """What config/paper.yaml departs from is known; the rest is followed or unknown."""
    found = lines(project, key)
    for word in ASKED:
        if (key, word) != ("ethayarajh2019", "pooling"):  # words, not sentences
            assert any(word in topic for topic in found), word
    assert all(one.source and one.study for one in found.values())
    departed = {topic for topic, one in found.items() if one.state == "departed from"}
    assert (
        departed
        == {
            "mickus2024": set(),
            "rudman2024": set(),
            "rajaee2021": {"classification: items"},
            "cai2021": {"models", "data", "points of the local dimension"},
            "ethayarajh2019": {"models", "sentences", "static vectors"},
        }[key]
    )


def test_another_choice_is_a_departure(project: Path) -> None:
    changed = lines(
        project,
        "rudman2024",
        rudman2024={"training": {"keep_padding": False, "max_grad_norm": 1, "batch_size": 8}},
    )
    for topic in ("padding counts in the penalty", "gradient clipping", "batch size, SST-2"):
        assert changed[topic].state == "departed from", topic
    assert changed["batch size, other tasks"].state == "unknown"


def test_a_paper_that_is_left_out_has_no_lines(project: Path) -> None:
    assert lines(project, "cai2021", cai2021=None) == {}
