"""Measurement of the geometry and the performance of a fine-tuned model, in one pass over training
items and one over the validation set.

Shrinkage covariances are estimated from training tokens of the same layer, and zeta is 0.75, as in
the authors' analysis, which computes IsoScore* of sentence embeddings (`sentence_isoscore_star`);
IsoScore* of all tokens is our addition. The whole validation set is used, padding does not count as
tokens, and TwoNN is computed for sentence embeddings in all d dimensions (docs/papers).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from isotropy.metrics.cosines import StreamingMeanCosine, mean_cosine
from isotropy.metrics.dimension import two_nn
from isotropy.metrics.isoscores import (
    ShrinkageCovariance,
    StreamingCovariance,
    StreamingIsoScore,
    isoscore_star,
)
from isotropy.metrics.partition import partition_isotropy
from isotropy.metrics.silhouettes import silhouette
from isotropy.models.batches import batches
from replication.finetune.data import Batch, Inputs, TaskData, best_answers, collate
from replication.finetune.model import reads_last
from replication.finetune.scores import answer_scores, classification_scores, regression_scores
from replication.finetune.spec import FinetuneSpec, Metric, Probe

if TYPE_CHECKING:
    from replication.finetune.model import BatchClustering

log = logging.getLogger(__name__)

TOKEN_BUDGET = 4096  # maximum number of tokens in a batch, padding included
PROBE_ITEMS = 5000  # maximum number of training items for linear probes


class Measurements(NamedTuple):
    """Results of a measurement: facts about the model, a table of layers, and a table of validation
    items with predictions and coordinates in a plane.
    """

    facts: dict[str, Any]
    layers: pd.DataFrame
    points: pd.DataFrame


class Reader:
    """Runs a model in evaluation mode on batches of items of similar length. If the model clusters
    its batches, these are random and of the same size as in training: a data set may be sorted by
    class, and a batch of one class would be a single cluster.
    """

    def __init__(
        self,
        model: Any,
        pad: int,
        device: torch.device,
        clustering: BatchClustering | None = None,
        batch_size: int = 32,
    ) -> None:
        self.model, self.pad, self.device = model.eval().float(), pad, device
        self.clustering, self.batch_size = clustering, batch_size
        self.n_layers, self.d = int(model.config.num_hidden_layers), int(model.config.hidden_size)
        self.reads_last = reads_last(model)

    @torch.inference_mode()
    def read(self, inputs: Inputs, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Batch, Any]]:
        """Run the model on some rows; yield the rows of each batch, the batch and the outputs."""
        if self.clustering is None:
            index_batches = batches([len(inputs.ids[i]) for i in rows], TOKEN_BUDGET)
        else:
            index_batches = _random_batches(len(rows), self.batch_size)
        for indices in index_batches:
            batch = collate(inputs, rows[indices], self.pad, self.device)
            yield rows[indices], batch, self.model(**batch.model_inputs, output_hidden_states=True)

    def sentences(self, states: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Select the token vectors that represent the items of a batch, (B, d), from all (B, T, d):
        those of the first tokens, or of the last ones in left-to-right models.
        """
        if not self.reads_last:
            return states[:, 0]
        last = batch.mask.sum(dim=1) - 1
        return states[torch.arange(len(states), device=states.device), last]


def measure(
    reader: Reader, train: Inputs, validation_data: TaskData, spec: FinetuneSpec
) -> Measurements:
    """Measure the geometry and the performance of a fine-tuned model.

    Args:
        reader: the model.
        train: training items.
        validation_data: validation items.
        spec: specification of the model: the metric of its task, zeta of IsoScore*, and the number
            of token vectors for the shrinkage covariance.
    """
    validation, zeta = validation_data.inputs, spec.measure.zeta
    shrinkage = _training_covariances(reader, train, spec.measure.tokens)
    results = _run_validation(reader, validation)
    n_classes = len(validation_data.dataset.label_names)
    answers, metrics = _performance(validation, results.logits, validation_data.contexts, n_classes)
    layers = _measure_layers(results, shrinkage, validation, zeta)
    last = results.sentences[-1]
    facts = {
        "performance": metrics[spec.metric],
        "metrics": metrics,
        "chance": _majority_class_metric(train, validation, spec.metric, n_classes),
        **_measure_all_layers(results, shrinkage, zeta),
        "n_tokens": int(results.scores[0].n),
        "n_layers": reader.n_layers,
        "activations": last.mean(axis=0, dtype=np.float64).tolist(),
        "probes": [],
    }
    if spec.method.kind == "none" and train.task != "extractive":
        probe_embeddings, targets = _probe_training_data(reader, train)
        facts["probes"] = probes(
            probe_embeddings, targets, last, validation.targets, spec.metric, n_classes
        )
    return Measurements(facts, layers, _add_coordinates(last, answers))


def probes(
    train_embeddings: np.ndarray,
    train_targets: np.ndarray,
    validation_embeddings: np.ndarray,
    validation_targets: np.ndarray,
    metric: Metric,
    n_classes: int,
) -> list[Probe]:
    """Evaluate linear probes on frozen sentence embeddings, without and with All-But-The-Top.

    Post-processing and probe are fitted to training items only. The probe is a logistic regression
    for classes and a ridge regression for scores, on standardized dimensions.

    Args:
        train_embeddings: embeddings of training items, shape (n, d).
        train_targets: targets of training items, shape (n,).
        validation_embeddings: embeddings of validation items, shape (m, d).
        validation_targets: targets of validation items, shape (m,).
        metric: metric of the task.
        n_classes: number of classes of the task; ignored for scores.
    """
    # Imported here, since loading takes half a second and models with a penalty have no probes
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from isotropy.transforms import AllButTheTop

    results = []
    for method in ("none", "abtt"):
        n_components = 0
        train_features, validation_features = train_embeddings, validation_embeddings
        if method == "abtt":
            transform = AllButTheTop().fit(train_embeddings)
            n_components = len(transform.components_)
            train_features = transform.transform(train_embeddings)
            validation_features = transform.transform(validation_embeddings)
        regression = np.issubdtype(train_targets.dtype, np.floating)
        estimator = Ridge() if regression else LogisticRegression(max_iter=1000)
        model = make_pipeline(StandardScaler(), estimator)
        predicted = model.fit(train_features, train_targets).predict(validation_features)
        if regression:
            scores = regression_scores(predicted, validation_targets)
        else:
            scores = classification_scores(predicted, validation_targets, n_classes)
        performance, n = scores[metric], len(train_embeddings)
        results.append(
            Probe(method=method, performance=performance, n_train=n, n_components=n_components)
        )
    return results


def projection(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project a point cloud onto the plane that is spanned by its mean and by the direction of
    largest variance orthogonal to it; the origin maps to (0, 0).

    Args:
        X: point cloud, shape (n, d).

    Returns:
        Coordinates along the mean, and along the other direction, whose sign makes its entry of
        largest absolute value positive; shape (n,) each.
    """
    points = X.astype(np.float64)
    mean = points.mean(axis=0)
    along = mean / max(float(np.linalg.norm(mean)), np.finfo(np.float64).tiny)
    residuals = points - mean
    residuals -= np.outer(residuals @ along, along)
    across = np.linalg.eigh(residuals.T @ residuals)[1][:, -1]
    across *= np.sign(across[np.abs(across).argmax()])
    return points @ along, points @ across


def _random_batches(n: int, size: int) -> list[list[int]]:
    """Divide rows in random, seeded order into batches; the last one has half to one and a half the
    size.
    """
    order = np.random.default_rng(0).permutation(n).tolist()
    edges = [*range(0, max(1, n - size // 2), size), n]
    return [order[a:b] for a, b in pairwise(edges)]


def _sample_rows(inputs: Inputs, tokens: int) -> np.ndarray:
    """Sample rows, with a fixed seed, until they have the given number of tokens."""
    order = np.random.default_rng(0).permutation(len(inputs))
    total = np.cumsum([len(inputs.ids[i]) for i in order])
    return np.sort(order[: int(np.searchsorted(total, tokens)) + 1])


class _ValidationResults(NamedTuple):
    """Results of one pass over the validation items, for hidden layers 1 to L.

    Attributes:
        scores, cosines: accumulated IsoScore and mean cosine of all token vectors of each layer.
        sentences: sentence embeddings, shape (L, n, d): vectors of the first tokens (of the last
            ones in left-to-right models); for the last layer, the input of the head.
        logits: outputs of the head for each item, in the format of `_logits`.
    """

    scores: list[StreamingIsoScore]
    cosines: list[StreamingMeanCosine]
    sentences: np.ndarray
    logits: list[Any]


def _training_covariances(reader: Reader, train: Inputs, tokens: int) -> list[StreamingCovariance]:
    """Accumulate the covariance of training tokens of each layer, from about `tokens` vectors in
    all layers together.
    """
    streams = [StreamingCovariance(reader.d).to(reader.device) for _ in range(reader.n_layers)]
    for _, batch, outputs in reader.read(train, _sample_rows(train, tokens // reader.n_layers)):
        for stream, states in zip(streams, outputs.hidden_states[1:], strict=True):
            stream.update(states.flatten(0, 1).index_select(0, batch.positions))
    return streams


def _run_validation(reader: Reader, validation: Inputs) -> _ValidationResults:
    """Run the model on all validation items, and accumulate scores and embeddings of each layer."""
    scores = [StreamingIsoScore(reader.d).to(reader.device) for _ in range(reader.n_layers)]
    cosines = [StreamingMeanCosine(reader.d) for _ in range(reader.n_layers)]
    sentences = np.zeros((reader.n_layers, len(validation), reader.d), dtype=np.float32)
    predicted: dict[int, Any] = {}
    for rows, batch, outputs in reader.read(validation, np.arange(len(validation))):
        for layer, states in enumerate(outputs.hidden_states[1:]):
            token_vectors = states.flatten(0, 1).index_select(0, batch.positions)
            scores[layer].update(token_vectors)
            cosines[layer].update(token_vectors)
            sentences[layer, rows] = reader.sentences(states, batch).cpu().numpy()
        if reader.clustering is not None:  # the input of the head
            sentences[-1, rows] = reader.clustering.last.cpu().numpy()
        predicted |= zip(rows.tolist(), _logits(outputs), strict=True)
    return _ValidationResults(
        scores, cosines, sentences, [predicted[i] for i in range(len(validation))]
    )


def _measure_layers(
    results: _ValidationResults,
    shrinkage: list[StreamingCovariance],
    validation: Inputs,
    zeta: float,
) -> pd.DataFrame:
    """Compute a table with the scores of tokens and sentence embeddings of each layer."""
    shrinkage_covariances = [ShrinkageCovariance(stream.covariance()) for stream in shrinkage]
    rows = []
    for layer, sentences in enumerate(results.sentences):
        matrix = shrinkage_covariances[layer].matrix.cpu()
        row = {
            "layer": layer + 1,
            "isoscore": results.scores[layer].compute(),
            "isoscore_star": results.scores[layer].compute(zeta, shrinkage_covariances[layer]),
            "mean_cosine": results.cosines[layer].compute(),
            "sentence_isoscore_star": float(isoscore_star(sentences, zeta, matrix)),
            "sentence_mean_cosine": mean_cosine(sentences),
            "sentence_two_nn": _two_nn(sentences),
            "sentence_log10_isotropy": partition_isotropy(sentences, log=True) / math.log(10),
            "sentence_mean_norm": _relative_mean_norm(sentences),
            "sentence_silhouette": _silhouette(sentences, validation),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _measure_all_layers(
    results: _ValidationResults, shrinkage: list[StreamingCovariance], zeta: float
) -> dict[str, float]:
    """Compute the scores of the token vectors of all layers together."""
    d = results.sentences.shape[2]
    scores, cosine = StreamingIsoScore(d), StreamingMeanCosine(d)
    covariance = StreamingCovariance(d)
    for layer in range(len(shrinkage)):
        scores.merge(results.scores[layer])
        cosine.merge(results.cosines[layer])
        covariance.merge(shrinkage[layer])
    return {
        "isoscore": scores.compute(),
        "isoscore_star": scores.compute(zeta, covariance.covariance()),
        "mean_cosine": cosine.compute(),
    }


def _add_coordinates(last: np.ndarray, answers: pd.DataFrame) -> pd.DataFrame:
    """Add to the table of predictions, one row per validation item or window of a context, its
    coordinates from `projection`.
    """
    x, y = projection(last)
    return answers.assign(x=x, y=y)


def _probe_training_data(reader: Reader, train: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return sentence embeddings, from the last layer, and targets of at most PROBE_ITEMS items."""
    sample = np.sort(np.random.default_rng(1).permutation(len(train))[:PROBE_ITEMS])
    embeddings = np.zeros((len(train), reader.d), dtype=np.float32)
    for rows, batch, outputs in reader.read(train, sample):
        embeddings[rows] = reader.sentences(outputs.hidden_states[-1], batch).cpu().numpy()
    return embeddings[sample], train.targets[sample]


def _logits(outputs: Any) -> list[Any]:
    """Return the outputs of the head for each row: logits, or a pair of logits for the start and
    the end of an answer.
    """
    if "start_logits" in outputs:
        return list(
            zip(outputs.start_logits.cpu().numpy(), outputs.end_logits.cpu().numpy(), strict=True)
        )
    return list(outputs.logits.float().cpu().numpy())


def _performance(
    inputs: Inputs, logits: list[Any], contexts: list[str], n_classes: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Compute the predictions for all items and the metrics of the task.

    Returns:
        A table with one row per item or window: label and predicted class or score, NaN for
        extractive tasks; exact_match and f1 of an answer in the row of the first window of its
        question, else NaN. And all metrics of the task.
    """
    answers = pd.DataFrame(np.nan, range(len(inputs)), ["label", "predicted", "exact_match", "f1"])
    if inputs.task == "extractive":
        starts, ends = (
            [pair[side][: len(w.ids)] for pair, w in zip(logits, inputs.windows, strict=True)]
            for side in (0, 1)
        )
        predictions = best_answers(inputs.windows, starts, ends, contexts)
        scores = answer_scores(predictions, inputs.answers)
        first_windows = np.unique([w.item for w in inputs.windows], return_index=True)[1]
        for name, item_scores in scores.items():
            answers.loc[first_windows, name] = item_scores
        return answers, {name: float(item_scores.mean()) for name, item_scores in scores.items()}
    values = np.stack(logits)
    if inputs.task == "regression":
        predicted, metrics = values[:, 0], regression_scores(values[:, 0], inputs.targets)
    else:
        predicted = values.argmax(axis=1)
        metrics = classification_scores(predicted, inputs.targets, n_classes)
    return answers.assign(label=inputs.targets.astype(float), predicted=predicted.astype(float)), (
        metrics
    )


def _majority_class_metric(
    train: Inputs, validation: Inputs, metric: Metric, n_classes: int
) -> float:
    """Compute the metric of predicting the most frequent training class; 0 for answers and
    scores.
    """
    if train.task != "single-label":
        return 0.0
    majority_class = np.bincount(train.targets).argmax()
    guesses = np.full(len(validation), majority_class)
    return classification_scores(guesses, validation.targets, n_classes)[metric]


def _two_nn(X: np.ndarray) -> float:
    """Compute the intrinsic dimension; NaN if points are too close to distinguish neighbours."""
    try:
        return two_nn(X)
    except ValueError as error:
        log.info("TwoNN could not be computed: %s", error)
        return float("nan")


def _relative_mean_norm(X: np.ndarray) -> float:
    """Divide the norm of the mean by the mean of the norms: 0 for a cloud centred at the origin, 1
    for a single point.
    """
    points = X.astype(np.float64)
    return float(np.linalg.norm(points.mean(axis=0)) / np.linalg.norm(points, axis=1).mean())


def _silhouette(X: np.ndarray, inputs: Inputs) -> float:
    """Compute the silhouette of the classes; NaN if there are fewer than two."""
    if inputs.task != "single-label" or len(np.unique(inputs.targets)) < 2:
        return float("nan")
    return silhouette(X, inputs.targets)
