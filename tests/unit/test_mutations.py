"""A short form of `make campaign`."""

from __future__ import annotations

from tests.campaign.mutations import campaign


def test_mutations() -> None:
    """Whatever is put into a record, a ledger, a bundle, a configuration or the registry is found,
    or refused in one sentence."""
    counts, missed = campaign(n=50, seed=0)
    assert missed == []
    assert set(counts.values()) == {10}
