"""Campaigns: many random faults, more than `make test` has time for; `make campaign` runs them."""
