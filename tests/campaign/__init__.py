"""Campaigns: thousands of random faults, too many for `make test`; `make campaign` runs them."""
