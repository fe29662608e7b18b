"""Short versions of `make campaign`."""

from __future__ import annotations

from pathlib import Path

from isotropy.errors import IsotropyError
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.plan import Plan
from tests.campaign import faults, inputs, kills, mutations
from tests.unit.hub import FAULTS


def test_no_mutation_is_missed() -> None:
    """Each mutation of a record, ledger, bundle, configuration or registry leads to a finding, or
    to an error message of one line."""
    counts, missed = mutations.campaign(n=50, seed=0)
    assert missed == []
    assert set(counts.values()) == {10}


def test_no_mutation_of_an_input_is_missed() -> None:
    """Each mutated model, array or table is measured right, or refused in one sentence."""
    counts, missed = inputs.campaign(n=10 * len(inputs.KINDS), seed=1)
    assert missed == []
    assert sum(count for kind, count in counts.items() if "readable" in kind) > 20


def test_no_fault_of_a_hub_is_missed() -> None:
    """For faults without waiting times: the right bytes, or an error message of one line."""
    kinds = ["drop", "garbage", "loop", "page", "long", "unauthorized"]
    assert set(kinds) < set(FAULTS)
    counts, missed = faults.campaign(n=len(kinds), seed=0, kinds=kinds)
    assert missed == []
    assert {outcome.split(":")[0] for outcome in counts} == set(kinds)


def test_smoke_study_makes_the_targets_of_the_kill_campaign(project: Path) -> None:
    """The campaign itself is not run here; `tests/workflow/test_kill.py` is a short version of
    it."""
    files = [project / "config.yaml", project / "config/smoke.yaml"]
    plan = Plan(load_study(read_configuration(files, {}), project), project, project)
    for target in kills.TARGETS:
        plan.spec(target.removeprefix("results/").split(".")[0])


def test_line_breaks_in_error_messages_are_escaped() -> None:
    """A name from a file may contain line breaks and control characters."""
    assert str(IsotropyError("no field a\nb\x1b[2J")) == "no field a\\nb\\x1b[2J"
