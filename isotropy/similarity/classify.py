"""Classification on frozen features (Rajaee & Pilehvar 2021, section 4.2): the authors' MLP, and a
linear control.

The features of an item are the vectors of its first tokens, special tokens and padding included,
one after the other, as in the authors' notebook. They cluster the tokens of training and validation
items together (transductive); the inductive variant learns clusters and components from the
training items alone. The control is a logistic regression on the mean of an item's own tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn import functional

from isotropy.embed.sentence_encoder import SentenceEncoder, map_batches
from isotropy.errors import IsotropyError
from isotropy.finetune.scores import classification_scores
from isotropy.metrics.validation import aligned
from isotropy.similarity.measure import Step, estimator, log10_isotropy
from isotropy.similarity.spec import CLUSTERED, ClassifySpec, MethodName, Mlp, Parameters


class Features(NamedTuple):
    """Frozen features of the items of a data set.

    Attributes:
        tokens: shape (n, T, d), float32, padding included.
        lengths: tokens of each item that are not padding, shape (n,).
        targets: classes, shape (n,).
    """

    tokens: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray


def features(
    encoder: SentenceEncoder,
    columns: list[list[str]],
    targets: np.ndarray,
    spec: ClassifySpec,
    workers: int,
) -> Features:
    """Token vectors of items.

    Args:
        encoder: the model.
        columns: the first text of each item, and the second for pairs.
        targets: classes, shape (n,).
        spec: layer, length and batches.
        workers: threads on the CPU. Does not change the result.

    Raises:
        IsotropyError: a layer that the model does not have, or more tokens than it can read.
    """
    if spec.layer > encoder.n_layers:
        raise IsotropyError(
            f"layer {spec.layer}: the model has hidden layers 0 to {encoder.n_layers}"
        )
    if spec.max_length > encoder.encoder.max_length:
        raise IsotropyError(
            f"max_length: {spec.embedding} reads at most {encoder.encoder.max_length} tokens"
        )
    encoded = encoder.tokenizer(*columns, truncation=True, max_length=spec.max_length)
    ids, types = encoded["input_ids"], encoded.get("token_type_ids")
    size = max(1, spec.token_budget // spec.max_length)
    todo = [list(range(a, min(a + size, len(ids)))) for a in range(0, len(ids), size)]

    def read(rows: list[int]) -> torch.Tensor:
        of_rows = None if types is None else [types[i] for i in rows]
        return encoder.encode_padded([ids[i] for i in rows], of_rows, spec.layer, spec.max_length)

    parts = map_batches(read, todo, workers, encoder.device)
    return Features(torch.cat(parts).numpy(), np.array([len(row) for row in ids]), targets)


class Classified(NamedTuple):
    """Tables of scores and of the answers to each item."""

    rows: pd.DataFrame
    answers: pd.DataFrame


def classify(train: Features, validation: Features, spec: ClassifySpec) -> Classified:
    """Scores of each method, kind of clustering, classifier and seed.

    Returns:
        One row per method (none, abtt, kmeans, ...), clustering (transductive, inductive; none for
        method none), classifier (mlp, logistic), seed and epoch (0: the logistic regression): all
        scores and the loss (mean cross-entropy in nats, MLP alone) on the validation set, and log10
        of I(W) of the token vectors of both sets, padding included. And per item of the validation
        set, with the same keys: predicted and right class, for the bootstrap over items.
    """
    rows: list[dict[str, Any]] = []
    answers: list[pd.DataFrame] = []
    for method in spec.methods:
        for clustering in ("none",) if method == "none" else ("transductive", "inductive"):
            inductive = clustering == "inductive"
            for seed in spec.seeds:
                # The rest does not depend on the seed
                if seed == spec.seeds[0] or method in CLUSTERED:
                    step = _step(method, spec.parameters, seed)
                    known, new = post_processed(
                        train.tokens, validation.tokens, step, spec, inductive=inductive
                    )
                    isotropy = log10_isotropy(
                        np.concatenate([known, new]).reshape(-1, known.shape[2])
                    )
                    control = _logistic(
                        train._replace(tokens=known), validation._replace(tokens=new)
                    )
                key = {"method": method, "clustering": clustering, "seed": seed}
                epochs = _mlp(known, train.targets, new, spec.mlp, seed)
                for own, predicted in (
                    *_of_mlp(epochs, validation.targets),
                    ({"classifier": "logistic", "epoch": 0, "loss": math.nan}, control),
                ):
                    scores = _scores(predicted, validation.targets)
                    rows.append({**key, "log10_isotropy": isotropy, **own, **scores})
                    answers.append(_answers(key | own, predicted, validation.targets))
    return Classified(pd.DataFrame(rows), pd.concat(answers, ignore_index=True))


def _answers(key: dict[str, Any], predicted: np.ndarray, right: np.ndarray) -> pd.DataFrame:
    """A row per item. Classes are 0 and 1."""
    own = {name: key[name] for name in ("method", "clustering", "classifier", "seed", "epoch")}
    sides = {"predicted": predicted.astype(np.int8), "right": right.astype(np.int8)}
    return pd.DataFrame({**own, "item": np.arange(len(right), dtype=np.int32), **sides})


def post_processed(
    known: np.ndarray, new: np.ndarray, step: Step, spec: ClassifySpec, *, inductive: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Token vectors of training and of new items after a method, shapes as before.

    Args:
        known: of training items, shape (n, T, d).
        new: of validation items, shape (m, T, d).
        step: the method.
        spec: how clusters are found.
        inductive: learn from the training items alone.

    Raises:
        IsotropyError: more clusters or components than there is room for.
    """
    transform = estimator(step, spec.clusterer)
    if transform is None:
        return known, new
    flat, other = known.reshape(-1, known.shape[2]), new.reshape(-1, new.shape[2])
    try:
        transform.fit(flat if inductive else np.concatenate([flat, other]))
    except ValueError as error:
        raise IsotropyError(f"{step.method}: {error}") from error
    before, after = transform.transform(flat), transform.transform(other)
    return before.reshape(known.shape), after.reshape(new.shape)


def _step(method: MethodName, parameters: Parameters, seed: int) -> Step:
    clusters = parameters.n_clusters if method in CLUSTERED else None
    removed = {
        "abtt": parameters.n_components_global,
        "gmm": parameters.n_components,
        "kmeans": parameters.n_components,
    }.get(method)
    return Step(method, clusters, removed, seed)


def _mlp(
    known: np.ndarray, targets: np.ndarray, new: np.ndarray, mlp: Mlp, seed: int
) -> list[torch.Tensor]:
    """Logits of new items after each epoch: one hidden layer, ReLU, one logistic unit, as Keras
    initializes them.
    """
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(known.reshape(len(known), -1)), torch.from_numpy(targets).float()
    unseen = aligned(torch.from_numpy(new.reshape(len(new), -1)))
    hidden, out = torch.nn.Linear(x.shape[1], mlp.hidden), torch.nn.Linear(mlp.hidden, 1)
    for layer in (hidden, out):
        torch.nn.init.xavier_uniform_(layer.weight, generator=generator)
        torch.nn.init.zeros_(layer.bias)
    parameters = [*hidden.parameters(), *out.parameters()]
    # Keras' epsilon
    adam = torch.optim.Adam(parameters, lr=mlp.learning_rate, eps=1e-7, fused=True)
    found = []
    for _ in range(mlp.epochs):
        for rows in torch.split(torch.randperm(len(x), generator=generator), mlp.batch_size):
            loss = functional.binary_cross_entropy_with_logits(
                out(torch.relu(hidden(x[rows])))[:, 0], y[rows]
            )
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        with torch.inference_mode():
            found.append(out(torch.relu(hidden(unseen)))[:, 0])
    return found


def _of_mlp(
    epochs: list[torch.Tensor], targets: np.ndarray
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Each epoch with its loss, and the classes that it predicts."""
    goal = torch.from_numpy(targets).float()
    for epoch, logits in enumerate(epochs, start=1):
        loss = functional.binary_cross_entropy_with_logits(logits, goal)
        about = {"classifier": "mlp", "epoch": epoch, "loss": float(loss)}
        yield about, (logits > 0).long().numpy()


def _logistic(train: Features, validation: Features) -> np.ndarray:
    """Predicted classes of new items by a logistic regression on standardized means of tokens."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(
        _means(train), train.targets
    )
    predicted: np.ndarray = model.predict(_means(validation))
    return predicted


def _means(part: Features) -> np.ndarray:
    mask = np.arange(part.tokens.shape[1]) < part.lengths[:, None]
    sums = np.einsum("ntd,nt->nd", part.tokens, mask.astype(np.float32))
    means: np.ndarray = sums / part.lengths[:, None]
    return means


def _scores(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    return classification_scores(predicted, targets, 2)
