"""Classification on frozen features (Rajaee & Pilehvar 2021, section 4.2): the authors' MLP, and a
linear control.

The features of an item are the concatenated vectors of its first tokens, special tokens and padding
included, as in the authors' notebook. The authors cluster the tokens of training and validation
items together (transductive); the inductive variant learns clusters and components from the
training items only. The control is a logistic regression on the mean of an item's tokens without
padding.
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

from isotropy.errors import IsotropyError
from isotropy.metrics.validation import aligned
from isotropy.models.batches import pick_token_budget
from isotropy.models.sentence_encoder import SentenceEncoder, map_batches
from replication.finetune.scores import classification_scores
from replication.similarity.post_processing import Step, estimator, log10_isotropy
from replication.similarity.spec import CLUSTERED, ClassifySpec, MethodName, Mlp, Parameters


class Features(NamedTuple):
    """Frozen features of the items of a data set.

    Attributes:
        tokens: token vectors, padding included, shape (n, T, d), float32.
        lengths: number of tokens of each item without padding, shape (n,).
        targets: class of each item, shape (n,).
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
    """Compute the token vectors of items.

    Args:
        encoder: the model.
        columns: one list with the first text of each item; for pairs, another with the second.
        targets: class of each item, shape (n,).
        spec: layer, maximum length and batch size.
        workers: number of CPU threads. Does not change the result.

    Raises:
        IsotropyError: the model does not have the layer, or cannot read max_length tokens.
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
    size = max(1, pick_token_budget(spec.token_budget, encoder.device.type) // spec.max_length)
    batches = [list(range(a, min(a + size, len(ids)))) for a in range(0, len(ids), size)]

    def encode_batch(rows: list[int]) -> torch.Tensor:
        batch_types = None if types is None else [types[i] for i in rows]
        return encoder.encode_padded(
            [ids[i] for i in rows], batch_types, spec.layer, spec.max_length
        )

    parts = map_batches(encode_batch, batches, workers, encoder.device)
    return Features(torch.cat(parts).numpy(), np.array([len(row) for row in ids]), targets)


class Classified(NamedTuple):
    """Tables of scores, and of the predicted class of each item (`answers`)."""

    rows: pd.DataFrame
    answers: pd.DataFrame


def classify(train: Features, validation: Features, spec: ClassifySpec) -> Classified:
    """Train and score classifiers for each method, kind of clustering and seed.

    Returns:
        rows: one per method (none, abtt, kmeans, ...), clustering (transductive, inductive; none
            for method none), classifier (mlp, logistic), seed and epoch (0 for the logistic
            regression): all scores and the loss on the validation set (mean cross-entropy in nats,
            for the MLP only), and log10 I(W) of the token vectors of both sets, padding included.
        answers: one row per item of the validation set with the same keys, and the predicted and
            the right class, for the bootstrap over items.
    """
    rows: list[dict[str, Any]] = []
    answers: list[pd.DataFrame] = []
    for method in spec.methods:
        for clustering in ("none",) if method == "none" else ("transductive", "inductive"):
            inductive = clustering == "inductive"
            for seed in spec.seeds:
                # Methods that do not cluster do not depend on the seed: compute them once
                if seed == spec.seeds[0] or method in CLUSTERED:
                    step = _step(method, spec.parameters, seed)
                    train_tokens, validation_tokens = post_processed(
                        train.tokens, validation.tokens, step, spec, inductive=inductive
                    )
                    isotropy = log10_isotropy(
                        np.concatenate([train_tokens, validation_tokens]).reshape(
                            -1, train_tokens.shape[2]
                        )
                    )
                    logistic_predicted = _logistic(
                        train._replace(tokens=train_tokens),
                        validation._replace(tokens=validation_tokens),
                    )
                key = {"method": method, "clustering": clustering, "seed": seed}
                epochs = _mlp_logits(train_tokens, train.targets, validation_tokens, spec.mlp, seed)
                for columns, predicted in (
                    *_mlp_predictions(epochs, validation.targets),
                    ({"classifier": "logistic", "epoch": 0, "loss": math.nan}, logistic_predicted),
                ):
                    scores = _scores(predicted, validation.targets)
                    rows.append({**key, "log10_isotropy": isotropy, **columns, **scores})
                    answers.append(_answers(key | columns, predicted, validation.targets))
    return Classified(pd.DataFrame(rows), pd.concat(answers, ignore_index=True))


def _answers(key: dict[str, Any], predicted: np.ndarray, right: np.ndarray) -> pd.DataFrame:
    """Return a row per item, with the predicted and the right class (0 or 1)."""
    key_columns = {
        name: key[name] for name in ("method", "clustering", "classifier", "seed", "epoch")
    }
    class_columns = {"predicted": predicted.astype(np.int8), "right": right.astype(np.int8)}
    return pd.DataFrame(
        {**key_columns, "item": np.arange(len(right), dtype=np.int32), **class_columns}
    )


def post_processed(
    train: np.ndarray, validation: np.ndarray, step: Step, spec: ClassifySpec, *, inductive: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Post-process the token vectors of training and validation items; shapes do not change.

    Args:
        train: token vectors of training items, shape (n, T, d).
        validation: token vectors of validation items, shape (m, T, d).
        step: the method with its parameters.
        spec: settings of the clustering.
        inductive: whether to learn from the training items only.

    Raises:
        IsotropyError: there are more clusters or components than the vectors allow.
    """
    transform = estimator(step, spec.clusterer)
    if transform is None:
        return train, validation
    flat_train, flat_validation = (
        train.reshape(-1, train.shape[2]),
        validation.reshape(-1, validation.shape[2]),
    )
    try:
        transform.fit(flat_train if inductive else np.concatenate([flat_train, flat_validation]))
    except ValueError as error:
        raise IsotropyError(f"{step.method}: {error}") from error
    train_after, validation_after = (
        transform.transform(flat_train),
        transform.transform(flat_validation),
    )
    return train_after.reshape(train.shape), validation_after.reshape(validation.shape)


def _step(method: MethodName, parameters: Parameters, seed: int) -> Step:
    clusters = parameters.n_clusters if method in CLUSTERED else None
    n_removed = {
        "abtt": parameters.n_components_global,
        "gmm": parameters.n_components,
        "kmeans": parameters.n_components,
    }.get(method)
    return Step(method, clusters, n_removed, seed)


def _mlp_logits(
    train_tokens: np.ndarray,
    targets: np.ndarray,
    validation_tokens: np.ndarray,
    mlp: Mlp,
    seed: int,
) -> list[torch.Tensor]:
    """Train the authors' MLP (one hidden layer, ReLU, one logistic unit, initialized as by Keras),
    and return the logits of the validation items after each epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    x, y = (
        torch.from_numpy(train_tokens.reshape(len(train_tokens), -1)),
        torch.from_numpy(targets).float(),
    )
    x_validation = aligned(torch.from_numpy(validation_tokens.reshape(len(validation_tokens), -1)))
    hidden, output = torch.nn.Linear(x.shape[1], mlp.hidden), torch.nn.Linear(mlp.hidden, 1)
    for layer in (hidden, output):
        torch.nn.init.xavier_uniform_(layer.weight, generator=generator)
        torch.nn.init.zeros_(layer.bias)
    parameters = [*hidden.parameters(), *output.parameters()]
    # eps as in Keras
    adam = torch.optim.Adam(parameters, lr=mlp.learning_rate, eps=1e-7, fused=True)
    logits = []
    for _ in range(mlp.epochs):
        for rows in torch.split(torch.randperm(len(x), generator=generator), mlp.batch_size):
            loss = functional.binary_cross_entropy_with_logits(
                output(torch.relu(hidden(x[rows])))[:, 0], y[rows]
            )
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        with torch.inference_mode():
            logits.append(output(torch.relu(hidden(x_validation)))[:, 0])
    return logits


def _mlp_predictions(
    epochs: list[torch.Tensor], targets: np.ndarray
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield, for each epoch, its columns (classifier, epoch, loss) and the predicted classes."""
    expected = torch.from_numpy(targets).float()
    for epoch, logits in enumerate(epochs, start=1):
        loss = functional.binary_cross_entropy_with_logits(logits, expected)
        columns = {"classifier": "mlp", "epoch": epoch, "loss": float(loss)}
        yield columns, (logits > 0).long().numpy()


def _logistic(train: Features, validation: Features) -> np.ndarray:
    """Predict classes of validation items by logistic regression on standardized token means."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(
        _means(train), train.targets
    )
    predicted: np.ndarray = model.predict(_means(validation))
    return predicted


def _means(split: Features) -> np.ndarray:
    mask = np.arange(split.tokens.shape[1]) < split.lengths[:, None]
    sums = np.einsum("ntd,nt->nd", split.tokens, mask.astype(np.float32))
    means: np.ndarray = sums / split.lengths[:, None]
    return means


def _scores(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    return classification_scores(predicted, targets, 2)
