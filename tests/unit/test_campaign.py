"""Short forms of `make campaign`."""

from __future__ import annotations

from pathlib import Path

from isotropy.errors import IsotropyError
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.plan import Plan
from tests.campaign import faults, kills, mutations
from tests.unit.hub import FAULTS


def test_mutations() -> None:
    """Whatever is put into a record, a ledger, a bundle, a configuration or the registry is found,
    or refused in one sentence."""
    counts, missed = mutations.campaign(n=50, seed=0)
    assert missed == []
    assert set(counts.values()) == {10}


def test_faults_of_a_hub() -> None:
    """Those that the client does not wait for: the right bytes, or one sentence."""
    kinds = ["drop", "garbage", "loop", "page", "long", "unauthorized"]
    assert set(kinds) < set(FAULTS)
    counts, missed = faults.campaign(n=len(kinds), seed=0, kinds=kinds)
    assert missed == []
    assert {outcome.split(":")[0] for outcome in counts} == set(kinds)


def test_targets_of_kills(project: Path) -> None:
    """The smoke study makes what the campaign of kills asks for; a short form of that campaign is
    `tests/workflow/test_kill.py`."""
    files = [project / "config.yaml", project / "config/smoke.yaml"]
    plan = Plan(load_study(read_configuration(files, {}), project), project, project)
    for target in kills.TARGETS:
        plan.spec(target.removeprefix("results/").split(".")[0])


def test_errors_are_one_line() -> None:
    """Also where a name in a file that somebody else wrote has line breaks."""
    assert str(IsotropyError("no field a\nb\x1b[2J")) == "no field a\\nb\\x1b[2J"
