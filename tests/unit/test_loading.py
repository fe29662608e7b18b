"""Weights that are not the model's are refused, wherever a model is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
)
from typer.testing import CliRunner

from isotropy.errors import IsotropyError
from isotropy.models.encoder import Encoder
from isotropy.models.folder import read_layout
from isotropy.models.loading import load_weights
from isotropy.models.sentence_encoder import SentenceEncoder
from replication.cli import app
from replication.finetune.model import load_model
from replication.sources.own.models import entry_from_folder
from tests.unit.tiny_models import changed_config, sentences, write_tiny_bert

CPU = torch.device("cpu")
Tensors = dict[str, torch.Tensor]


def rename(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def prefixed(prefix: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {prefix + name: value for name, value in tensors.items()}


def without(pattern: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {n: v for n, v in tensors.items() if not re.search(pattern, n)}


def narrowed(tensors: Tensors) -> Tensors:
    return {n: v[:8] if "intermediate" in n else v for n, v in tensors.items()}


REFUSED: dict[str, tuple[Callable[[Tensors], Tensors], str]] = {
    "compiled": (prefixed("_orig_mod."), r": _orig_mod\.embeddings"),
    "wrapped": (prefixed("model."), r": model\.embeddings"),
    "part of another": (prefixed("encoder."), r"lacks \d+ "),
    "a layer is missing": (without(r"layer\.1\."), r"lacks 16 .*encoder\.layer\.1"),
    "a bias is missing": (without(r"layer\.0\.output\.dense\.bias"), "lacks 1 "),
    "no embeddings": (without(r"word_embeddings"), r"lacks 1 .*word_embeddings"),
    "another width": (narrowed, "do not fit"),
}


def loads(folder: Path) -> list[Callable[[], object]]:
    """Return each way in which the project loads a model."""
    settings = Encoder(pooling="mean", normalize=False, max_length=16)
    return [
        lambda: SentenceEncoder(folder, settings, CPU).model,
        lambda: load_model(folder, "single-label", 2, 0, 0),
        lambda: load_model(folder, "extractive", 2, 0, 0),
        lambda: entry_from_folder(folder, "mine", None, None),
    ]


def refused_measurement(folder: Path) -> str:
    """Return the error of `isotropy measure`, which must be of one line."""
    texts = folder.parent / "t.txt"
    texts.write_text("\n".join(sentences(8)))
    arguments = ["measure", str(folder), "--texts", str(texts), "--device", "cpu"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    return result.output


@pytest.mark.parametrize("case", REFUSED)
def test_weights_of_another_model_are_refused(case: str, tmp_path: Path) -> None:
    change, message = REFUSED[case]
    rename(folder := write_tiny_bert(tmp_path / "model"), change)
    for load in loads(folder):
        with pytest.raises(IsotropyError, match=message):
            load()
    assert re.search(message, refused_measurement(folder))


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_code_of_a_models_own_is_refused_even_if_its_type_is_known(
    kind: str, tmp_path: Path
) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    changed_config(model_type=kind, auto_map={"AutoModel": "modeling.JinaBertModel"})(folder)
    for load in loads(folder):
        with pytest.raises(IsotropyError, match="code of its own"):
            load()


def test_poolers_and_heads_may_be_missing_or_unused(tmp_path: Path) -> None:
    """As published checkpoints have them; all is in the description of the weights."""
    folder = write_tiny_bert(tmp_path / "model")
    expected = load_file(folder / "model.safetensors")
    rename(folder, without("pooler"))
    settings = Encoder(pooling="mean", normalize=False, max_length=16)
    encoder = SentenceEncoder(folder, settings, CPU)
    for name, value in encoder.model.state_dict().items():
        assert "pooler" in name or torch.equal(value, expected[name])
    assert encoder.weights["missing"] == ["pooler.dense.bias", "pooler.dense.weight"]
    assert encoder.weights["unused"] == []
    weights = load_model(folder, "single-label", 2, 0, 0).weights
    assert {"classifier.weight", "classifier.bias"} <= set(weights["missing"])
    config = BertConfig.from_pretrained(folder)
    for model_class in (AutoModelForMaskedLM, AutoModelForSequenceClassification):
        with_head = tmp_path / model_class.__name__
        write_tiny_bert(with_head)
        model = model_class.from_config(config)
        model.save_pretrained(with_head)  # names begin with "bert."
        encoder = SentenceEncoder(with_head, settings, CPU)
        loaded = encoder.model.state_dict()
        for name, value in model.bert.state_dict().items():
            assert torch.equal(value, loaded[name])
        assert any(re.match("cls|classifier", name) for name in encoder.weights["unused"])


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_refused_or_changes_nothing(seed: int, tmp_path: Path) -> None:
    """One to three tensors are renamed, left out or cut: the model is refused, or its hidden states
    are those of the undamaged one."""
    rng = np.random.default_rng(seed)
    folder = write_tiny_bert(tmp_path / "model")
    ids = torch.tensor([[2, 4, 7, 9, 3]])
    expected = load_weights(AutoModel, folder).model.eval()(ids).last_hidden_state

    def damage(tensors: Tensors) -> Tensors:
        for name in rng.choice(sorted(tensors), rng.integers(1, 4), replace=False).tolist():
            value = tensors.pop(name)
            kind = rng.integers(3)
            if kind == 0:
                prefix = rng.choice(["_orig_mod.", "model.", "x", "bert."])
                tensors[f"{prefix}{name}"] = value
            elif kind == 1:
                tensors[name] = value[: len(value) // 2].clone()
        return tensors

    rename(folder, damage)
    with suppress(IsotropyError):
        model = load_weights(AutoModel, folder).model.eval()
        assert torch.equal(model(ids).last_hidden_state, expected)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    """Weights in several files, as of large models; one was not downloaded."""
    folder = write_tiny_bert(tmp_path / "model")
    whole = AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    whole.save_pretrained(folder, max_shard_size="8KB")
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1
    entry_from_folder(folder, "mine", None, None)
    shards[0].unlink()
    for read in (
        lambda: entry_from_folder(folder, "mine", None, None),
        lambda: read_layout(folder),
    ):
        with pytest.raises(IsotropyError, match=f"no {shards[0].name}"):
            read()


def test_panics_of_the_tokenizer_are_one_sentence(tmp_path: Path) -> None:
    """A post-processor that names an unknown token lets the Rust code of tokenizers panic."""
    folder = write_tiny_bert(tmp_path / "model")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    special = tokenizer["post_processor"]["special_tokens"]
    special["[X]"] = special.pop("[CLS]")
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(IsotropyError, match="cannot read a text"):
        entry_from_folder(folder, "mine", None, None)
    assert "the model cannot be read" in refused_measurement(folder)
