"""Penalties and measurements in the Trainer of transformers."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import multiprocessing
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForTokenClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from isotropy.integrations.transformers import (
    STATE_FILE,
    IsotropyCallback,
    IsotropyTrainerMixin,
    IStarTrainer,
    geometry_table,
    plot_geometry,
)
from isotropy.losses import CosRegLoss, IStarLoss, UnbiasedIsoScoreLoss
from isotropy.metrics.cosines import mean_cosine
from isotropy.metrics.isoscores import isoscore, isoscore_star
from isotropy.metrics.unbiased import StreamingUnbiasedIsoScore
from replication.finetune.data import Inputs
from replication.finetune.train import finetune
from tests.unit.factories import Method as WorkflowMethod
from tests.unit.factories import finetune_spec, learnable_inputs, tiny
from tests.unit.process_groups import leave_together
from tests.unit.tiny_models import sentences, write_tiny_bert, write_tiny_tokenizer

NO_DROPOUT = dict.fromkeys(["hidden_dropout_prob", "attention_probs_dropout_prob"], 0.0)
NO_DROPOUT |= dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0)
ISTAR = partial(IStarLoss, strength=-1.0, zeta=0.3)
PENALTIES = {
    "istar": ISTAR,
    "unbiased": UnbiasedIsoScoreLoss(strength=1.0),
    "cosreg": CosRegLoss(strength=1.0, layers="all"),
}


class PenaltyTrainer(IsotropyTrainerMixin, Trainer):
    """Any penalty in the plain Trainer."""


class InWorkflowOrder(PenaltyTrainer):
    """The order of items in the workflow's loop, epoch after epoch."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return WorkflowOrder(len(self.train_dataset))


class WorkflowOrder(torch.utils.data.Sampler[int]):
    def __init__(self, n: int) -> None:
        self.n, self.epoch = n, 0

    def __len__(self) -> int:
        return self.n

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        return iter(np.random.default_rng([3, self.epoch]).permutation(self.n).tolist())


def items(inputs: Inputs) -> list[dict[str, Any]]:
    return [
        {"input_ids": ids, "labels": int(label)}
        for ids, label in zip(inputs.ids, inputs.targets, strict=True)
    ]


def collate(batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Pad with 0; labels of tokens with -100."""
    length = max(len(item["input_ids"]) for item in batch)
    rows: dict[str, list[Any]] = {name: [item[name] for item in batch] for name in batch[0]}
    rows["attention_mask"] = [[1] * len(ids) for ids in rows["input_ids"]]
    for name, values in rows.items():
        if isinstance(values[0], list):
            rest = -100 if name == "labels" else 0
            rows[name] = [value + [rest] * (length - len(value)) for value in values]
    return {name: torch.tensor(values) for name, values in rows.items()}


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    """The settings of `factories.TRAINING`; each update is logged."""
    values = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "logging_steps": 1}
    values |= {"num_train_epochs": 2, "save_strategy": "no", "seed": 3}
    values |= {"per_device_train_batch_size": 4, "learning_rate": 0.001, "adam_epsilon": 1e-6}
    values |= {"lr_scheduler_type": "constant", "optim": "adamw_torch_fused"}
    return TrainingArguments(str(folder), **values | changes)


def make(
    folder: Path,
    penalty: Any = ISTAR,
    model: Any = None,
    kind: type[Any] = PenaltyTrainer,
    data: list[dict[str, Any]] | None = None,
    shrinkage_tokens: int = 60,
    **changes: Any,
) -> Any:
    data = items(learnable_inputs()) if data is None else data
    return kind(
        model=tiny(**NO_DROPOUT) if model is None else model,
        args=arguments(folder, **changes),
        train_dataset=data,
        eval_dataset=data,
        data_collator=collate,
        penalty=penalty,
        shrinkage_tokens=shrinkage_tokens,
    )


def trained(folder: Path, *args: Any, resume: Path | None = None, **options: Any) -> Any:
    trainer = make(folder, *args, **options)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def logged(trainer: Any, *names: str) -> np.ndarray:
    """The values logged for each update, shape (updates, names)."""
    rows = [entry for entry in trainer.state.log_history if "loss" in entry]
    return np.array([[row[name] for name in names] for row in rows])


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    ("method", "penalty"),
    [
        (WorkflowMethod(kind="istar", strength=-1.0, zeta=0.3), ISTAR),
        (WorkflowMethod(kind="unbiased", strength=1.0), PENALTIES["unbiased"]),
        (WorkflowMethod(kind="cosreg", strength=1.0, layers="last"), CosRegLoss()),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_run_equals_that_of_the_workflow(method: Any, penalty: Any, tmp_path: Path) -> None:
    """Losses and scores of each update, and the weights after two epochs: the same seed, order,
    model, strength and zeta."""
    model = tiny(**NO_DROPOUT)
    rows, _ = finetune(
        finetune_spec(method), model, learnable_inputs(), 0, torch.device("cpu"), tmp_path / "w"
    )
    trainer = trained(tmp_path, penalty, kind=InWorkflowOrder)
    task, penalties = logged(trainer, "task_loss", "penalty").T
    score = penalties / method.strength
    score = score if method.kind == "cosreg" else 1 - score
    assert len(rows) == len(task) == 12
    np.testing.assert_allclose(task, rows["loss"], atol=2e-6)
    np.testing.assert_allclose(score, rows["score"], atol=2e-6)
    np.testing.assert_allclose(logged(trainer, "loss")[:, 0], task + penalties, atol=1e-6)
    torch.testing.assert_close(weights(trainer.model), weights(model), atol=2e-5, rtol=0)


def task_model(kind: str) -> tuple[Any, list[dict[str, Any]]]:
    """A tiny model of a task, and items of which some tokens have no label."""
    torch.manual_seed(0)
    ids = torch.randint(5, 50, (16, 8)).tolist()
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    sizes |= {"intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    config = AutoConfig.for_model("gpt2" if kind == "causal" else "bert", **sizes, **NO_DROPOUT)
    if kind == "answers":
        ends = [{"start_positions": i % 8, "end_positions": (i + 2) % 8} for i in range(16)]
        model, targets = AutoModelForQuestionAnswering, ends
    elif kind == "tokens":
        config.num_labels = 3
        model = AutoModelForTokenClassification
        targets = [{"labels": [-100 if i % 4 == 3 else i % 4 for i in row]} for row in ids]
    else:
        model = AutoModelForCausalLM if kind == "causal" else AutoModelForMaskedLM
        targets = [{"labels": [-100 if i % 3 else i for i in row]} for row in ids]
    return model.from_config(config), [
        {"input_ids": row} | target for row, target in zip(ids, targets, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("classes", name) for name in PENALTIES),
        *((kind, "istar") for kind in ("answers", "tokens", "masked", "causal")),
    ],
)
def test_accumulated_update_equals_one_big_batch(kind: str, name: str, tmp_path: Path) -> None:
    """The task's loss of four micro-batches of 4 is that of one batch of 16, the penalty the mean
    of theirs. Tasks differ in who divides the loss."""

    def run(size: int) -> Any:
        model, data = (None, items(learnable_inputs(16))) if kind == "classes" else task_model(kind)
        options = {"train_sampling_strategy": "sequential", "num_train_epochs": 1, "optim": "sgd"}
        options |= {"per_device_train_batch_size": size, "shrinkage_tokens": 10**6}
        options |= {"gradient_accumulation_steps": 16 // size}
        return trained(tmp_path, PENALTIES[name], model, data=data, **options)

    big, micro = run(16), run(4)
    assert logged(micro, "task_loss")[0, 0] == pytest.approx(logged(big, "task_loss")[0, 0])
    assert abs(logged(micro, "penalty") - logged(big, "penalty")).max() > 1e-4
    alone = make(tmp_path, PENALTIES[name], task_model(kind)[0] if kind != "classes" else None)
    values = []
    for start in range(0, 16, 4):
        batch = collate(micro.train_dataset[start : start + 4])
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        states = alone.model(**inputs, output_hidden_states=True).hidden_states
        values.append(float(micro.penalty(states, inputs["attention_mask"]).detach()))
    assert logged(micro, "penalty")[0, 0] == pytest.approx(np.mean(values), rel=1e-5)


@pytest.mark.parametrize("kind", ["classes", "tokens", "masked", "causal"])
def test_micro_batch_without_labels_adds_no_loss(kind: str, tmp_path: Path) -> None:
    def run(size: int, penalty: Any) -> Any:
        model, data = (None, items(learnable_inputs(8))) if kind == "classes" else task_model(kind)
        for item in data[4:]:
            item["labels"] = -100 if kind == "classes" else [-100] * len(item["labels"])
        options = {"train_sampling_strategy": "sequential", "max_steps": 1}
        options |= {"per_device_train_batch_size": size, "gradient_accumulation_steps": 8 // size}
        return trained(tmp_path, penalty, model, data=data[:8], **options)

    (expected,) = logged(run(8, None), "loss")[0]
    assert np.isfinite(expected)
    (loss,) = logged(run(4, None), "loss")[0]
    with_penalty = logged(run(4, CosRegLoss(strength=0.0)), "loss", "task_loss")[0]
    assert [loss, *with_penalty] == pytest.approx([expected] * 3, abs=1e-4)


class Stream(torch.utils.data.IterableDataset):
    """Items without a length: in each epoch again, or once."""

    def __init__(self, data: list[Any], n_epochs: float) -> None:
        self.data, self.rest = data, None if n_epochs > 1 else iter(data)

    def __iter__(self) -> Any:
        return self.rest or iter(self.data)


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_items_without_length_are_all_trained_with(n_epochs: int, tmp_path: Path) -> None:
    """Sigma_S is estimated before the first update of each epoch, from items trained with next."""
    data, seen, estimated = items(learnable_inputs(12)), [], []

    class Recorder(PenaltyTrainer):
        def training_step(self, model: Any, inputs: Any, *args: Any) -> Any:
            estimated.append(float(self.penalty.shrinkage.scatter.trace()))
            seen.extend(ids[ids != 0].tolist() for ids in inputs["input_ids"])
            return super().training_step(model, inputs, *args)

    options = {"data": Stream(data, n_epochs), "max_steps": 3 * n_epochs, "kind": Recorder}
    trained(tmp_path, **options)
    assert seen == [item["input_ids"] for item in data] * n_epochs
    first = [1 + i for i in range(len(estimated)) if estimated[i] != estimated[max(i - 1, 0)]]
    assert [1, *first] == [1, 4, 7][:n_epochs]


def test_without_a_penalty_the_loss_is_that_of_a_penalty_of_strength_0(tmp_path: Path) -> None:
    """Also where the model ignores the number of items, and the plain Trainer adds up losses."""
    model, data = task_model("masked")
    options = {"num_train_epochs": 1, "gradient_accumulation_steps": 4, "optim": "sgd"}
    losses = []
    for penalty in (None, CosRegLoss(strength=0.0)):
        trainer = trained(tmp_path, penalty, deepcopy(model), data=data, **options)
        losses.append(logged(trainer, "loss"))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """With dropout, from a checkpoint within the first epoch and from one between two epochs; an
    intermediate Sigma_S is loaded, not estimated again."""

    def run(folder: str, resume: Path | None = None) -> Any:
        options = {"save_strategy": "steps", "save_steps": 3, "resume": resume}
        return trained(tmp_path / folder, model=tiny(seed=9 if resume else 0), **options)

    whole = run("a")
    for step in (3, 6):
        checkpoint = tmp_path / f"a/checkpoint-{step}"
        resumed = run(f"b{step}", checkpoint)
        assert torch.equal(weights(resumed.model), weights(whole.model))
        names = "task_loss", "penalty"
        assert np.array_equal(logged(resumed, *names), logged(whole, *names))
        for name, value in whole.penalty.state_dict().items():
            assert torch.equal(resumed.penalty.state_dict()[name], value), name
    (tmp_path / "a/checkpoint-3" / STATE_FILE).unlink()
    without = run("b", tmp_path / "a/checkpoint-3")
    assert not torch.equal(weights(without.model), weights(whole.model))


def test_penalty_of_strength_0_changes_nothing(tmp_path: Path) -> None:
    """Estimating Sigma_S and the callback leave dropout and the order as they are in the plain
    Trainer."""
    data = items(learnable_inputs())
    plain = Trainer(
        model=tiny(), args=arguments(tmp_path), train_dataset=data, data_collator=collate
    )
    plain.train()
    trainer = make(tmp_path, partial(IStarLoss, strength=0.0, zeta=0.3), tiny())
    trainer.add_callback(IsotropyCallback(trainer, data[:6], every=2))
    trainer.train()
    assert torch.equal(weights(trainer.model), weights(plain.model))
    assert logged(trainer, "loss").tolist() == logged(plain, "loss").tolist()
    without = trained(tmp_path, None, tiny())
    assert torch.equal(weights(without.model), weights(plain.model))
    assert "penalty" not in without.state.log_history[0]


def test_evaluation_has_no_penalty(tmp_path: Path) -> None:
    """`eval_loss` and predictions are those of the plain Trainer on the same model."""
    trainer = trained(tmp_path, num_train_epochs=1, eval_strategy="epoch")
    (evaluated,) = (e["eval_loss"] for e in trainer.state.log_history if "eval_loss" in e)
    plain = Trainer(
        trainer.model, arguments(tmp_path), eval_dataset=trainer.eval_dataset, data_collator=collate
    )
    assert evaluated == plain.evaluate()["eval_loss"]
    assert np.array_equal(
        trainer.predict(trainer.eval_dataset).predictions,
        plain.predict(trainer.eval_dataset).predictions,
    )


def test_penalty_in_mixed_precision_is_single_precision(tmp_path: Path) -> None:
    """The model runs in bfloat16; the penalty is that of its hidden states in double precision."""
    data = items(learnable_inputs(4))
    trainer = make(tmp_path, data=data, bf16=True, num_train_epochs=1, shrinkage_tokens=10**6)
    model, inputs = tiny(**NO_DROPOUT), collate(data)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    assert outputs.hidden_states[-1].dtype == torch.float32  # a layer norm
    mask = inputs["attention_mask"].bool()
    tokens = torch.cat([h[mask] for h in outputs.hidden_states[1:]]).double()
    score = isoscore_star(tokens, 0.3, torch.cov(tokens.T))
    trainer.train()
    # Order and padding of the batch change roundings to bfloat16
    assert logged(trainer, "penalty")[0, 0] == pytest.approx(-1 + float(score), abs=1e-4)
    assert trainer.penalty.shrinkage.scatter.dtype == torch.float64


def test_callback_measures_each_layer(tmp_path: Path) -> None:
    """The last measurement is that of the final model by the metrics themselves."""
    write_tiny_tokenizer(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    trainer = make(tmp_path)
    trainer.processing_class = tokenizer
    texts = sentences(11)
    trainer.add_callback(IsotropyCallback(trainer, texts, every=4))
    trainer.train()
    table = geometry_table(trainer.state.log_history)
    assert table["step"].unique().tolist() == [0, 4, 8, 12]
    assert table["layer"].unique().tolist() == ["1", "2", "3", "all"]
    assert table.query("step == 0")["isoscore_star"].isna().all()
    inputs = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    trainer.model.eval()
    with torch.no_grad():
        states = trainer.model(**inputs, output_hidden_states=True).hidden_states[1:]
    clouds = [h[inputs["attention_mask"].bool()] for h in states]
    covariance = trainer.penalty.shrinkage.covariance()
    for (_, row), X in zip(
        table.query("step == 12").iterrows(), [*clouds, torch.cat(clouds)], strict=True
    ):
        stream = StreamingUnbiasedIsoScore(16)
        stream.update(X)
        expected = isoscore(X), stream.compute_unbiased(), mean_cosine(X)
        expected += (isoscore_star(X, 0.3, covariance),)
        columns = ["isoscore", "isoscore_unbiased", "mean_cosine", "isoscore_star"]
        np.testing.assert_allclose(row[columns].astype(float), [float(v) for v in expected], 1e-5)
    figure = plot_geometry(trainer.state.log_history)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert sorted(titles) == sorted(columns)
    figure.savefig(tmp_path / "geometry.png")


class PromptTuned(torch.nn.Module):
    """Learns vectors that stand before those of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.model = tiny()
        self.config, self.prompt = self.model.config, torch.nn.Parameter(torch.ones(1, 3, 16))

    def forward(self, input_ids: Any, attention_mask: Any, **inputs: Any) -> Any:
        tokens = self.model.get_input_embeddings()(input_ids)
        embeddings = torch.cat([self.prompt.expand(len(tokens), -1, -1), tokens], dim=1)
        return self.model(inputs_embeds=embeddings, **inputs)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda folder: make(folder, penalty="istar"), "got str"),
        (lambda folder: make(folder, penalty=torch.nn.Linear(2, 2)), "got Linear"),
        (lambda folder: IsotropyCallback(make(folder), []), "probe is empty"),
        (lambda folder: IsotropyCallback(make(folder), ["a text"]), "processing_class"),
        (lambda _: plot_geometry([{"loss": 1.0}]), "nothing was measured"),
        (
            lambda folder: make(folder, model=tiny(**NO_DROPOUT, return_dict=False)).train(),
            "no hidden_states",
        ),
        (lambda folder: make(folder, model=PromptTuned()).train(), "prompt tuning"),
    ],
)
def test_mistakes_have_clear_errors(call: Any, word: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=word):
        call(tmp_path)


def spawned(rank: int, folder: Path, port: int) -> None:
    """Train in one of two processes, and write its results."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    trainer = distributed(folder, 2, 2)
    trainer.train()
    results = {"weights": weights(trainer.model)} | trainer.penalty.state_dict()
    results["parts"] = torch.from_numpy(logged(trainer, "loss", "task_loss", "penalty"))
    torch.save(results, folder / f"{rank}.pt")
    leave_together(folder / f"{one}.pt" for one in range(2))


def distributed(folder: Path, batch_size: int, accumulation: int) -> Any:
    return make(
        folder, partial(IStarLoss, strength=0.0, zeta=0.3), data=items(learnable_inputs(24)),
        shrinkage_tokens=300,
        per_device_train_batch_size=batch_size, gradient_accumulation_steps=accumulation,
        train_sampling_strategy="sequential", optim="sgd",
        ddp_backend="gloo" if batch_size == 2 else None,
    )  # fmt: skip


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """Two processes of two micro-batches of 2 are one of 8: weights, the loss of the task, and
    Sigma_S, which is that of all processes on each. The penalty has strength 0, since it is of the
    tokens of each process."""
    port = 20_000 + os.getpid() % 20_000
    multiprocessing.spawn(spawned, (tmp_path, port), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for name, value in ranks[0].items():
        assert torch.equal(value, ranks[1][name]), name
    one = distributed(tmp_path, 8, 1)
    one.train()
    torch.testing.assert_close(ranks[0]["weights"], weights(one.model), atol=1e-6, rtol=0)
    parts = logged(one, "loss", "task_loss", "penalty")
    np.testing.assert_allclose(ranks[0]["parts"], parts, rtol=1e-5)
    for name, value in one.penalty.state_dict().items():
        torch.testing.assert_close(ranks[0][name], value, rtol=1e-5, atol=1e-5)


def test_example_in_the_documentation(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tiny model in place of BERT."""
    page = (project / "docs/training.md").read_text("utf8")
    code = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    model = write_tiny_bert(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace("google-bert/bert-base-uncased", str(model)), names)
    trainer = names["trainer"]
    assert isinstance(trainer, IStarTrainer)
    assert logged(trainer, "loss", "task_loss", "penalty").shape == (5, 3)
    assert geometry_table(trainer.state.log_history)["step"].max() == 10
    assert (tmp_path / "run/geometry.png").stat().st_size > 10_000
