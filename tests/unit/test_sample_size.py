"""Number of runs needed to decide a claim, and the configuration file with these runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from isotropy.claims.read import read_claims
from isotropy.claims.sample_size import runs_configuration, runs_needed, table_with_runs
from isotropy.cli import app
from isotropy.errors import IsotropyError
from isotropy.papers.registry import papers


def verdicts(**changes: object) -> pd.DataFrame:
    row = {
        "id": "rudman2024-performance",
        "statement_id": "rudman2024-performance",
        "setup": "a",
        "word": "undecided",
        "obtained": -0.2,
        "unit": "seeds",
        "n_units": 3,
        "reason": "the interval includes the bound",
        "needed": 7,
        "table": "rudman2024/directions",
    }
    return pd.DataFrame([row | changes]).astype({"needed": "Int64", "n_units": "Int64"})


def test_runs_needed_is_the_maximum_over_cases() -> None:
    cases = pd.concat([verdicts(), verdicts(setup="b", needed=12), verdicts(verdict="consistent")])
    assert runs_needed("rudman2024-performance", cases) == (12, "rudman2024/directions")
    assert runs_needed("rudman2024-performance", verdicts(n_units=1, needed=None))[0] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"word": "consistent"}, "none of its cases is undecided"),
        ({"unit": "items"}, "its interval is over items, which more runs do not narrow"),
        ({"needed": None}, "no feasible number of runs decides it"),
        ({"needed": None, "reason": "no interval: all values are equal"}, "all values are equal"),
        ({"unit": "cases"}, "none of its cases is undecided"),
        (
            {"id": "x", "statement_id": "rudman2024-performances"},
            "did you mean 'rudman2024-performances'",
        ),
    ],
)
def test_claims_that_runs_cannot_decide_are_rejected(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(IsotropyError, match=message):
        runs_needed("rudman2024-performance", verdicts(**changes))


def test_runs_keep_the_type_of_the_field() -> None:
    assert runs_configuration("a", "seeds", 4, [0]) == {"a": {"seeds": [1, 2, 3, 4]}}
    assert runs_configuration("a", "b.repeats", 4, 2) == {"a": {"b": {"repeats": 4}}}


def test_table_without_repeats_is_rejected() -> None:
    with pytest.raises(IsotropyError, match="no field of the configuration sets"):
        table_with_runs("t", [])


def test_command_writes_a_configuration_that_loads(project: Path, tmp_path: Path) -> None:
    """In a checkout of links: the configuration file has the needed runs; the cost is printed."""
    for name in ("config.yaml", "config", "isotropy", "envs"):
        (tmp_path / name).symlink_to(project / name)
    (tmp_path / "results").mkdir()
    out = tmp_path / "decide.yaml"
    asked = [
        "plan",
        "--project",
        str(tmp_path),
        "--root",
        str(tmp_path),
        "--decide",
        "rudman2024-performance",
    ]
    before = CliRunner().invoke(app, [*asked, "--output", str(out)])
    assert before.exit_code == 2
    assert "no verdicts yet; run the study first" in before.output.replace("\n", " ")
    verdicts().to_parquet(tmp_path / "results/claims.parquet")
    done = CliRunner().invoke(app, [*asked, "--output", str(out)])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(out.read_text()) == {"rudman2024": {"seeds": list(range(3, 10))}}
    assert "finetune" in done.output


def test_field_of_runs_is_known_for_every_claim_over_seeds() -> None:
    """`isotropy plan --decide` finds the configuration field with a claim's runs."""
    for each_paper in papers():
        for claim in read_claims(each_paper):
            if claim.unit == "seeds" and claim.quantity is not None:
                assert table_with_runs(claim.quantity.table, each_paper.tables), claim.id
