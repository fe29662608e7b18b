"""Fine-tuning with a penalty on the geometry of hidden states (Rudman & Eickhoff 2024, section 3):
the loop.

loss = the task's + penalty: lambda (1 - IsoScore*(all token vectors of all layers, zeta, Sigma_S))
for I-STAR, where Sigma_S is estimated anew at the start of every epoch from training tokens in
evaluation mode; lambda times the mean cosine of the last layer's tokens for CosReg.
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

from isotropy.checkpoint import Pace, read_checkpoint
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.finetune.data import Inputs, collate
from isotropy.finetune.model import task_loss
from isotropy.finetune.spec import FinetuneSpec, Training
from isotropy.losses import CosRegLoss, IStarLoss

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = 5.0
"""How much work a killed run loses, at least; where it is cut changes nothing."""
CHECKPOINT_PAUSE = 50  # times the time that the last one took
EPSILON = 1e-6  # of AdamW: the default of the class that the authors use


def finetune(
    spec: FinetuneSpec, model: Any, inputs: Inputs, pad: int, device: torch.device, work: Path
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Fine-tune a model in place.

    Args:
        spec: method and hyper-parameters.
        model: an encoder with a head (`isotropy.finetune.model.load_model`), on the CPU.
        inputs: the training items.
        pad: id of the padding token.
        device: where to compute.
        work: folder of the checkpoint from which a killed run goes on, on the CPU with the same
            bytes as an undisturbed one.

    Returns:
        One row per update (update, epoch, learning_rate, loss, score), where `loss` is the task's
        alone and `score` what the penalty acts on: IsoScore* or the mean cosine of the batch, NaN
        without a penalty; and what was measured of this run.

    Raises:
        IsotropyError: a loss, hidden states or parameters that are not finite, or float16 without a
            GPU.
    """
    run = _Run(spec, model, inputs, pad, device)
    checkpoint = work / "checkpoint.safetensors"
    rows = run.resume(checkpoint)
    first = run.update
    if first:
        log.info("going on from update %d of a killed run", first)
    started = perf_counter()
    _step_to_the_end(run, rows, checkpoint)
    run.require_sound()
    seconds = perf_counter() - started
    return pd.DataFrame(rows), {
        "device": str(device),
        "updates_taken_up_from_a_killed_run": first,
        "seconds": round(seconds, 3),
        "seconds_in_shrinkage_covariance": round(run.shrinkage_seconds, 3),
        "updates_per_second": round((run.updates - first) / seconds, 3),
    }


def _step_to_the_end(run: _Run, rows: list[dict[str, float]], checkpoint: Path) -> None:
    """Make all updates that are left, a row for each; show progress, and keep a checkpoint now and
    then.
    """
    said = perf_counter()
    pace = Pace(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE)
    quiet = not sys.stderr.isatty()
    with tqdm(
        total=run.updates, initial=run.update, unit="update", disable=quiet, desc=run.spec.run
    ) as bar:
        while run.update < run.updates:
            if pace.due():
                began = perf_counter()
                run.save(checkpoint, rows)
                pace.note_saved(began)
            rows.append(run.step())
            bar.update()
            if quiet and perf_counter() - said > LOG_SECONDS:
                said, row = perf_counter(), rows[-1]
                scores = f"loss {row['loss']:.4f}, score {row['score']:.4f}"
                log.info("update %d of %d: %s", run.update, run.updates, scores)


class _Run:
    """Model, optimizer and penalty between two updates."""

    def __init__(
        self, spec: FinetuneSpec, model: Any, inputs: Inputs, pad: int, device: torch.device
    ) -> None:
        training = spec.training
        require_precision(training, device)
        self.spec, self.training = spec, training
        self.inputs, self.pad, self.device = inputs, pad, device
        how = spec.training
        self.length = how.max_length if how.pad_to_max_length else None
        self.model = model.to(device)
        self.parameters = dict(model.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            eps=EPSILON,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "float16")
        penalty = penalty_of(spec, int(model.config.hidden_size))
        self.penalty = penalty if penalty is None else penalty.to(device)
        self.per_epoch = math.ceil(len(inputs) / training.batch_size)
        self.updates = self.per_epoch * training.epochs
        self.update = 0
        self.order: np.ndarray | None = None
        self.shrinkage_seconds = 0.0

    def step(self) -> dict[str, float]:
        """One update of the parameters; at the start of an epoch, the shrinkage covariance before
        it.
        """
        epoch, position = divmod(self.update, self.per_epoch)
        if self.order is None or position == 0:
            generator = np.random.default_rng([self.spec.seed, epoch])
            self.order = generator.permutation(len(self.inputs))
        order, size = self.order, self.training.batch_size
        if position == 0:
            self._estimate_shrinkage(order)
        chosen = order[position * size : (position + 1) * size]
        batch = collate(self.inputs, chosen, self.pad, self.device, self.length)
        rate = self._rate()
        self.optimizer.param_groups[0]["lr"] = rate
        self.model.train()
        with self._autocast():
            outputs = self.model(
                **batch.model_inputs, output_hidden_states=self.penalty is not None
            )
            loss = task_loss(outputs, batch).float()
        self._require_finite(loss)
        total, score = loss, math.nan
        if self.penalty is not None:
            with self._divergence_named():
                added = self.penalty(outputs.hidden_states, batch.mask)
            total = loss + added
            score = self._score(float(added.detach()))
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(total).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimizer)
        if self.training.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.training.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.update += 1
        return {
            "update": self.update,
            "epoch": epoch,
            "learning_rate": rate,
            "loss": float(loss.detach()),
            "score": score,
        }

    def save(self, path: Path, rows: list[dict[str, float]]) -> None:
        """Keep parameters, Adam's moments, the shrinkage covariance, the generators' states and the
        rows so far.
        """
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
            "rows": json.dumps(rows),
            "scaler": json.dumps(self.scaler.state_dict()),
        }
        with atomic(path) as temporary:
            save_file(
                {key: value.contiguous() for key, value in tensors.items()},
                temporary,
                metadata=metadata,
            )

    def resume(self, path: Path) -> list[dict[str, float]]:
        """Put a checkpoint in place; return the rows before it. Nothing if there is none."""
        if not path.is_file():
            return []
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
                if state:  # a parameter that no loss reaches has none
                    self.optimizer.state[p] = {k: v.to(self.device) for k, v in state.items()}
        if self.penalty is not None:
            own = {
                k.removeprefix("penalty."): v
                for k, v in tensors.items()
                if k.startswith("penalty.")
            }
            self.penalty.load_state_dict(own)
        self.scaler.load_state_dict(json.loads(metadata["scaler"]))
        torch.set_rng_state(tensors["generator.cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["generator.cuda"], self.device)
        self.update = int(metadata["update"])
        rows: list[dict[str, float]] = json.loads(metadata["rows"])
        return rows

    @torch.no_grad()
    def _estimate_shrinkage(self, order: np.ndarray) -> None:
        """Sigma_S from training tokens in the epoch's order, in evaluation mode, in float32."""
        if not isinstance(self.penalty, IStarLoss) or self.penalty.zeta == 0:
            return
        began = perf_counter()
        self.penalty.reset_shrinkage()
        self.model.eval()
        size = self.training.batch_size
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = collate(self.inputs, rows, self.pad, self.device, self.length)
            states = self.model(**batch.model_inputs, output_hidden_states=True).hidden_states
            with self._divergence_named():
                n = self.penalty.update_shrinkage(states, batch.mask)
            if n > self.training.shrinkage_tokens:
                break
        self.shrinkage_seconds += perf_counter() - began

    def require_sound(self) -> None:
        """Raise an IsotropyError if the last update left a parameter that is not finite."""
        for parameter in self.parameters.values():
            self._require_finite(parameter)

    def _require_finite(self, values: torch.Tensor) -> None:
        if not bool(torch.isfinite(values.detach()).all()):
            raise self._diverged("a loss or parameter is not finite")

    @contextmanager
    def _divergence_named(self) -> Iterator[None]:
        """Hidden states that are not finite, or all alike, are what a training that diverges looks
        like to the penalty.
        """
        try:
            yield
        except ValueError as error:
            raise self._diverged(str(error)) from error

    def _diverged(self, why: str) -> IsotropyError:
        hint = "take a smaller learning_rate or lambda"
        return IsotropyError(
            f"training diverged at update {self.update + 1} of {self.updates}: {why}; {hint}"
        )

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.training.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.training.precision))

    def _rate(self) -> float:
        """The learning rate of the next update."""
        warmup = self.training.warmup * self.updates
        rate = self.training.learning_rate
        if self.update < warmup:
            return rate * (self.update + 1) / (warmup + 1)
        if self.training.schedule == "constant":
            return rate
        return rate * (self.updates - self.update) / max(1.0, self.updates - warmup)

    def _score(self, added: float) -> float:
        """What the penalty acts on, from the penalty."""
        strength = self.spec.method.strength
        assert strength is not None
        if strength == 0:
            return math.nan
        return 1 - added / strength if self.spec.method.kind == "istar" else added / strength


def require_precision(training: Training, device: torch.device) -> None:
    """Raise an IsotropyError where the device cannot compute in the wanted precision."""
    if training.precision == "float16" and device.type != "cuda":
        raise IsotropyError(
            "precision: float16 needs a GPU, and torch sees none here; take float32 or bfloat16 "
            "on the CPU"
        )


def penalty_of(spec: FinetuneSpec, d: int) -> Any:
    """The penalty that a method adds to the loss; None for none."""
    method, keep_padding = spec.method, spec.training.keep_padding
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
        )
    if method.kind == "cosreg":
        assert method.strength is not None
        return CosRegLoss(strength=method.strength, layers=layers, keep_padding=keep_padding)
    return None
