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
    """Those that the client does not wait for: the right bytes, or one sentence."""
    kinds = ["drop", "garbage", "loop", "page", "long", "unauthorized"]
    assert set(kinds) < set(FAULTS)
    counts, missed = faults.campaign(n=len(kinds), seed=0, kinds=kinds)
    assert missed == []
    assert {outcome.split(":")[0] for outcome in counts} == set(kinds)
