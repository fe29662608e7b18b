"""The geometry and the performance of a fine-tuned model: one pass over training items, one over
the validation set.

Shrinkage covariances come from training tokens of the same layer, and zeta is 0.75, as in the
authors' analysis, which takes IsoScore* of sentence embeddings (`sentence_isoscore_star`);
IsoScore* of all tokens is ours. The whole validation set is scored, padding is no token, and TwoNN
is that of sentences in d dimensions (docs/papers).
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

from isotropy.embed.sentence_encoder import batches
from isotropy.finetune.data import Batch, Inputs, Side, collate
from isotropy.finetune.model import reads_last
from isotropy.finetune.question_answering import best_answers
from isotropy.finetune.scores import answer_scores, classification_scores, regression_scores
from isotropy.finetune.spec import FinetuneSpec, Metric, Probe
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

if TYPE_CHECKING:
    from isotropy.finetune.batch_enhancement import BatchClustering

log = logging.getLogger(__name__)

TOKEN_BUDGET = 4096  # most tokens in one batch, padding included
PROBE_ITEMS = 5000


class Measurements(NamedTuple):
    """What was measured: facts about the model; tables of layers, and of validation items as
    points with the answers to them.
    """

    facts: dict[str, Any]
    layers: pd.DataFrame
    points: pd.DataFrame


class Reader:
    """A model in evaluation mode that reads items in batches of similar length, or, where a method
    clusters batches, in seeded batches of the size that it was trained with: a data set may be
    sorted by class, and then a batch would be one cluster.
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
        """Batches of some rows: which rows they are, what the model read, and its outputs."""
        if self.clustering is None:
            cut = batches([len(inputs.ids[i]) for i in rows], TOKEN_BUDGET)
        else:
            cut = _mixed(len(rows), self.batch_size)
        for chosen in cut:
            batch = collate(inputs, rows[chosen], self.pad, self.device)
            yield rows[chosen], batch, self.model(**batch.model_inputs, output_hidden_states=True)

    def sentences(self, states: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Of token vectors (B, T, d) of a batch those that stand for the items, (B, d)."""
        if not self.reads_last:
            return states[:, 0]
        last = batch.mask.sum(dim=1) - 1
        return states[torch.arange(len(states), device=states.device), last]


def measure(reader: Reader, train: Inputs, side: Side, spec: FinetuneSpec) -> Measurements:
    """Measure the geometry and the performance of a fine-tuned model.

    Args:
        reader: the model.
        train: training items.
        side: validation items.
        spec: the task's own metric; zeta of IsoScore*, and the token vectors behind its shrinkage
            covariance.
    """
    validation, zeta = side.inputs, spec.measure.zeta
    shrinkage = _training_covariances(reader, train, spec.measure.tokens)
    reading = _read_validation(reader, validation)
    n_classes = len(side.dataset.label_names)
    answers, metrics = _performance(validation, reading.logits, side.contexts, n_classes)
    layers = _measure_layers(reading, shrinkage, validation, zeta)
    last = reading.sentences[-1]
    facts = {
        "performance": metrics[spec.metric],
        "metrics": metrics,
        "chance": _chance(train, validation, spec.metric, n_classes),
        **_measure_whole(reading, shrinkage, zeta),
        "n_tokens": int(reading.scores[0].n),
        "n_layers": reader.n_layers,
        "activations": last.mean(axis=0, dtype=np.float64).tolist(),
        "probes": [],
    }
    if spec.method.kind == "none" and train.task != "extractive":
        known, targets = _frozen(reader, train)
        facts["probes"] = probes(known, targets, last, validation.targets, spec.metric, n_classes)
    return Measurements(facts, layers, _points(last, answers))


def probes(
    known: np.ndarray,
    targets: np.ndarray,
    new: np.ndarray,
    right: np.ndarray,
    metric: Metric,
    n_classes: int,
) -> list[Probe]:
    """All-But-The-Top as post-processing: a linear model on embeddings as they are, and on
    post-processed ones.

    The post-processing and the model learn from training items alone. For classes a logistic
    regression, for scores a ridge regression, on standardized dimensions.

    Args:
        known: embeddings of training items, shape (n, d).
        targets: of training items, shape (n,).
        new: embeddings of validation items, shape (m, d).
        right: targets of validation items, shape (m,).
        metric: the task's own.
        n_classes: classes of the task; of no account for scores.
    """
    # Half a second to load, of which models with a penalty need nothing
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from isotropy.transforms import AllButTheTop

    found = []
    for method in ("none", "abtt"):
        n_components = 0
        before, after = known, new
        if method == "abtt":
            transform = AllButTheTop().fit(known)
            n_components = len(transform.components_)
            before, after = transform.transform(known), transform.transform(new)
        regression = np.issubdtype(targets.dtype, np.floating)
        linear = Ridge() if regression else LogisticRegression(max_iter=1000)
        model = make_pipeline(StandardScaler(), linear)
        predicted = model.fit(before, targets).predict(after)
        if regression:
            scores = regression_scores(predicted, right)
        else:
            scores = classification_scores(predicted, right, n_classes)
        performance, n = scores[metric], len(known)
        found.append(
            Probe(method=method, performance=performance, n_train=n, n_components=n_components)
        )
    return found


def projection(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A cloud in the plane of its mean and the direction of largest variance at right angles to it;
    the origin is (0, 0).

    Args:
        X: shape (n, d).

    Returns:
        Coordinates along the mean, and along the other direction, whose largest entry is made
        positive; shape (n,) each.
    """
    points = X.astype(np.float64)
    mean = points.mean(axis=0)
    along = mean / max(float(np.linalg.norm(mean)), np.finfo(np.float64).tiny)
    rest = points - mean
    rest -= np.outer(rest @ along, along)
    across = np.linalg.eigh(rest.T @ rest)[1][:, -1]
    across *= np.sign(across[np.abs(across).argmax()])
    return points @ along, points @ across


def _mixed(n: int, size: int) -> list[list[int]]:
    """Batches of rows in a seeded order; the last is up to half a batch larger rather than tiny."""
    order = np.random.default_rng(0).permutation(n).tolist()
    edges = [*range(0, max(1, n - size // 2), size), n]
    return [order[a:b] for a, b in pairwise(edges)]


def _sample(inputs: Inputs, tokens: int) -> np.ndarray:
    """Rows of training items, drawn once and for all, until they have as many tokens."""
    order = np.random.default_rng(0).permutation(len(inputs))
    total = np.cumsum([len(inputs.ids[i]) for i in order])
    return np.sort(order[: int(np.searchsorted(total, tokens)) + 1])


class _Reading(NamedTuple):
    """What one pass over the validation items leaves; layers are hidden layers 1 to L.

    Attributes:
        scores, cosines: of all token vectors, one for each layer.
        sentences: vectors of the first tokens (of the last ones, in models that read from left to
            right), shape (L, n, d); of the last layer those that the head reads.
        logits: of each item, as `_logits` has them.
    """

    scores: list[StreamingIsoScore]
    cosines: list[StreamingMeanCosine]
    sentences: np.ndarray
    logits: list[Any]


def _training_covariances(reader: Reader, train: Inputs, tokens: int) -> list[StreamingCovariance]:
    """Covariance of training tokens, one for each layer; of so many vectors in all layers
    together.
    """
    streams = [StreamingCovariance(reader.d).to(reader.device) for _ in range(reader.n_layers)]
    for _, batch, outputs in reader.read(train, _sample(train, tokens // reader.n_layers)):
        for stream, states in zip(streams, outputs.hidden_states[1:], strict=True):
            stream.update(states[batch.mask.bool()])
    return streams


def _read_validation(reader: Reader, validation: Inputs) -> _Reading:
    """Read all validation items once."""
    scores = [StreamingIsoScore(reader.d).to(reader.device) for _ in range(reader.n_layers)]
    cosines = [StreamingMeanCosine(reader.d) for _ in range(reader.n_layers)]
    sentences = np.zeros((reader.n_layers, len(validation), reader.d), dtype=np.float32)
    predicted: dict[int, Any] = {}
    for rows, batch, outputs in reader.read(validation, np.arange(len(validation))):
        for layer, states in enumerate(outputs.hidden_states[1:]):
            of_tokens = states[batch.mask.bool()]
            scores[layer].update(of_tokens)
            cosines[layer].update(of_tokens)
            sentences[layer, rows] = reader.sentences(states, batch).cpu().numpy()
        if reader.clustering is not None:  # what the head reads
            sentences[-1, rows] = reader.clustering.last.cpu().numpy()
        predicted |= zip(rows.tolist(), _logits(outputs), strict=True)
    return _Reading(scores, cosines, sentences, [predicted[i] for i in range(len(validation))])


def _measure_layers(
    reading: _Reading, shrinkage: list[StreamingCovariance], validation: Inputs, zeta: float
) -> pd.DataFrame:
    """One row per layer: scores of its tokens, and of its sentence embeddings."""
    known = [ShrinkageCovariance(stream.covariance()) for stream in shrinkage]
    rows = []
    for layer, sentences in enumerate(reading.sentences):
        matrix = known[layer].matrix.cpu()
        row = {
            "layer": layer + 1,
            "isoscore": reading.scores[layer].compute(),
            "isoscore_star": reading.scores[layer].compute(zeta, known[layer]),
            "mean_cosine": reading.cosines[layer].compute(),
            "sentence_isoscore_star": float(isoscore_star(sentences, zeta, matrix)),
            "sentence_mean_cosine": mean_cosine(sentences),
            "sentence_two_nn": _two_nn(sentences),
            "sentence_log10_isotropy": partition_isotropy(sentences, log=True) / math.log(10),
            "sentence_mean_norm": _share_of_mean(sentences),
            "sentence_silhouette": _silhouette(sentences, validation),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _measure_whole(
    reading: _Reading, shrinkage: list[StreamingCovariance], zeta: float
) -> dict[str, float]:
    """Scores of the tokens of all layers together."""
    d = reading.sentences.shape[2]
    scores, cosine = StreamingIsoScore(d), StreamingMeanCosine(d)
    covariance = StreamingCovariance(d)
    for layer in range(len(shrinkage)):
        scores.merge(reading.scores[layer])
        cosine.merge(reading.cosines[layer])
        covariance.merge(shrinkage[layer])
    return {
        "isoscore": scores.compute(),
        "isoscore_star": scores.compute(zeta, covariance.covariance()),
        "mean_cosine": cosine.compute(),
    }


def _points(last: np.ndarray, answers: pd.DataFrame) -> pd.DataFrame:
    """One row per validation item, or window of a context: its answer, and its place in the plane
    of `projection`.
    """
    x, y = projection(last)
    return answers.assign(x=x, y=y)


def _frozen(reader: Reader, train: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Sentence embeddings of the last layer and targets of training items, PROBE_ITEMS at most."""
    chosen = np.sort(np.random.default_rng(1).permutation(len(train))[:PROBE_ITEMS])
    embeddings = np.zeros((len(train), reader.d), dtype=np.float32)
    for rows, batch, outputs in reader.read(train, chosen):
        embeddings[rows] = reader.sentences(outputs.hidden_states[-1], batch).cpu().numpy()
    return embeddings[chosen], train.targets[chosen]


def _logits(outputs: Any) -> list[Any]:
    """What the head says of each row: logits, or those of the two ends of an answer."""
    if "start_logits" in outputs:
        return list(
            zip(outputs.start_logits.cpu().numpy(), outputs.end_logits.cpu().numpy(), strict=True)
        )
    return list(outputs.logits.float().cpu().numpy())


def _performance(
    inputs: Inputs, logits: list[Any], contexts: list[str], n_classes: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Answers and metrics.

    Returns:
        One row per item: label and predicted class or score, NaN for spans; exact_match and f1 of a
        span, in the row of the question's first window, else NaN. And all metrics of the task.
    """
    answers = pd.DataFrame(np.nan, range(len(inputs)), ["label", "predicted", "exact_match", "f1"])
    if inputs.task == "extractive":
        starts, ends = (
            [pair[side][: len(w.ids)] for pair, w in zip(logits, inputs.windows, strict=True)]
            for side in (0, 1)
        )
        found = best_answers(inputs.windows, starts, ends, contexts)
        scores = answer_scores(found, inputs.answers)
        first = np.unique([w.item for w in inputs.windows], return_index=True)[1]
        for name, of_items in scores.items():
            answers.loc[first, name] = of_items
        return answers, {name: float(of_items.mean()) for name, of_items in scores.items()}
    values = np.stack(logits)
    if inputs.task == "regression":
        predicted, metrics = values[:, 0], regression_scores(values[:, 0], inputs.targets)
    else:
        predicted = values.argmax(axis=1)
        metrics = classification_scores(predicted, inputs.targets, n_classes)
    return answers.assign(label=inputs.targets.astype(float), predicted=predicted.astype(float)), (
        metrics
    )


def _chance(train: Inputs, validation: Inputs, metric: Metric, n_classes: int) -> float:
    """The metric of a model that knows the training labels alone; 0 for answers and scores."""
    if train.task != "single-label":
        return 0.0
    most = np.bincount(train.targets).argmax()
    guesses = np.full(len(validation), most)
    return classification_scores(guesses, validation.targets, n_classes)[metric]


def _two_nn(X: np.ndarray) -> float:
    """Intrinsic dimension; NaN for a cloud so collapsed that neighbours cannot be told apart."""
    try:
        return two_nn(X)
    except ValueError as error:
        log.info("no TwoNN: %s", error)
        return float("nan")


def _share_of_mean(X: np.ndarray) -> float:
    """Norm of the mean over the mean of the norms: 0 for a cloud around the origin, 1 for a single
    point.
    """
    points = X.astype(np.float64)
    return float(np.linalg.norm(points.mean(axis=0)) / np.linalg.norm(points, axis=1).mean())


def _silhouette(X: np.ndarray, inputs: Inputs) -> float:
    """Of the classes; NaN where there are none."""
    if inputs.task != "single-label" or len(np.unique(inputs.targets)) < 2:
        return float("nan")
    return silhouette(X, inputs.targets)
