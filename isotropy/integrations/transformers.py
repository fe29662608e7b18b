"""I-STAR and the other penalties of `isotropy.losses` in the Trainer of transformers, and a
callback that measures the geometry of layers during training.

Written against transformers 5.23, of which it overrides two private methods: those that save and
load the optimizer of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Trainer

from isotropy.integrations.transformers_callback import (
    IsotropyCallback,
    forward,
    geometry_table,
    hidden_states,
    keep_random_state,
    plot_geometry,
)
from isotropy.losses import IStarLoss, Penalty
from isotropy.metrics.isoscores import StreamingCovariance

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

__all__ = [
    "IStarTrainer",
    "IsotropyCallback",
    "IsotropyTrainerMixin",
    "geometry_table",
    "plot_geometry",
]
STATE_FILE = "isotropy_penalty.safetensors"
"""File in a checkpoint's folder with Sigma_S."""


class IsotropyTrainerMixin(_Trainer):
    """Adds a penalty on the geometry of hidden states to the loss of a Trainer.

    Write it before the trainer: `class MyTrainer(IsotropyTrainerMixin, Trainer)`. The model is not
    changed. It must return the hidden states of one stack of layers: encoders and decoders do, and
    encoder-decoder models do not. Evaluation is that of the trainer, without the penalty.

    I-STAR's Sigma_S is estimated at the start of every epoch from its first batches, which are kept
    for training, in evaluation mode, by all processes together. It is saved in checkpoints.

    Args:
        penalty: a penalty of `isotropy.losses`, or a function that makes it from the dimension of
            the hidden states; None for training without a penalty. It is computed from the tokens
            of each forward pass, and averaged over micro-batches and processes.
        shrinkage_tokens: number of token vectors, of all layers and processes together, from which
            Sigma_S is estimated; whole batches are used.
        *args: positional arguments of the trainer.
        **kwargs: keyword arguments of the trainer.

    Raises:
        TypeError: `penalty` is something else.
        ValueError: processes that share batches (tensor, context or sequence parallelism).

    References:
        Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR.
    """

    def __init__(
        self,
        *args: Any,
        penalty: Penalty | Callable[[int], Penalty] | None,
        shrinkage_tokens: int = 250_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if callable(penalty) and not isinstance(penalty, nn.Module):
            penalty = penalty(int(self.model.config.hidden_size))
        if not isinstance(penalty, Penalty | None):
            raise TypeError(
                "penalty must be an IStarLoss, UnbiasedIsoScoreLoss or CosRegLoss, a function that "
                f"returns one, or None, got {type(penalty).__name__}"
            )
        if self.get_tp_size() * self.get_cp_size() * self.get_sp_size() > 1:
            raise ValueError(
                "a penalty needs whole batches in each process: use data parallelism, not tensor, "
                "context or sequence parallelism"
            )
        self.penalty = None if penalty is None else penalty.to(self.args.device)
        self.shrinkage_tokens = shrinkage_tokens
        self._epoch_iterator: Iterator[Any] | None = None  # the trainer's, one per epoch
        self._batches: Iterator[Any] = iter(())
        self._resumes_epoch = False
        self._ignores_item_count: bool | None = None
        self._parts: torch.Tensor | None = None  # sums of task loss and penalty since the last log
        self._parts_since = 0

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as the trainer does."""
        self._resumes_epoch, self._parts = False, None
        return super().train(*args, **kwargs)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Compute the trainer's loss; in training plus the penalty.

        Raises:
            ValueError: the model returns no hidden states; as in `isotropy.losses`.
        """
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if self.penalty is None:
            loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
            loss = self._weight_by_items(loss, inputs, num_items_in_batch)
            return (loss, outputs) if return_outputs else loss
        n_batches = getattr(self, "current_gradient_accumulation_steps", 1)
        task_loss, outputs = super().compute_loss(
            model, {**inputs, "output_hidden_states": True}, True, num_items_in_batch
        )
        task_loss = self._weight_by_items(task_loss, inputs, num_items_in_batch)
        penalty = self.penalty.penalty(self._tokens(outputs, inputs, task_loss.device))
        # The trainer adds up the losses of micro-batches, and divides some of them by their number
        divisor = 1 if self._is_scaled(num_items_in_batch) else n_batches
        self._add_parts(task_loss.detach().float().mean() / divisor, penalty.detach() / n_batches)
        loss = task_loss + penalty * (divisor / n_batches)
        return (loss, outputs) if return_outputs else loss

    def _is_scaled(self, num_items_in_batch: Any) -> bool:
        """Whether the task's loss is scaled for gradient accumulation, as `training_step` sees it:
        otherwise it divides it by the number of micro-batches.
        """
        if self.loss_is_scaled_for_ga is not None:
            return bool(self.loss_is_scaled_for_ga)
        by_model = self.model_accepts_loss_kwargs and num_items_in_batch is not None
        return by_model or self.compute_loss_func is not None

    def _weight_by_items(
        self, loss: torch.Tensor, inputs: dict[str, Any], n_items: Any
    ) -> torch.Tensor:
        """Weight a micro-batch's task loss; it is 0, not the mean of none, where no item has a
        label.
        """
        labels = self._labels(inputs)
        loss = loss * self._item_share(inputs, n_items)
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
            return loss
        return torch.where(labels.ne(-100).any().to(loss.device), loss, 0)

    def _labels(self, inputs: dict[str, Any]) -> Any:
        """Return the labels that the loss is computed from, -100 for items without one."""
        labels = inputs.get("labels")
        shifted = labels[..., 1:] if self._loss_shifts_labels and labels is not None else labels
        return inputs.get("shift_labels", shifted)

    @torch.no_grad()
    def _item_share(self, inputs: dict[str, Any], n_items: Any) -> Any:
        """Return the factor of a micro-batch's task loss: its share of the items of the update if
        the model should divide by their number, but accepts it and returns the mean. BERT does so:
        its losses would be added up instead of averaged.
        """
        by_others = self.compute_loss_func is not None or self.label_smoother is not None
        if self.loss_is_scaled_for_ga is not None or by_others or not self._is_scaled(n_items):
            return 1
        n_items = torch.as_tensor(n_items).flatten()[0]  # for DataParallel one per device
        if self._ignores_item_count is None:
            losses = []
            for n in (n_items, 2 * n_items):
                with keep_random_state(self.args.device):
                    losses.append(super().compute_loss(self.model, {**inputs}, False, n))
            if not losses[0] > 0:  # no item in this batch: it cannot tell
                return 1
            self._ignores_item_count = bool(losses[1] > 0.75 * losses[0])
        if not self._ignores_item_count:
            return 1
        return self._labels(inputs).ne(-100).sum() / n_items / max(1, self.args.n_gpu)

    def _tokens(self, outputs: Any, inputs: dict[str, Any], device: torch.device) -> torch.Tensor:
        """Return the token vectors that the penalty is computed from, shape (n, d), in single
        precision at least, on a device.
        """
        assert self.penalty is not None
        states, mask = hidden_states(outputs, inputs)
        tokens = self.penalty.tokens([h.to(device) for h in states], mask)
        return tokens if tokens.dtype == torch.float64 else tokens.float()

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> Any:
        """Get the batches of an update; before the first one of an epoch, estimate Sigma_S."""
        if epoch_iterator is not self._epoch_iterator:
            self._epoch_iterator = self._batches = epoch_iterator
            penalty, resumes = self.penalty, self._resumes_epoch
            if isinstance(penalty, IStarLoss) and penalty.zeta > 0 and not resumes:
                taken = self._estimate_shrinkage(penalty.shrinkage, epoch_iterator)
                self._batches = chain(taken, epoch_iterator)
            self._resumes_epoch = False
        return super().get_batch_samples(self._batches, num_batches, device)

    @torch.no_grad()
    def _estimate_shrinkage(self, stream: StreamingCovariance, batches: Iterator[Any]) -> list[Any]:
        """Estimate Sigma_S; return the batches that were taken from the epoch's."""
        taken = []
        stream.reset()
        self.model.eval()
        for batch in batches:
            taken.append(batch)
            with keep_random_state(self.args.device):
                inputs = self._prepare_inputs(batch)
                outputs = forward(self.model, inputs, self.label_names)
            stream.update(self._tokens(outputs, inputs, self.args.device))
            if int(self.accelerator.reduce(stream.n.clone())) > self.shrinkage_tokens:
                break
        self.model.train()
        state = stream.state_dict()
        shards = {k: self.accelerator.gather(v[None].clone()) for k, v in state.items()}
        stream.reset()
        for i in range(self.accelerator.num_processes):
            shard = StreamingCovariance(len(stream.mean))
            shard.load_state_dict({k: v[i] for k, v in shards.items()})
            stream.merge(shard)
        return taken

    def _add_parts(self, task_loss: torch.Tensor, penalty: torch.Tensor) -> None:
        """Add the parts of a micro-batch's loss to those that are logged next."""
        parts = torch.stack([task_loss, penalty.to(task_loss)])
        if self._parts is None:
            self._parts, self._parts_since = torch.zeros_like(parts), self.state.global_step
        self._parts += parts

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log as the trainer does, and beside `loss` its parts `task_loss` and `penalty`."""
        if self._parts is not None and "loss" in logs:
            parts = self.accelerator.gather(self._parts[None]).mean(dim=0)
            parts = parts / (self.state.global_step - self._parts_since)
            logs.update(zip(("task_loss", "penalty"), parts.tolist(), strict=True))
            self._parts = None
        super().log(logs, *args, **kwargs)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        penalty = self.penalty
        if isinstance(penalty, IStarLoss) and int(penalty.shrinkage.n) and self.args.should_save:
            save_file(penalty.state_dict(), Path(output_dir, STATE_FILE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        path = Path(checkpoint or "", STATE_FILE)
        if checkpoint is not None and isinstance(self.penalty, IStarLoss) and path.is_file():
            self.penalty.load_state_dict(load_file(path))
            self._resumes_epoch = (self.state.epoch or 0) % 1 > 0


class IStarTrainer(IsotropyTrainerMixin, Trainer):
    """The Trainer of transformers with I-STAR.

    Args:
        strength: factor of the penalty, lambda in the paper: positive raises isotropy, negative
            lowers it.
        zeta: weight of Sigma_S, in [0, 1].
        layers: as in `isotropy.losses.IStarLoss`.
        keep_padding: count padding positions as tokens, as the authors do.
        *args: positional arguments of `Trainer`.
        **kwargs: keyword arguments of `Trainer`, and `shrinkage_tokens` of
            `IsotropyTrainerMixin`.
    """

    def __init__(
        self,
        *args: Any,
        strength: float,
        zeta: float = 0.2,
        layers: Literal["all"] | Sequence[int] = "all",
        keep_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        def penalty(d: int) -> IStarLoss:
            return IStarLoss(
                d, strength=strength, zeta=zeta, layers=layers, keep_padding=keep_padding
            )

        super().__init__(*args, penalty=penalty, **kwargs)
