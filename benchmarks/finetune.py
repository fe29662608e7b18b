"""Cost of I-STAR in a training step: no penalty, ours, and the authors' formulation, interleaved.

The authors' formulation has Sigma_S in double precision, and so the singular values of the d x d
matrix and their gradient. All three train the same real encoder on the same batches of a real data
set; the estimate of Sigma_S, once per epoch, is timed separately. Then the error of the gradient in
single precision is printed. It needs a model and data prepared by the workflow: run it first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from IsoScore import IsoScore as published_package
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    TrainerCallback,
    TrainingArguments,
)

from isotropy.integrations.transformers import IStarTrainer
from isotropy.losses import IStarLoss
from isotropy.metrics.isoscores import isoscore_star
from replication.finetune.data import read_task_data
from replication.finetune.model import load_model, load_tokenizer
from replication.finetune.spec import FinetuneSpec, GeometrySettings, Method, Training
from replication.finetune.train import TrainingRun


class AuthorsPenalty(IStarLoss):
    """I-STAR with IsoScore* by the published package, on the same tokens and Sigma_S."""

    def forward(
        self,
        hidden_states: Any,
        attention_mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return lambda (1 - IsoScore*)."""
        tokens = self.tokens(hidden_states, attention_mask, positions)
        covariance = self.shrinkage.covariance().to(tokens.device)
        score = published_package.istar().IsoScore_star(
            tokens, covariance, self.zeta, is_eval=False
        )
        return (self.strength * (1 - score)).float()


METHODS = {
    "none": Method(kind="none"),
    "ours": Method(kind="istar", strength=-1.0, zeta=0.2),
    "authors": Method(kind="istar", strength=-1.0, zeta=0.2),
}


def main() -> None:
    """Print milliseconds per update, the cost of each penalty, and the errors of gradients."""
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    if options.trainer:
        time_trainer(options)
        return
    runs = start_runs(options)
    times = time_updates(runs, options)
    d = int(runs["none"].model.config.hidden_size)
    print(
        f"{options.model}, d = {d}, batch of {options.batch_size}, {options.device}, "
        f"{torch.get_num_threads()} threads"
    )
    base = statistics.median(times["none"])
    for name, values in times.items():
        # Batches differ in length, so times are compared batch by batch.
        added = statistics.median(v - b for v, b in zip(values, times["none"], strict=True))
        update = f"{1000 * statistics.median(values):8.1f} ms per update"
        print(f"  {name:8} {update}, penalty {1000 * added:7.1f} ms = {added / base:6.1%}")
    gradients()


def parse_arguments() -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--dataset", default="polarity-train")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trainer", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def start_runs(options: argparse.Namespace) -> dict[str, TrainingRun]:
    """Start training the same model on the same items with each penalty, and make one update of
    each.
    """
    folder, data = options.results / f"fetch/{options.model}", options.results / "prepare"
    texts, items = (data / f"{options.dataset}.{kind}.parquet" for kind in ("texts", "items"))
    if not folder.is_dir() or not items.is_file():
        sys.exit(f"{folder} or {items} does not exist: run the workflow first")
    training = Training(
        learning_rate=1e-5,
        batch_size=options.batch_size,
        epochs=1,
        n_train=1024,
        max_length=256,
        token_types=False,
        keep_padding=False,
        pad_to_max_length=False,
        schedule="constant",
        warmup=0.0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        shrinkage_tokens=20000,
        precision="float32",
    )
    tokenizer = load_tokenizer(folder, training.max_length)
    pad = tokenizer.pad_token_id
    side = read_task_data(tokenizer, texts, items, training, seed=0)
    runs = {}
    for name, method in METHODS.items():
        spec = benchmark_spec(name, method, training)
        model = load_model(folder, side.dataset.task, len(side.dataset.label_names), 0, pad).model
        runs[name] = TrainingRun(spec, model, side.inputs, pad, torch.device(options.device))
        if name == "authors":
            penalty = AuthorsPenalty(int(model.config.hidden_size), strength=-1.0, zeta=0.2)
            runs[name].penalty = penalty.to(runs[name].device)
        runs[name].step()  # warm-up, and the shrinkage covariance
        if name == "ours":
            print(
                f"Sigma_S from {training.shrinkage_tokens:,} vectors, once per epoch: "
                f"{runs[name].shrinkage_seconds:.1f} s"
            )
    return runs


def benchmark_spec(name: str, method: Method, training: Training) -> FinetuneSpec:
    """Return a spec for training steps; its data sets and measurement settings are not used."""
    return FinetuneSpec(
        paper="rudman2024",
        run=name,
        task="",
        train="",
        validation="",
        metric="accuracy",
        model="",
        method=method,
        training=training,
        measure=GeometrySettings(zeta=0.75, tokens=2),
        seed=0,
        device="cpu",
    )


def time_updates(
    runs: dict[str, TrainingRun], options: argparse.Namespace
) -> dict[str, list[float]]:
    """Time updates of all runs alternately; return the seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.updates):
        for name, run in runs.items():
            if options.device == "cuda":
                torch.cuda.synchronize()
            started = time.perf_counter()
            run.step()
            if options.device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - started)
    return times


class Alternate(TrainerCallback):
    """Leaves out the penalty in every second update, and times both kinds."""

    def __init__(self, trainer: IStarTrainer) -> None:
        self.trainer, self.penalty = trainer, trainer.penalty
        self.times: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Switch the penalty on or off, and start the clock."""
        self.trainer.penalty = self.penalty if len(self.times) % 2 == 0 else None
        self.started = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        if self.trainer.args.device.type == "cuda":
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.started)


def time_trainer(options: argparse.Namespace) -> None:
    """Print the share of I-STAR in an update of BERT-base, random weights, 64 tokens per text."""
    model = AutoModelForSequenceClassification.from_config(BertConfig(num_labels=2))
    ids = torch.randint(1000, 30_000, (options.batch_size, 64)).tolist()
    data = [{"input_ids": row, "attention_mask": [1] * 64, "labels": 0} for row in ids]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=options.batch_size, disable_tqdm=True,
            max_steps=2 * options.updates + 2, use_cpu=options.device == "cpu", save_strategy="no",
        )  # fmt: skip
        trainer = IStarTrainer(model, arguments, train_dataset=data * 1000, strength=-1.0)
        trainer.shrinkage_tokens = 1000
        trainer.add_callback(alternate := Alternate(trainer))
        trainer.train()
    times = alternate.times[2:]  # without the warm-up, and the estimate of Sigma_S
    pairs = list(zip(times[::2], times[1::2], strict=True))
    base = statistics.median(plain for _, plain in pairs)
    added = statistics.median(penalized - plain for penalized, plain in pairs)
    print(
        f"Trainer, BERT-base, {options.batch_size} × 64 tokens, {options.device}: "
        f"{1000 * base:.0f} ms per update, I-STAR {1000 * added:.1f} ms = {added / base:.1%}"
    )


def gradients() -> None:
    """Print the largest error of the gradient in single precision, relative to its largest entry
    (to 1/n where that is 0).
    """
    generator = torch.Generator().manual_seed(0)
    normal = {
        f"{n} × {d}": torch.randn(n, d, generator=generator, dtype=torch.float64)
        for n, d in ((8, 384), (32, 768))
    }
    raw = torch.randn(2000, 384, generator=generator, dtype=torch.float64)
    equal = torch.linalg.qr(raw - raw.mean(dim=0))[0] * 1999**0.5
    groups = equal * torch.tensor([2.0] * 10 + [1.0] * 374, dtype=torch.float64)
    for name, X in (
        normal | {"2000 × 384, all eigenvalues equal": equal, "2000 × 384, two groups": groups}
    ).items():
        exact = _gradient(lambda P: isoscore_star(P, 0.0), X)
        # With equal eigenvalues the gradient is 0
        scale = 1 / len(X) if name.endswith("equal") else float(exact.abs().max())
        none = torch.eye(X.shape[1], dtype=torch.float32)
        ours = _gradient(lambda P: isoscore_star(P, 0.0), X.float())
        authors = _gradient(
            lambda P, C=none: published_package.istar().IsoScore_star(P, C, 0.0, is_eval=False),
            X.float(),
        )
        errors = [float((g - exact).abs().max()) / scale for g in (ours, authors)]
        print(f"  gradient, {name}: error ours {errors[0]:.1e}, authors {errors[1]:.1e}")


def _gradient(function: Any, points: torch.Tensor) -> torch.Tensor:
    points = points.detach().clone().requires_grad_()
    return torch.autograd.grad(function(points), points)[0].double()


if __name__ == "__main__":
    main()
