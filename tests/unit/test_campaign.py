"""Short forms of `make campaign`."""

from __future__ import annotations

from tests.campaign import faults, mutations
from tests.unit.hub import FAULTS


def test_mutations() -> None:
    """Whatever is put into a record, a ledger, a bundle, a configuration or the registry is found,
    or refused in one sentence."""
    counts, missed = mutations.campaign(n=50, seed=0)
    assert missed == []
    assert set(counts.values()) == {10}


def test_faults_of_a_hub() -> None:
    """Each kind of fault, once: the right bytes, or one sentence."""
    counts, missed = faults.campaign(n=len(FAULTS), seed=0)
    assert missed == []
    assert {outcome.split(":")[0] for outcome in counts} == set(FAULTS)
