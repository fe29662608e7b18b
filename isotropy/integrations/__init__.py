"""Metrics, penalties and transforms in other libraries: one module for each, which needs it."""
