"""How large a study must be to decide a claim: the number of runs, and the overlay that asks for
them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from isotropy.claims.read import read_claims
from isotropy.claims.sample_size import field_of_runs, overlay, runs_needed
from isotropy.cli import app
from isotropy.errors import IsotropyError
from isotropy.papers.registry import papers
from tests.unit.entries import TABLES


def verdicts(**changes: object) -> pd.DataFrame:
    row = {
        "id": "rudman2024-performance",
        "family": "rudman2024-performance",
        "setup": "a",
        "word": "undecided",
        "obtained": -0.2,
        "unit": "seeds",
        "n_units": 3,
        "needed": 7,
        "table": "rudman2024/directions",
    }
    return pd.DataFrame([row | changes]).astype({"needed": "Int64", "n_units": "Int64"})


def test_the_case_that_needs_most_counts() -> None:
    cases = pd.concat([verdicts(), verdicts(setup="b", needed=12), verdicts(verdict="consistent")])
    assert runs_needed("rudman2024-performance", cases) == (12, "rudman2024/directions")
    assert runs_needed("rudman2024-performance", verdicts(n_units=1, needed=None))[0] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"word": "consistent"}, "no case of it is undecided"),
        ({"unit": "items"}, "its interval is over items, which more runs do not narrow"),
        ({"needed": None}, "no number of runs would decide it"),
        (
            {"id": "x", "family": "rudman2024-performances"},
            "did you mean 'rudman2024-performances'",
        ),
    ],
)
def test_what_cannot_be_decided_by_runs(changes: dict[str, object], message: str) -> None:
    with pytest.raises(IsotropyError, match=message):
        runs_needed("rudman2024-performance", verdicts(**changes))


def test_overlays_keep_the_kind_of_the_field() -> None:
    assert overlay("a", "seeds", 4, [0]) == {"a": {"seeds": [0, 1, 2, 3]}}
    assert overlay("a", "b.repeats", 4, 2) == {"a": {"b": {"repeats": 4}}}


def test_fields_of_runs_are_those_of_tables() -> None:
    for one in papers():
        assert {t.id for t in one.tables if t.repeats} <= set(TABLES)
    with pytest.raises(IsotropyError, match="not made from runs"):
        field_of_runs("t", [])


def test_command_writes_a_configuration_that_loads(project: Path, tmp_path: Path) -> None:
    """On a checkout of links: the overlay asks for the runs, and the study with it has a cost."""
    for name in ("config.yaml", "config", "isotropy", "envs"):
        (tmp_path / name).symlink_to(project / name)
    (tmp_path / "results").mkdir()
    out = tmp_path / "decide.yaml"
    asked = ["plan", "--project", str(tmp_path), "--decide", "rudman2024-performance"]
    before = CliRunner().invoke(app, [*asked, "--overlay", str(out)])
    assert before.exit_code == 2
    assert "no verdicts yet; run the study first" in before.output.replace("\n", " ")
    verdicts().to_parquet(tmp_path / "results/claims.parquet")
    done = CliRunner().invoke(app, [*asked, "--overlay", str(out)])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(out.read_text()) == {"rudman2024": {"seeds": list(range(7))}}
    assert "finetune" in done.output


def test_every_claim_over_seeds_can_be_given_more() -> None:
    """`isotropy plan --decide` knows the field of the configuration that holds its runs."""
    for one in papers():
        for claim in read_claims(one):
            if claim.unit == "seeds" and claim.quantity is not None:
                assert field_of_runs(claim.quantity.table, one.tables), claim.id
