"""A callback that measures the geometry of layers while a Trainer of transformers runs, and the
table and the plot of its measurements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback

from isotropy.losses import IStarLoss
from isotropy.metrics.cosines import StreamingMeanCosine
from isotropy.metrics.unbiased import StreamingUnbiasedIsoScore

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class IsotropyCallback(TrainerCallback):
    """Measures the geometry of layers on a fixed probe before training and every few updates.

    The trainer logs `isoscore/layer_3`, and in the same way `isoscore_unbiased`, `mean_cosine` and,
    with I-STAR, `isoscore_star` with its Sigma_S and zeta; `…/all_layers` is that of the vectors of
    these layers together. `geometry_table` and `plot_geometry` read them from the log. Training
    is the same as without the callback.

    Args:
        trainer: add the callback to it: `trainer.add_callback(IsotropyCallback(trainer, texts))`.
        probe: texts, or a data set whose items the trainer's collator makes batches of.
        every: number of updates between two measurements.
        layers: "all" for all but the embedding layer, or layer numbers (0 is the embedding layer).

    Raises:
        ValueError: an empty probe, or texts for a trainer without a tokenizer.
    """

    def __init__(
        self,
        trainer: Trainer,
        probe: Sequence[Any],
        every: int = 100,
        layers: Literal["all"] | Sequence[int] = "all",
    ) -> None:
        self.trainer, self.every, self.layers = trainer, every, layers
        if not len(probe):
            raise ValueError("the probe is empty: pass texts or a data set")
        items = [probe[i] for i in range(len(probe))]
        collate = trainer._get_collator_with_removed_columns(trainer.data_collator)
        if isinstance(items[0], str):
            tokenizer = trainer.processing_class
            if tokenizer is None:
                raise ValueError(
                    "a probe of texts needs a trainer with a tokenizer: pass processing_class"
                )
            items = [tokenizer(text, truncation=True) for text in items]
            collate = DataCollatorWithPadding(tokenizer)
        size = trainer.args.eval_batch_size
        with keep_random_state(torch.device("cpu")):  # a collator may mask at random
            self._batches = [collate(items[i : i + size]) for i in range(0, len(items), size)]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure before the first update."""
        if state.global_step == 0:
            self._log(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure after every so many updates."""
        if state.global_step % self.every == 0:
            self._log(control)

    def _log(self, control: Any) -> None:
        should_log = control.should_log  # to log resets it, and the trainer has not logged yet
        self.trainer.log(self.measure())
        control.should_log = should_log

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Measure the model of the trainer in evaluation mode; returns the values to log."""
        trainer, model = self.trainer, self.trainer.model
        streams: dict[int, tuple[StreamingUnbiasedIsoScore, StreamingMeanCosine]] = {}
        was_training = model.training
        model.eval()
        for batch in self._batches:
            inputs = trainer._prepare_inputs(batch)
            states, mask = hidden_states(forward(model, inputs, trainer.label_names), inputs)
            layers = range(1, len(states)) if self.layers == "all" else self.layers
            for i in layers:
                tokens = states[i][mask.bool().to(states[i].device)].float()
                if i not in streams:
                    d = tokens.shape[1]
                    streams[i] = (
                        StreamingUnbiasedIsoScore(d).to(tokens.device),
                        (StreamingMeanCosine(d)),
                    )
                for stream in streams[i]:
                    stream.update(tokens)
        model.train(was_training)
        return self._scores(streams)

    def _scores(
        self, streams: dict[int, tuple[StreamingUnbiasedIsoScore, StreamingMeanCosine]]
    ) -> dict[str, float]:
        """Return the scores of each layer and of all together, by the names that are logged."""
        first_isoscore, first_cosine = next(iter(streams.values()))
        d = len(first_cosine.total)
        together = (
            StreamingUnbiasedIsoScore(d).to(first_isoscore.mean.device),
            (StreamingMeanCosine(d)),
        )
        for isoscores, cosine in streams.values():
            together[0].merge(isoscores)
            together[1].merge(cosine)
        penalty, scores = getattr(self.trainer, "penalty", None), {}
        named = {f"layer_{i}": stream for i, stream in streams.items()} | {"all_layers": together}
        for name, (isoscores, cosine) in named.items():
            scores[f"isoscore/{name}"] = _or_nan(isoscores.compute)
            scores[f"isoscore_unbiased/{name}"] = _or_nan(isoscores.compute_unbiased)
            scores[f"mean_cosine/{name}"] = _or_nan(cosine.compute)
            if isinstance(penalty, IStarLoss) and penalty.zeta > 0 and int(penalty.shrinkage.n) > 1:
                covariance = penalty.shrinkage.covariance().to(isoscores.mean.device)
                score = partial(isoscores.compute, penalty.zeta, covariance)
                scores[f"isoscore_star/{name}"] = _or_nan(score)
        return scores


def _or_nan(compute: Callable[[], float]) -> float:
    """Return a score; NaN where it is not defined, as for a layer that has collapsed to a point."""
    try:
        return compute()
    except ValueError:
        return math.nan


def geometry_table(log_history: list[dict[str, float]]) -> pd.DataFrame:
    """Collect what `IsotropyCallback` has logged.

    Args:
        log_history: `trainer.state.log_history`, or `log_history` of a checkpoint's
            `trainer_state.json`.

    Returns:
        A row per measurement and layer: step, layer (a number, or "all"), and a column per score.
    """
    import pandas as pd

    rows: dict[tuple[float, str], dict[str, Any]] = {}
    for entry in log_history:
        for key, value in entry.items():
            if match := re.fullmatch(r"(\w+)/(?:layer_(-?\d+)|(all)_layers)", key):
                place = entry["step"], match[2] or match[3]
                row = rows.setdefault(place, {"step": place[0], "layer": place[1]})
                row[match[1]] = value
    return pd.DataFrame(list(rows.values()))


def plot_geometry(log_history: list[dict[str, float]]) -> Figure:
    """Draw what `IsotropyCallback` has logged: a panel per score, a line per layer.

    Args:
        log_history: as in `geometry_table`.

    Raises:
        ValueError: no measurement has been logged.
    """
    import seaborn as sns

    table = geometry_table(log_history)
    if table.empty:
        raise ValueError("nothing was measured: add an IsotropyCallback to the trainer")
    rows = table.melt(["step", "layer"], var_name="score").dropna()
    grid = sns.relplot(
        rows, x="step", y="value", hue="layer", col="score", kind="line", marker="o",
        palette="viridis", height=2.6, facet_kws={"sharey": False},
    )  # fmt: skip
    grid.set_titles("{col_name}", loc="left").set_axis_labels("update", "")
    figure: Figure = grid.figure
    return figure


def forward(model: nn.Module, inputs: dict[str, Any], label_names: Sequence[str]) -> Any:
    """Run a model on a batch without its labels, for its hidden states."""
    model_inputs = {k: v for k, v in inputs.items() if k not in label_names}
    return model(**model_inputs, output_hidden_states=True)


def hidden_states(
    outputs: Any, inputs: dict[str, Any]
) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
    """Return the hidden states of a model's output, embedding layer first, and the attention mask;
    without a mask in the inputs, each position is a token.
    """
    states = getattr(outputs, "hidden_states", None)
    if not states:
        raise ValueError(
            "the model returned no hidden_states: it must have one stack of layers and return a "
            "ModelOutput (return_dict=True); encoder-decoder models are not supported"
        )
    shape, mask = states[-1].shape[:2], inputs.get("attention_mask")
    mask = torch.ones(shape) if mask is None else mask
    if mask.shape != shape:
        raise ValueError(
            f"the model returned hidden states of {shape[1]} positions for {mask.shape[-1]} "
            "tokens: models that add positions, as prompt tuning does, or merge them are not "
            "supported"
        )
    return states, mask


def keep_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restore the state of torch's random generators at the end of a block."""
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(range(torch.accelerator.device_count()), device_type=device.type)
