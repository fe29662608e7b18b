"""In sentence-transformers: penalties beside its losses, an evaluator, transforms as modules."""

from __future__ import annotations

import base64
import csv
import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.torch
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import uses_gradient_cache
from sentence_transformers.base.modules import Dense, Module, Transformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from sklearn.utils.validation import check_is_fitted
from torch import nn
from transformers import TrainerCallback

from isotropy.losses import IStarLoss, Penalty
from isotropy.metrics.cosines import mean_cosine, mean_cosine_standard_error
from isotropy.metrics.isoscores import isoscore, isoscore_standard_error
from isotropy.metrics.matmul import full_precision
from isotropy.metrics.unbiased import isoscore_unbiased, isoscore_unbiased_standard_error
from isotropy.metrics.validation import without_conversion
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, Whitening

log = logging.getLogger(__name__)
LIBRARY = "sentence_transformers."
MIN_TEXTS = 5
METRICS: dict[str, Callable[[np.ndarray], Any]] = {
    "isoscore": isoscore,
    "isoscore_error": isoscore_standard_error,
    "isoscore_unbiased": isoscore_unbiased,
    "isoscore_unbiased_error": isoscore_unbiased_standard_error,
    "mean_cosine": mean_cosine,
    "mean_cosine_error": mean_cosine_standard_error,
}
"""Metrics of `IsotropyEvaluator`."""

Features = dict[str, Any]


class PenalizedLoss(nn.Module):
    """A loss of sentence-transformers and a penalty on the vectors that it computes anyway: texts
    are encoded once.

    The vectors of all columns of a batch (anchors, positives, …) are one cloud. Wrap the outermost
    loss: one with Matryoshka or adaptive layers inside is handled, and the penalty is that of the
    whole vectors of the complete model. Vectors of other models, such as the copy that
    `ContrastiveTensionLoss` encodes the first column with, are not in the cloud.

    Args:
        model: the model that is trained.
        loss: any loss of the library that does not cache gradients.
        penalty: an `IStarLoss`, `UnbiasedIsoScoreLoss` or `CosRegLoss`, whose `layers` choose the
            hidden layers. For zeta > 0, I-STAR needs `estimate_shrinkage` or `ReestimateShrinkage`.
        of: "tokens" of hidden layers, or "sentences": the output of the model, for which `layers`
            are ignored.

    Returns:
        In training, `task_loss` and `penalty`, which the library's trainer adds and logs apart; in
        evaluation `task_loss` alone.

    Raises:
        ValueError: a loss that caches gradients: it encodes without gradients first, and in parts
            during the backward pass, so that no cloud has gradients.

    Source:
        Rudman & Eickhoff (2024), section 3.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: nn.Module,
        penalty: Penalty,
        of: Literal["tokens", "sentences"] = "tokens",
    ) -> None:
        super().__init__()
        if any(uses_gradient_cache(module) for module in loss.modules()):
            raise ValueError(
                f"{type(loss).__name__} caches gradients, so that the vectors of a batch never "
                "have gradients together: use the loss without cache, and gradient accumulation"
            )
        if any(isinstance(module, PenalizedLoss) for module in loss.modules()):
            raise ValueError("the loss has a penalty already, and its part would be lost")
        if of == "tokens" and not _transformers(model):
            raise ValueError('the model has no transformer with hidden layers: of="sentences"')
        if of not in ("tokens", "sentences"):
            raise ValueError(f'of must be "tokens" or "sentences", got {of!r}')
        self.model, self.loss, self.penalty, self.of = model, loss, penalty, of

    def forward(
        self, sentence_features: Iterable[Features], labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Return the parts of the loss of a batch.

        Args:
            sentence_features: tokenized texts of each column.
            labels: as the wrapped loss takes them.

        Raises:
            ValueError: it is inside of a loss with Matryoshka or adaptive layers.
        """
        model = _unwrapped(self.model)
        if any(type(m.forward).__module__.startswith(LIBRARY) for m in (model, *model)):
            raise ValueError(
                "a penalized loss must be the outermost: wrap the Matryoshka or adaptive loss, as "
                "in PenalizedLoss(model, MatryoshkaLoss(model, loss, dims), penalty)"
            )
        if not self.model.training:
            return _parts(self.loss(sentence_features, labels))
        with self._captured_vectors() as clouds:
            parts = _parts(self.loss(sentence_features, labels))
        on_one_device = [cloud.to(clouds[0].device) for cloud in clouds]
        return parts | {"penalty": self.penalty.penalty(torch.cat(on_one_device))}

    @torch.no_grad()
    def estimate_shrinkage(
        self, texts: Sequence[str], n_vectors: int = 250_000, batch_size: int = 32
    ) -> int:
        """Estimate Sigma_S of I-STAR anew from texts, in evaluation mode, as at the start of each
        epoch (the authors: 250,000 vectors). Returns the number of vectors in the estimate.

        Raises:
            ValueError: no texts.
        """
        if not isinstance(self.penalty, IStarLoss):
            return 0
        if not len(texts):
            raise ValueError("Sigma_S needs texts to be estimated from, got none")
        model, was_training = _unwrapped(self.model), self.model.training
        self.penalty.reset_shrinkage()
        self.model.eval()
        for start in range(0, len(texts), batch_size):
            features = model.preprocess(list(texts[start : start + batch_size]))
            on_device = {
                k: v.to(model.device) if isinstance(v, torch.Tensor) else v
                for k, v in features.items()
            }
            with self._captured_vectors() as clouds:
                model(on_device)
            self.penalty.shrinkage.update(torch.cat(clouds))
            if int(self.penalty.shrinkage.n) > n_vectors:
                break
        self.model.train(was_training)
        return int(self.penalty.shrinkage.n)

    @contextmanager
    def _captured_vectors(self) -> Iterator[list[torch.Tensor]]:
        """Collect the vectors of each batch that the model encodes, shape (n, d), by a hook on its
        last module.
        """
        model, clouds = _unwrapped(self.model), []
        seen: list[Any] = []  # adaptive layers pool the same hidden states several times

        def capture(_: nn.Module, inputs: tuple[Features, ...], output: Features) -> None:
            states = output.get("all_layer_embeddings", output)
            if any(states is other for other in seen):
                return
            seen.append(states)
            if self.of == "sentences":
                clouds.append(output["sentence_embedding"])
            else:
                clouds.append(self.penalty.tokens(states, output.get("attention_mask")))

        configs = [transformer.model.config for transformer in _transformers(model)]
        before = [config.output_hidden_states for config in configs]
        if self.of == "tokens":
            for config in configs:
                config.output_hidden_states = True
        hook = model[-1].register_forward_hook(capture)
        try:
            yield clouds
        finally:
            hook.remove()
            for config, value in zip(configs, before, strict=True):
                config.output_hidden_states = value


def _parts(loss: torch.Tensor | dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return loss if isinstance(loss, dict) else {"task_loss": loss}


def _unwrapped(model: Any) -> Any:
    """Return the model that the library's trainer may have wrapped for several processes."""
    return getattr(model, "module", model)


def _transformers(model: Any) -> list[Any]:
    """Return the modules of a model that run a transformer: several for routes of their own."""
    return [m for m in _unwrapped(model).modules() if isinstance(m, Transformer)]


class ReestimateShrinkage(TrainerCallback):
    """Estimates Sigma_S of I-STAR at the start of each epoch: a callback of the library's trainer.

    The estimate is saved in the trainer's state, about 11 d² bytes of `trainer_state.json`, from
    which a run takes it that is resumed within an epoch.

    Args:
        loss: the loss that is trained with.
        texts: training texts.
        n_vectors: as in `PenalizedLoss.estimate_shrinkage`.
    """

    def __init__(self, loss: PenalizedLoss, texts: Sequence[str], n_vectors: int = 250_000) -> None:
        self.loss, self.texts, self.n_vectors = loss, texts, n_vectors
        # What tells its estimate from those of other callbacks of the trainer
        settings = loss.of, loss.penalty.layers, loss.penalty.keep_padding, n_vectors, list(texts)

        self._resumes_epoch = False
        self._key = f"Sigma_S {hashlib.sha256(repr(settings).encode()).hexdigest()[:16]}"

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Note whether a run is resumed within an epoch."""
        self._resumes_epoch = state.epoch % 1 > 0

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Estimate Sigma_S, or restore it within an epoch."""
        penalty, saved = self.loss.penalty, state.stateful_callbacks
        if not isinstance(penalty, IStarLoss):
            return
        if self._resumes_epoch and self._key in saved:
            tensors = safetensors.torch.load(base64.b64decode(saved[self._key]))
            penalty.shrinkage.load_state_dict(tensors)
        else:
            self.loss.estimate_shrinkage(self.texts, self.n_vectors)
            content = safetensors.torch.save(penalty.shrinkage.state_dict())
            saved[self._key] = base64.b64encode(content).decode()
        self._resumes_epoch = False


class IsotropyEvaluator(SentenceEvaluator):
    """Isotropy of the embeddings of texts: IsoScore, IsoScore without bias and mean cosine, each
    with its standard error over texts; NaN, with a warning in the log, where one is not defined, as
    for a model that gives all texts one vector.

    Args:
        texts: the texts, at least five.
        name: prefix of the metrics.
        batch_size: number of texts that are encoded at a time.
        write_csv: whether to append a row to `isotropy_evaluation_NAME_results.csv`.

    Raises:
        ValueError: fewer than five texts.
    """

    def __init__(
        self, texts: Sequence[str], name: str = "", batch_size: int = 32, write_csv: bool = True
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if len(texts) < MIN_TEXTS:
            raise ValueError(f"need at least {MIN_TEXTS} texts, got {len(texts)}")
        self.texts, self.name, self.batch_size = list(texts), name, batch_size
        self.write_csv = write_csv
        self.primary_metric = "isoscore"
        label = f"_{name}" if name else ""
        self.csv_file = f"isotropy_evaluation{label}_results.csv"

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the metrics of a model; see the library's own evaluators."""
        vectors = model.encode(self.texts, batch_size=self.batch_size, show_progress_bar=False)
        metrics = {}
        for name, metric in METRICS.items():
            try:
                metrics[name] = float(metric(vectors))
            except ValueError as error:
                metrics[name] = math.nan
                log.warning("%s of %s is not defined: %s", name, self.name or "the texts", error)
        log.info("isotropy of %s: %s", self.name or "the texts", metrics)
        if output_path is not None and self.write_csv:
            self._append(Path(output_path), {"epoch": epoch, "steps": steps, **metrics})
        metrics = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    def _append(self, folder: Path, row: dict[str, float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        is_new = not (folder / self.csv_file).is_file()
        with (folder / self.csv_file).open("a", newline="", encoding="utf8") as stream:
            writer = csv.DictWriter(stream, row)
            if is_new:
                writer.writeheader()
            writer.writerow(row)


def as_dense(transform: Center | AllButTheTop | Whitening) -> Dense:
    """Return a fitted affine transform as the library's own `Dense`, which it loads without trust
    in code of others: `model.append(as_dense(transform))`.

    Args:
        transform: fitted to embeddings of the model, shape (n, d).

    Raises:
        ValueError: a transform that is not affine, or not fitted.
    """
    if not isinstance(transform, Center | AllButTheTop | Whitening):
        raise ValueError(
            f"expected Center, AllButTheTop or Whitening, got {type(transform).__name__}, which is "
            "not affine: ClusterEnhancementModule takes a ClusterBasedEnhancement"
        )
    check_is_fitted(transform)
    d = len(transform.mean_)
    matrix = np.eye(d)
    if isinstance(transform, AllButTheTop):
        matrix -= transform.components_.T @ transform.components_
    elif isinstance(transform, Whitening):
        matrix = transform.matrix_
    bias = -transform.mean_ @ matrix
    return Dense(
        d,
        d,
        activation_function=nn.Identity(),
        init_weight=torch.tensor(matrix.T, dtype=torch.float32),
        init_bias=torch.tensor(bias, dtype=torch.float32),
    )


class ClusterEnhancementModule(Module):
    """A fitted `ClusterBasedEnhancement` (by k-means) as the last module of a model.

    sentence-transformers loads a model with this module only with `trust_remote_code=True`, since
    it is not one of its own; that would also run code in the model's folder. To load weights alone,
    save the transform by `isotropy.transform_files.save_transform` and append this module to the
    model without it.

    Args:
        n_clusters, d, n_components: shape of `components`, for loading.
    """

    config_keys = ["n_clusters", "d", "n_components"]
    centers: torch.Tensor
    means: torch.Tensor
    components: torch.Tensor

    def __init__(self, n_clusters: int, d: int, n_components: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_clusters, self.d, self.n_components = n_clusters, d, n_components
        self.register_buffer("centers", torch.zeros(n_clusters, d))
        self.register_buffer("means", torch.zeros(n_clusters, d))
        self.register_buffer("components", torch.zeros(n_clusters, n_components, d))

    def _apply(
        self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> ClusterEnhancementModule:
        """Move to the device of a model with it, but stay in single precision."""
        super()._apply(without_conversion(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    @classmethod
    def of(cls, transform: ClusterBasedEnhancement) -> ClusterEnhancementModule:
        """Return the module of a fitted transform.

        Raises:
            ValueError: a transform that is not fitted, or a mixture, whose clusters are not given
                by their centres.
        """
        check_is_fitted(transform)
        if transform.clusterer != "kmeans":
            raise ValueError("clusters of a mixture: fit with clusterer='kmeans'")
        n_clusters, d = transform.centers_.shape
        module = cls(n_clusters, d, max(map(len, transform.components_)))
        module.centers.copy_(torch.from_numpy(transform.centers_))
        module.means.copy_(torch.from_numpy(transform.means_))
        for c, components in enumerate(transform.components_):
            module.components[c, : len(components)] = torch.from_numpy(components)
        return module

    @full_precision
    def forward(self, features: Features, **_: Any) -> Features:
        """Enhance sentence embeddings, shape (B, d), in single precision at least."""
        embeddings = features["sentence_embedding"]
        x = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        mode = "donot_use_mm_for_euclid_dist"
        labels = torch.cdist(x, self.centers.to(x), compute_mode=mode).argmin(dim=1)
        centred, components = x - self.means.to(x)[labels], self.components.to(x)[labels]
        along = torch.einsum("bkd,bd->bk", components, centred)
        enhanced = centred - torch.einsum("bk,bkd->bd", along, components)
        features["sentence_embedding"] = enhanced.to(embeddings.dtype)
        return features

    def get_embedding_dimension(self) -> int:
        """Return d."""
        return self.d

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **named: Any
    ) -> None:
        """Save the module in a folder, as safetensors."""
        self.save_config(output_path)
        self.save_torch_weights(output_path)

    @classmethod
    def load(  # type: ignore[override]
        cls, model_name_or_path: str, subfolder: str = "", **options: Any
    ) -> Any:
        """Load the module from a folder or a hub."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        hub = {"subfolder": subfolder} | {n: options[n] for n in names if n in options}
        module = cls(**cls.load_config(model_name_or_path, **hub))
        return cls.load_torch_weights(model_name_or_path, model=module, **hub)
