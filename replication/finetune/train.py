"""Training loop of fine-tuning with a penalty on the geometry of hidden states (Rudman & Eickhoff
2024, section 3).

The penalty is added to the loss of the task. For I-STAR it is lambda (1 - IsoScore*(all token
vectors of all layers, zeta, Sigma_S)), where the shrinkage covariance Sigma_S is estimated at the
start of every epoch from training tokens in evaluation mode. For CosReg it is lambda times the mean
cosine of the tokens of the last layer.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from tqdm import tqdm

from isotropy.checkpoint import CheckpointTimer, read_checkpoint
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.losses import CosRegLoss, IStarLoss, UnbiasedIsoScoreLoss
from isotropy.models.loading import avoid_reading_masks
from replication.finetune.data import Batch, Inputs, collate
from replication.finetune.model import task_loss
from replication.finetune.spec import FinetuneSpec, Training

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = 5.0
"""Minimum time between checkpoints in seconds; results do not depend on it."""
READ_EVERY = 20
"""Updates between two readings of losses and scores: to read a number, a GPU must be waited for."""
CHECKPOINT_PAUSE = 50  # pause between checkpoints as a multiple of the time that one takes
EPSILON = 1e-6  # of AdamW: the default of the authors' implementation


def finetune(
    spec: FinetuneSpec, model: Any, inputs: Inputs, pad: int, device: torch.device, work: Path
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Fine-tune a model in place.

    Args:
        spec: method and hyper-parameters.
        model: an encoder with a head (`replication.finetune.model.load_model`), on the CPU.
        inputs: the training items.
        pad: id of the padding token.
        device: device on which to compute.
        work: folder of the checkpoint from which a killed run is resumed; on the CPU the results
            are byte-identical to those of an uninterrupted run.

    Returns:
        One row per update (update, epoch, learning_rate, loss, score), where `loss` is the loss of
        the task alone and `score` is the quantity in the penalty: IsoScore*, IsoScore without bias
        or the mean cosine of the batch, NaN without a penalty; and measurements of this run, such
        as its speed.

    Raises:
        IsotropyError: loss, hidden states or parameters are not finite, or the precision is float16
            without a GPU.
    """
    run = TrainingRun(spec, model, inputs, pad, device)
    checkpoint = work / "checkpoint.safetensors"
    run.resume(checkpoint)
    first_update = run.update
    if first_update:
        log.info("resuming from update %d of an interrupted run", first_update)
    started = perf_counter()
    _train_to_end(run, checkpoint)
    run.require_finite_parameters()
    seconds = perf_counter() - started
    return pd.DataFrame(run.rows), {
        "device": str(device),
        "updates_taken_up_from_a_killed_run": first_update,
        "seconds": round(seconds, 3),
        "seconds_in_shrinkage_covariance": round(run.shrinkage_seconds, 3),
        "updates_per_second": round((run.updates - first_update) / seconds, 3),
    }


def _train_to_end(run: TrainingRun, checkpoint: Path) -> None:
    """Make all remaining updates; show progress and save checkpoints regularly."""
    last_logged = perf_counter()
    pace = CheckpointTimer(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE)
    quiet = not sys.stderr.isatty()
    with tqdm(
        total=run.updates, initial=run.update, unit="update", disable=quiet, desc=run.spec.run
    ) as bar:
        while run.update < run.updates:
            if pace.due():
                save_started = perf_counter()
                run.save(checkpoint)
                pace.note_saved(save_started)
            run.step()
            bar.update()
            if quiet and perf_counter() - last_logged > LOG_SECONDS:
                run.read_rows()
                last_logged, row = perf_counter(), run.rows[-1]
                # Without a penalty there is no score
                score = "" if math.isnan(row["score"]) else f", score {row['score']:.4f}"
                message = "update %d of %d: loss %.4f%s"
                log.info(message, run.update, run.updates, row["loss"], score)


class TrainingRun:
    """State of a run between two updates: model, optimizer and penalty.

    Attributes:
        rows: results of each update whose numbers have been read.
        unread: the same of the others, with loss and penalty on the device, shape (2,).
    """

    def __init__(
        self, spec: FinetuneSpec, model: Any, inputs: Inputs, pad: int, device: torch.device
    ) -> None:
        training = spec.training
        require_precision(training, device)
        self.spec, self.training = spec, training
        self.inputs, self.pad, self.device = inputs, pad, device
        self.length = training.max_length if training.pad_to_max_length else None
        self.model = model.to(device)
        if device.type != "cpu":
            avoid_reading_masks(self.model)
        self.parameters = dict(model.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            eps=EPSILON,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "float16")
        penalty = make_penalty(spec, int(model.config.hidden_size))
        self.penalty = penalty if penalty is None else penalty.to(device)
        self.updates_per_epoch = math.ceil(len(inputs) / training.batch_size)
        self.updates = self.updates_per_epoch * training.epochs
        self.update = 0
        self.order: np.ndarray | None = None
        self.shrinkage_seconds = 0.0
        self.rows: list[dict[str, float]] = []
        self.unread: list[tuple[dict[str, float], torch.Tensor]] = []

    def step(self) -> None:
        """Make one update of the parameters; at the start of an epoch, first estimate the shrinkage
        covariance. Loss and score are read every READ_EVERY updates.
        """
        epoch, position = divmod(self.update, self.updates_per_epoch)
        if self.order is None or position == 0:
            generator = np.random.default_rng([self.spec.seed, epoch])
            self.order = generator.permutation(len(self.inputs))
        order, size = self.order, self.training.batch_size
        if position == 0:
            self.read_rows()  # so that a divergence is found at its update, not here
            self._estimate_shrinkage(order)
        batch_rows = order[position * size : (position + 1) * size]
        batch = self._batch(batch_rows)
        rate = self._learning_rate()
        self.optimizer.param_groups[0]["lr"] = rate
        self.model.train()
        with self._autocast():
            outputs = self.model(
                **batch.model_inputs, output_hidden_states=self.penalty is not None
            )
            loss = task_loss(outputs, batch).float()
        total, penalty_value = loss, torch.zeros_like(loss)
        if self.penalty is not None:
            penalty_value = self.penalty(outputs.hidden_states, positions=batch.positions)
            total = loss + penalty_value
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(total).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimizer)
        if self.training.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.training.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.update += 1
        row = {"update": self.update, "epoch": epoch, "learning_rate": rate}
        self.unread.append((row, torch.stack([loss.detach(), penalty_value.detach()])))
        if len(self.unread) == READ_EVERY or self.update == self.updates:
            self.read_rows()

    def _batch(self, rows: np.ndarray) -> Batch:
        """Collect training items in a padded batch."""
        return collate(self.inputs, rows, self.pad, self.device, self.length)

    def read_rows(self) -> None:
        """Read the losses and scores of the last updates from the device.

        Raises:
            IsotropyError: one of them is not finite.
        """
        if not self.unread:
            return
        values = torch.stack([value for _, value in self.unread]).tolist()
        for (row, _), (loss, penalty_value) in zip(self.unread, values, strict=True):
            if not math.isfinite(loss):
                raise self._divergence_error("the loss is not finite", int(row["update"]))
            if not math.isfinite(penalty_value):
                raise self._divergence_error(
                    "the penalty is not finite: hidden states are NaN, infinite or all equal",
                    int(row["update"]),
                )
            self.rows.append(row | {"loss": loss, "score": self._penalized_score(penalty_value)})
        self.unread = []

    def save(self, path: Path) -> None:
        """Save a checkpoint: parameters, Adam's moments, shrinkage covariance, states of the random
        generators, and the rows so far.
        """
        self.read_rows()
        tensors = {f"parameter.{name}": p.detach() for name, p in self.parameters.items()}
        for name, p in self.parameters.items():
            tensors |= {
                f"adam.{name}.{key}": value for key, value in self.optimizer.state[p].items()
            }
        if self.penalty is not None:
            tensors |= {f"penalty.{key}": value for key, value in self.penalty.state_dict().items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(self.device)
        metadata = {
            "update": str(self.update),
            "rows": json.dumps(self.rows),
            "scaler": json.dumps(self.scaler.state_dict()),
        }
        with atomic(path) as temporary:
            save_file(
                {key: value.contiguous() for key, value in tensors.items()},
                temporary,
                metadata=metadata,
            )

    def resume(self, path: Path) -> None:
        """Restore the state from a checkpoint, if there is one."""
        if not path.is_file():
            return
        tensors, metadata = read_checkpoint(path)
        with torch.no_grad():
            for name, p in self.parameters.items():
                p.copy_(tensors[f"parameter.{name}"])
                prefix = f"adam.{name}."
                state = {
                    key.removeprefix(prefix): value
                    for key, value in tensors.items()
                    if key.startswith(prefix)
                }
                if state:  # parameters without gradient have no state
                    self.optimizer.state[p] = {k: v.to(self.device) for k, v in state.items()}
        if self.penalty is not None:
            penalty_state = {
                k.removeprefix("penalty."): v
                for k, v in tensors.items()
                if k.startswith("penalty.")
            }
            self.penalty.load_state_dict(penalty_state)
        self.scaler.load_state_dict(json.loads(metadata["scaler"]))
        torch.set_rng_state(tensors["generator.cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["generator.cuda"], self.device)
        self.update, self.rows = int(metadata["update"]), json.loads(metadata["rows"])

    @torch.no_grad()
    def _estimate_shrinkage(self, order: np.ndarray) -> None:
        """Estimate Sigma_S from training tokens in the order of the epoch, in evaluation mode and
        float32.
        """
        if not isinstance(self.penalty, IStarLoss) or self.penalty.zeta == 0:
            return
        started = perf_counter()
        self.penalty.reset_shrinkage()
        self.model.eval()
        size = self.training.batch_size
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = self._batch(rows)
            states = self.model(**batch.model_inputs, output_hidden_states=True).hidden_states
            with self._reporting_divergence():
                n = self.penalty.update_shrinkage(states, positions=batch.positions)
            if n > self.training.shrinkage_tokens:
                break
        self.shrinkage_seconds += perf_counter() - started

    def require_finite_parameters(self) -> None:
        """Raise an IsotropyError if a parameter is not finite after the last update."""
        are_finite = [torch.isfinite(p.detach()).all() for p in self.parameters.values()]
        if not bool(torch.stack(are_finite).all()):
            raise self._divergence_error("a parameter is not finite", self.updates)

    @contextmanager
    def _reporting_divergence(self) -> Iterator[None]:
        """Report a ValueError of the penalty (hidden states that are not finite, or all equal) as a
        divergence of the training.
        """
        try:
            yield
        except ValueError as error:
            raise self._divergence_error(str(error), self.update + 1) from error

    def _divergence_error(self, reason: str, update: int) -> IsotropyError:
        """Return the error to raise when the training has diverged."""
        hint = "use a smaller learning_rate or lambda"
        return IsotropyError(
            f"training diverged at update {update} of {self.updates}: {reason}; {hint}"
        )

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.training.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.training.precision))

    def _learning_rate(self) -> float:
        """Return the learning rate of the next update."""
        warmup = self.training.warmup * self.updates
        rate = self.training.learning_rate
        if self.update < warmup:
            return rate * (self.update + 1) / (warmup + 1)
        if self.training.schedule == "constant":
            return rate
        return rate * (self.updates - self.update) / max(1.0, self.updates - warmup)

    def _penalized_score(self, penalty_value: float) -> float:
        """Compute IsoScore* or the mean cosine from the value of the penalty; NaN without a penalty
        and if lambda is 0.
        """
        strength = self.spec.method.strength
        if self.penalty is None or not strength:
            return math.nan
        return (
            1 - penalty_value / strength
            if self.spec.method.kind in ("istar", "unbiased")
            else penalty_value / strength
        )


def require_precision(training: Training, device: torch.device) -> None:
    """Raise an IsotropyError if the device does not support the precision."""
    if training.precision == "float16" and device.type != "cuda":
        raise IsotropyError(
            "precision: float16 needs a GPU, but torch finds none; use float32 or bfloat16 on "
            "the CPU"
        )


def make_penalty(spec: FinetuneSpec, d: int) -> Any:
    """Create the penalty that a method adds to the loss; None for methods without one."""
    method = spec.method
    keep_padding = spec.training.keep_padding
    layers: Literal["all"] | tuple[int, ...] = "all" if method.layers == "all" else (-1,)
    if method.kind == "istar":
        assert method.strength is not None
        assert method.zeta is not None
        return IStarLoss(
            d,
            strength=method.strength,
            zeta=method.zeta,
            layers=layers,
            keep_padding=keep_padding,
            validate=False,
        )
    if method.kind == "unbiased":
        assert method.strength is not None
        return UnbiasedIsoScoreLoss(
            strength=method.strength, layers=layers, keep_padding=keep_padding, validate=False
        )
    if method.kind == "cosreg":
        assert method.strength is not None
        return CosRegLoss(
            strength=method.strength, layers=layers, keep_padding=keep_padding, validate=False
        )
    return None
