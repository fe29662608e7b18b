"""SNLI 1.0 as its authors publish it: JSON lines with a gold label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Premise and hypothesis, with the numbers that the hub gives the labels; pairs without a gold
    label (-) are left out.
    """
    names = ["entailment", "neutral", "contradiction"]
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf8").split("\n"):
            row = json.loads(line) if line else {"gold_label": "-"}
            if row["gold_label"] != "-":
                yield Row((row["sentence1"], row["sentence2"]), names.index(row["gold_label"]))
