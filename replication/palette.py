"""Colours and signs of figures and pages, in one place. All pairs can be distinguished with any
form of colour blindness, and as text on white have a contrast of 4.5 or more, but for SERIES.
"""

from __future__ import annotations

SERIES = (*("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"), "#8A8A8A")
"""Lines and markers: Okabe & Ito's colours, with a grey in place of their yellow."""

PLACES = {
    # models and vectors
    "all-MiniLM-L6-v2": 0,
    "word-vectors-300d": 1,
    "glove-6b-50d": 2,
    "bert-base-cased": 3,
    "gpt2": 4,
    "roberta-base": 5,
    "elmo": 7,
    "bert-base-uncased": 8,
    "distilbert-base-cased": 9,
    "albert-base-v2": 10,
    # methods after training, and penalties in it
    "none": 6,
    "k-means + mean + PCA": 0,
    "mean + PCA (global)": 1,
    "global, variance of k-means": 2,
    "k-means + mean": 3,
    "GMM + mean + PCA": 4,
    "random parts + mean + PCA": 5,
    "mean": 7,
    "istar": 1,
    "istar_best": 4,
    "istar_mean": 3,
    "cosreg": 15,
    # scores
    "isoscore": 0,
    "silhouette": 1,
    "loss": 2,
    # data sets and tasks, in the order in which they are drawn together
    **{name: i for i, name in enumerate(("polarity", "pos-scaled", "supersenses"))},
    **{name: i for i, name in enumerate(("supersenses-scaled", "snli", "pos"), 3)},
    **{name: i for i, name in enumerate(("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2"))},
    "wnli": 7,
    **{name: i for i, name in enumerate(("polarity-part", "wordsim353", "simlex999"))},
}
"""Number of the look of a thing, the same in all figures: colour `n % 8` of SERIES, and a marker.
Things that are drawn together differ; those that are not here have numbers that are free in the
figure."""

STATUS = {
    "original": "#005A8C",
    "stand-in": "#A04000",
    "diagram": "#555555",
}
"""Badge colours for provenance status; reserved for it."""
OURS = "#5B4A8A"
"""Badge colour of what is ours and not a paper's: a bound, a control."""

VERDICTS = {"holds": "#00664B", "fails": "#99245E", "open": "#6B5A00", "none": "#666666"}
"""Colours of the groups of verdicts."""

GROUPS = {
    "reproduced": "holds",
    "consistent": "holds",
    "deviates": "fails",
    "contradicted": "fails",
    "inconsistent": "fails",
    "undecided": "open",
    "not computable": "none",
    "not attempted": "none",
}
"""Word of a verdict in the table of verdicts -> its group."""

SIGNS = {"holds": "✓", "fails": "✗", "open": "?", "none": "–"}
"""Signs of the groups, for readers who cannot distinguish the colours."""

WORDS = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "open": ("open", "open"),
    "none": ("not tested", "not tested"),
}
"""Word that readers see for one statement of a group, and for several."""

NO_MODEL = "no model"
"""Heading of claims about theorems and simulated data."""
