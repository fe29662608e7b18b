"""Colours and signs of figures and pages, in one place. All pairs can be distinguished with any
form of colour blindness, and as text on white have a contrast of 4.5 or more, but for SERIES.
"""

from __future__ import annotations

SERIES = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    "#8A8A8A",
)
"""Lines and markers: Okabe & Ito's colours, with a grey in place of their yellow."""

STATUS = {
    "original": "#005A8C",
    "stand-in": "#A04000",
    "rehearsal": "#7A1F7A",
    "diagram": "#555555",
}
"""Badge colours for provenance status; reserved for it."""

REHEARSAL = "Rehearsal: synthetic models and data. The numbers mean nothing."
"""Banner on all figures and pages of a rehearsal."""

VERDICTS = {"holds": "#00664B", "fails": "#99245E", "undecided": "#6B5A00", "none": "#666666"}
"""Colours of the groups of verdicts."""

GROUPS = {
    "reproduced": "holds",
    "consistent": "holds",
    "deviates": "fails",
    "contradicted": "fails",
    "inconsistent": "fails",
    "undecided": "undecided",
    "not computable": "none",
    "not attempted": "none",
}
"""Word of a verdict -> its group."""

SIGNS = {"holds": "✓", "fails": "✗", "undecided": "?", "none": "–"}
"""Signs of the groups, for readers who cannot distinguish the colours."""

NO_MODEL = "no model"
"""Heading of claims about theorems and simulated data."""
