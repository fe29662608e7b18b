"""Fine-tuned models of each architecture with a task's head: batched computations against plain
transformers on single items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from isotropy.errors import IsotropyError
from isotropy.losses import IStarLoss
from replication.finetune.analysis import Reader, measure
from replication.finetune.data import TaskData, collate, read_task_data
from replication.finetune.model import load_model, load_tokenizer, task_loss
from replication.finetune.spec import FinetuneSpec, Method
from replication.finetune.train import finetune
from replication.prepare.datasets import prepare_sentences
from replication.prepare.spec import SentencesSpec
from replication.prepare.table import write_items
from replication.sources.formats import Row
from tests import synthetic_models as models
from tests.synthetic_texts import Writer
from tests.unit.factories import finetune_spec

CPU = torch.device("cpu")
NAMES = list(models.ARCHITECTURES)
WITH_SPANS = [name for name in NAMES if name != "openai-gpt"]
"""Architectures for which transformers has a head for spans."""
ISTAR = Method(kind="istar", strength=-1.0, zeta=0.2)


def spec(method: Method, **changes: Any) -> FinetuneSpec:
    chosen = {"epochs": 1, "max_length": 64, "token_types": True} | changes
    return finetune_spec(method, **chosen)


TRAINING = spec(ISTAR).training


def rows(kind: str, n: int = 10) -> list[Row]:
    """Generate rows: pairs of sentences with a class or score, or contexts with a question."""
    writer = Writer(50)
    generated = []
    for i in range(n):
        first, second = writer.sentence(4, 16), writer.sentence(4, 10)
        if kind == "extractive":
            word = first.split()[3]
            start = first.index(f" {word}") + 1
            generated.append(Row((first, second), {"text": [word], "answer_start": [start]}))
        else:
            generated.append(Row((first, second), i % 3 if kind == "single-label" else i / 4))
    return generated


def tokenized_items(tokenizer: Any, kind: str, folder: Path) -> TaskData:
    """Prepare and tokenize items of a kind of task, as in a job."""
    names = {"label_names": ["a", "b", "c"]} if kind == "single-label" else {"task": kind}
    items_spec = SentencesSpec.model_validate({"kind": "sentences", "source": "s", **names})
    prepared = prepare_sentences(items_spec, rows(kind))
    prepared.texts.to_parquet(folder / "texts.parquet")
    write_items(folder / "items.parquet", prepared.items, prepared.dataset, "isotropy-record:0")
    return read_task_data(tokenizer, folder / "texts.parquet", folder / "items.parquet", TRAINING)


def loaded(folder: Path, kind: str, tmp_path: Path) -> tuple[Any, TaskData, int]:
    tokenizer = load_tokenizer(folder, TRAINING.max_length)
    side = tokenized_items(tokenizer, kind, tmp_path)
    pad = tokenizer.pad_token_id
    return load_model(folder, kind, 3, 7, pad).model.eval(), side, pad


def plain_inputs(tokenizer: Any, item: Row, kind: str) -> dict[str, torch.Tensor]:
    """Tokenize an item with transformers; the question comes before the context."""
    pair = item.texts[::-1] if kind == "extractive" else item.texts
    return dict(tokenizer(*pair, return_tensors="pt"))


@pytest.mark.parametrize("kind", ["single-label", "regression"])
@pytest.mark.parametrize("name", NAMES)
def test_logits_and_losses_equal_transformers(
    name: str, kind: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """Logits of a padded batch equal those of single items, and the loss equals that of
    transformers."""
    model, side, pad = loaded(synthetic_models / name, kind, tmp_path)
    fresh = AutoTokenizer.from_pretrained(synthetic_models / name)
    assert isinstance(model, type(AutoModelForSequenceClassification.from_config(model.config)))
    batch = collate(side.inputs, range(len(side.inputs)), pad, CPU)
    with torch.inference_mode():
        outputs = model(**batch.model_inputs)
        assert outputs.logits.shape == (10, 3 if kind == "single-label" else 1)
        losses = []
        for i, item in enumerate(rows(kind)):
            given = plain_inputs(fresh, item, kind)
            label = torch.tensor([item.label])
            alone = model(**given, labels=label if kind == "single-label" else label.float())
            assert torch.allclose(alone.logits[0], outputs.logits[i], atol=2e-6)
            losses.append(float(alone.loss))
        assert float(task_loss(outputs, batch)) == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("name", WITH_SPANS)
def test_spans_spell_the_answer_and_losses_equal_transformers(
    name: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """For each tokenizer, the word pieces at the target positions spell the answer."""
    model, side, pad = loaded(synthetic_models / name, "extractive", tmp_path)
    fresh = AutoTokenizer.from_pretrained(synthetic_models / name)
    assert isinstance(model, type(AutoModelForQuestionAnswering.from_config(model.config)))
    batch = collate(side.inputs, range(len(side.inputs)), pad, CPU)
    losses = []
    with torch.inference_mode():
        outputs = model(**batch.model_inputs)
        for i, item in enumerate(rows("extractive")):
            given = plain_inputs(fresh, item, "extractive")
            n = given["input_ids"].shape[1]
            first, last = side.inputs.targets[i].tolist()
            spelt = fresh.decode(given["input_ids"][0, first : last + 1]).strip()
            assert spelt.lower() == item.label["text"][0].lower()
            alone = model(
                **given, start_positions=torch.tensor([first]), end_positions=torch.tensor([last])
            )
            assert torch.allclose(alone.start_logits[0], outputs.start_logits[i, :n], atol=2e-6)
            assert torch.allclose(alone.end_logits[0], outputs.end_logits[i, :n], atol=2e-6)
            starts = outputs.start_logits[i, :n].log_softmax(dim=0)[first]
            ends = outputs.end_logits[i, :n].log_softmax(dim=0)[last]
            assert float(alone.loss) == pytest.approx(float(-(starts + ends) / 2), rel=1e-4)
            losses.append(float(alone.loss))
    assert np.isfinite(losses).all()
    assert float(task_loss(outputs, batch)) >= np.mean(losses) - 1e-6  # padding has logits as well


@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_reaches_all_layers(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """The penalty alone gives gradients to embeddings and all layers, but not to head, pooler and
    the embedding of padding."""
    model, side, pad = loaded(synthetic_models / name, "single-label", tmp_path)
    batch = collate(side.inputs, range(len(side.inputs)), pad, CPU)
    outputs = model(**batch.model_inputs, output_hidden_states=True)
    penalty = IStarLoss(models.WIDTH, strength=1.0, zeta=0.0)
    penalty(outputs.hidden_states, batch.mask).backward()
    heads = ("classifier", "score", "pooler", "pre_classifier")
    for key, parameter in model.named_parameters():
        if any(part in key for part in heads):
            assert parameter.grad is None, key
        elif not key.endswith(("key.bias", "k_lin.bias", "attn.k.bias")):  # softmax ignores them
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key
            assert parameter.grad.abs().max() > 0, key
    table = model.get_input_embeddings().weight.grad
    assert not table[pad].any()


@pytest.mark.parametrize("name", NAMES)
def test_training_in_bfloat16_on_the_cpu(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Losses are near those in float32, and parameters stay float32."""
    rows_by_precision = {}
    for precision in ("float32", "bfloat16"):
        model, side, pad = loaded(synthetic_models / name, "single-label", tmp_path)
        chosen = spec(ISTAR, precision=precision)
        rows_by_precision[precision], _ = finetune(
            chosen, model, side.inputs, pad, CPU, tmp_path / str(precision)
        )
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    for column in ("loss", "score"):
        full, half = (rows[column].to_numpy() for rows in rows_by_precision.values())
        assert np.isfinite(half).all()
        assert np.abs(full - half).max() < 0.05 * np.abs(full).max() + 0.02
        assert (full != half).any()


@pytest.mark.parametrize("name", NAMES)
def test_sentence_vectors_are_those_read_by_the_head(
    name: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """The first token of encoders, the last of decoders, whose first token does not depend on the
    text."""
    model, side, pad = loaded(synthetic_models / name, "single-label", tmp_path)
    fresh = AutoTokenizer.from_pretrained(synthetic_models / name)
    obtained = measure(Reader(model, pad, CPU), side.inputs, side, spec(Method(kind="none")))
    vectors = []
    for item in rows("single-label"):
        given = plain_inputs(fresh, item, "single-label")
        with torch.inference_mode():
            states = model(**given, output_hidden_states=True).hidden_states[-1][0]
        vectors.append(states[-1 if "gpt" in name else 0].numpy())
    expected = np.stack(vectors).mean(axis=0)
    assert np.allclose(obtained.facts["activations"], expected, atol=1e-5)
    assert len(obtained.layers) == model.config.num_hidden_layers


@pytest.mark.parametrize("name", ["gpt2", "openai-gpt"])
def test_models_without_padding_token_get_a_new_one(
    name: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """The new token occurs in no text, so a text that ends with an unknown or an end token is read
    to its end."""
    fresh = AutoTokenizer.from_pretrained(synthetic_models / name)
    tokenizer = load_tokenizer(synthetic_models / name, 64)
    assert tokenizer.pad_token_id == len(fresh)
    model = load_model(synthetic_models / name, "single-label", 3, 0, len(fresh)).model.eval()
    ends = [[5, 6, 7, fresh.unk_token_id], [5, 6, 7]]
    padded = torch.tensor([ends[0], [*ends[1], len(fresh)]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.inference_mode():
        together = model(padded, attention_mask=mask).logits
        for i, ids in enumerate(ends):
            states = model.base_model(torch.tensor([ids])).last_hidden_state
            assert torch.allclose(model.score(states[0, -1]), together[i], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_lengths_beyond_the_models_limit_are_rejected(name: str, synthetic_models: Path) -> None:
    """The limit is 512 tokens also for RoBERTa, which has 514 positions."""
    longest = 1024 if name == "gpt2" else 512
    load_tokenizer(synthetic_models / name, longest)
    with pytest.raises(IsotropyError, match=f"at most {longest}"):
        load_tokenizer(synthetic_models / name, longest + 1)
