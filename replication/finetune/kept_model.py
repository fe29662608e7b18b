"""The folder of a fine-tuned model that is kept: weights, tokenizer and model card, in the format
of transformers and of hubs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from replication.finetune.analysis import Measurements
from replication.finetune.data import TaskData
from replication.finetune.scores import regression_scores
from replication.finetune.spec import FinetuneFacts, FinetuneSpec
from replication.job import Job
from replication.prepare.table import Dataset

RESAMPLES = 500
LEVEL = 0.95  # of the intervals
PIPELINES = {"extractive": "question-answering"}
PROBLEMS = {"single-label": "single_label_classification", "regression": "regression"}
METHODS = {
    "none": "no penalty",
    "istar": "I-STAR (Rudman & Eickhoff 2024)",
    "unbiased": "the penalty of I-STAR with IsoScore without bias",
    "cosreg": "CosReg, as compared by Rudman & Eickhoff (2024)",
    "cluster": "cluster-based enhancement of each batch before the head (Rajaee & Sheikhi 2020)",
}
TEMPLATE = """---
{{ card_data }}
---

# {{ facts.run }}, seed {{ facts.seed }}

{{ facts.embedding }}, fine-tuned on {{ facts.data }} with {{ method }}, by isotropy.

```python
from transformers import AutoTokenizer, {{ model_class }}

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = {{ model_class }}.from_pretrained(FOLDER)
```

## Method

{% for name, value in settings.items() -%}
- {{ name }}: {{ value }}
{% endfor %}
## Scores

On all {{ facts.n_validation }} validation items; intervals of 95 %: percentiles of {{ resamples }}
resamples of the items.

| metric | score | low | high |
| --- | --- | --- | --- |
{% for name, (low, high) in intervals.items() -%}
| {{ name }} | {{ "%.2f" % facts.metrics[name] }} | {{ "%.2f" % low }} | {{ "%.2f" % high }} |
{% endfor %}
{% if has_classes %}Always the most frequent class: {{ facts.metric }} {{ "%.2f" % facts.chance }}.
{% endif %}
## Geometry of each layer

Of the validation items' tokens, and of their sentence vectors (columns `sentence_`). IsoScore* with
zeta {{ facts.zeta }}.

{{ geometry }}

## Limits

{% for limit in limits -%}
- {{ limit }}
{% endfor %}
## Record

isotropy-record:{{ record }}

The digest of rule, specification and inputs of the job. Its record lists the digest of each file of
this folder: `isotropy audit identify FILE` finds it in the results.

Sources: {{ sources }}.
"""


def write(
    folder: Path,
    job: Job[FinetuneSpec],
    model: Any,
    tokenizer: Any,
    facts: FinetuneFacts,
    measured: Measurements,
    validation: TaskData,
) -> None:
    """Write a fine-tuned model in a new folder.

    Args:
        folder: the folder.
        job: the job that fine-tuned it: its spec, lineage and record.
        model: the model.
        tokenizer: its tokenizer.
        facts: facts about the run.
        measured: scores and geometry.
        validation: the validation data.
    """
    training, dataset = job.spec.training, validation.dataset
    if dataset.task in PROBLEMS:
        model.config.problem_type = PROBLEMS[dataset.task]
    if dataset.task == "single-label":
        model.config.id2label = dict(enumerate(dataset.label_names))
        model.config.label2id = {name: i for i, name in enumerate(dataset.label_names)}
    tokenizer.model_max_length = training.max_length
    if not training.token_types:
        names = [n for n in tokenizer.model_input_names if n != "token_type_ids"]
        tokenizer.model_input_names = names
        tokenizer.init_kwargs["model_input_names"] = names  # only what is here is saved
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _card(job, type(model).__name__, facts, measured, dataset).save(folder / "README.md")


def _card(
    job: Job[FinetuneSpec],
    model_class: str,
    facts: FinetuneFacts,
    measured: Measurements,
    dataset: Dataset,
) -> ModelCard:
    """Make the model card."""
    intervals = score_intervals(measured.points, dataset)
    pipeline = PIPELINES.get(dataset.task, "text-classification")
    name = f"{facts.run}-seed{facts.seed}"
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=job.spec.validation,
            dataset_name=facts.data,
            dataset_split="validation",
            metric_type=metric,
            metric_value=facts.metrics[metric],
            metric_args={"interval": [round(low, 6), round(high, 6)], "level": LEVEL},
        )
        for metric, (low, high) in intervals.items()
    ]
    data = ModelCardData(
        model_name=name,
        library_name="transformers",
        pipeline_tag=pipeline,
        tags=["isotropy", facts.method.kind],
        base_model=_base_model(job),
        metrics=list(intervals),
        # Loaded by transformers, a model has no clustering inside
        eval_results=None if facts.method.kind == "cluster" else results,
    )
    sources = [f"{s['content']['title']} ({s['licence']})" for s in job.lineage.sources]
    card: ModelCard = ModelCard.from_template(
        data,
        template_str=TEMPLATE,
        facts=facts,
        has_classes=dataset.task == "single-label",
        method=METHODS[facts.method.kind],
        model_class=f"AutoModelFor{model_class.partition('For')[2]}",
        settings=_settings(job.spec, facts),
        intervals=intervals,
        resamples=RESAMPLES,
        geometry=_markdown(measured.layers),
        limits=_limits(job.spec, facts, dataset),
        record=job.id,
        sources="; ".join(sources),
    )
    return card


def score_intervals(points: pd.DataFrame, dataset: Dataset) -> dict[str, tuple[float, float]]:
    """Compute an interval of 95 % for each metric of a task, by resampling validation items.

    Args:
        points: predictions for the items (`Measurements.points`).
        dataset: the validation data.

    Returns:
        Metric -> low and high, in percent.
    """
    generator = np.random.default_rng(0)
    columns = ["exact_match", "f1"] if dataset.task == "extractive" else ["label", "predicted"]
    values = points[columns].dropna().to_numpy()
    n = len(values)
    if dataset.task == "single-label":  # scores depend on the counts of each pair of classes only
        n_classes = len(dataset.label_names)
        counts = np.zeros((n_classes, n_classes))
        np.add.at(counts, tuple(values.astype(int).T), 1)
        resampled = generator.multinomial(n, counts.ravel() / n, size=RESAMPLES)
        draws = _classification_draws(resampled.reshape(-1, n_classes, n_classes).astype(float))
    else:
        samples = (values[generator.integers(n, size=n)] for _ in range(RESAMPLES))
        draws = pd.DataFrame(
            [
                dict(zip(columns, rows.mean(axis=0), strict=True))
                if dataset.task == "extractive"
                else regression_scores(rows[:, 1], rows[:, 0])
                for rows in samples
            ]
        )
    ends = np.nanquantile(draws.to_numpy(), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return {
        str(metric): (low, high) for metric, (low, high) in zip(draws, ends.T.tolist(), strict=True)
    }


def _classification_draws(counts: np.ndarray) -> pd.DataFrame:
    """Compute `classification_scores` from numbers of items by true and predicted class, shape
    (resamples, K, K).
    """
    n, right = counts.sum(axis=(1, 2)), np.trace(counts, axis1=1, axis2=2)
    true, predicted = counts.sum(axis=2), counts.sum(axis=1)
    covariance = n * right - (true * predicted).sum(axis=1)
    spread = (n**2 - (true**2).sum(axis=1)) * (n**2 - (predicted**2).sum(axis=1))
    matthews = covariance / np.sqrt(np.where(spread > 0, spread, np.inf))
    draws = pd.DataFrame({"accuracy": 100 * right / n, "matthews": 100 * matthews})
    if counts.shape[1] == 2:
        draws["f1"] = 200 * counts[:, 1, 1] / np.maximum(true[:, 1] + predicted[:, 1], 1)
    return draws


def _base_model(job: Job[FinetuneSpec]) -> str | None:
    """Return the name of the pre-trained model on the Hugging Face Hub, if it comes from there."""
    origins = [s["origin"] for s in job.lineage.sources if s["kind"] == "model"]
    match = re.match(r"hub model (\S+) at ", origins[0]) if origins else None
    return match[1] if match else None


def _settings(spec: FinetuneSpec, facts: FinetuneFacts) -> dict[str, Any]:
    """Return the settings of a run, by their names."""
    method, training = spec.method, spec.training
    settings = {
        "lambda": method.strength,
        "zeta": method.zeta,
        "layers": None if method.strength is None else method.layers,
        "clusters of a batch": method.n_clusters,
        "components removed": method.n_components,
        "training items": facts.n_train,
        "updates": facts.updates,
        "batch size": training.batch_size,
        "epochs": training.epochs,
        "learning rate": f"{training.learning_rate:g}, {training.schedule}",
        "precision": training.precision,
        "maximum length": f"{training.max_length} word pieces",
    }
    return {name: value for name, value in settings.items() if value is not None}


def _markdown(layers: pd.DataFrame) -> str:
    """Format the table of layers in Markdown."""
    rows = [list(layers.columns), ["---"] * len(layers.columns)]
    rows += [[f"{value:.4g}" for value in row] for row in layers.to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _limits(spec: FinetuneSpec, facts: FinetuneFacts, dataset: Dataset) -> list[str]:
    """Return what the scores do not show, as sentences."""
    limits = ["One seed of one run: the intervals are over items, not over seeds."]
    if facts.status != "original":
        reasons = f": {facts.deviations}" if facts.deviations else ""
        limits.append(f"A {facts.status}, not the model of the paper{reasons}.")
    if not spec.training.token_types:
        limits.append("Trained without token type ids; the tokenizer gives none.")
    if dataset.task == "extractive":
        limits.append("Long contexts are read in windows, of which the best span is the answer.")
    if facts.method.kind == "cluster":
        limits.append(
            "The scores are those with clusters removed from each batch before the head. "
            "transformers loads the model without: its scores differ."
        )
    return limits
