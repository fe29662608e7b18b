"""`isotropy measure` runs models of sentence-transformers as the library does: for each module that
it ships, prompts, truncation, and folders of older versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    BoW,
    Dense,
    Dropout,
    LayerNorm,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from isotropy.errors import IsotropyError
from isotropy.measurement.run import Request, run
from isotropy.metrics import isoscore
from isotropy.models.hidden_states import Embedded
from replication.cli import app
from replication.sources.own.models import entry_from_folder
from tests.unit import tiny_models
from tests.unit.hub import serving
from tests.unit.tiny_models import (
    WORDS,
    change_json,
    changed_config,
    sentences,
    vectors,
    write_tiny_model,
)

TEXTS = [*sentences(40), "The CAT sat", " ".join(WORDS * 4), "cat"]
Modules = Callable[[Path], list[torch.nn.Module]]


def transformer(kind: str = "bert", **options: Any) -> Modules:
    return lambda folder: [Transformer(str(write_tiny_model(kind, folder)), **options)]


def with_pooling(*modules: torch.nn.Module, mode: Any = "mean", **options: Any) -> Modules:
    pooling = Pooling(16, pooling_mode=mode, **options)
    return lambda folder: [*transformer()(folder), pooling, *modules]


def static(folder: Path) -> list[torch.nn.Module]:
    write_tiny_model("bert", folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [StaticEmbedding(tokenizer, embedding_dim=12)]


def bag_of_words(_: Path) -> list[torch.nn.Module]:
    return [BoW(WORDS, word_weights={"cat": 3.0}), Dense(len(WORDS), 6)]


CASES: dict[str, Modules] = {
    "mean": with_pooling(),
    "cls": with_pooling(mode="cls"),
    "max": with_pooling(mode="max"),
    "last": with_pooling(mode="lasttoken"),
    "weighted mean": with_pooling(mode="weightedmean"),
    "square root": with_pooling(mode="mean_sqrt_len_tokens"),
    "two poolings": with_pooling(mode=("mean", "max")),
    "normalize": with_pooling(Normalize()),
    "dense": with_pooling(Dense(16, 9), Normalize()),
    "layer norm": with_pooling(LayerNorm(16), Dropout(0.3)),
    "lower case": lambda f: [*transformer(do_lower_case=True)(f), Pooling(16)],
    "cut": lambda f: [*transformer(max_seq_length=6)(f), Pooling(16)],
    "t5": lambda f: [*transformer("t5")(f), Pooling(16), Dense(16, 12, bias=False), Normalize()],
    "static": static,
    "bag of words": bag_of_words,
}


def saved(modules: Modules, folder: Path, **options: Any) -> tuple[Path, SentenceTransformer]:
    """Save a model; return its folder, and the model as the library loads it."""
    torch.manual_seed(0)
    model = SentenceTransformer(modules=modules(folder / "parts"), device="cpu", **options)
    model.save_pretrained(str(folder / "model"))
    return folder / "model", SentenceTransformer(str(folder / "model"), device="cpu")


def embedded(folder: Path, work: Path, **options: Any) -> Embedded:
    return tiny_models.embedded(folder, work, TEXTS, **options)


@pytest.mark.parametrize("case", CASES)
def test_output_equals_encode(case: str, tmp_path: Path) -> None:
    folder, peer = saved(CASES[case], tmp_path)
    expected = peer.encode(TEXTS)
    result = embedded(folder, tmp_path / "work")
    assert [cloud.layer for cloud in result.clouds] == ["output"]
    (obtained,) = vectors(result)
    assert obtained.shape == expected.shape
    assert np.abs(obtained - expected).max() < 2e-6 * max(1, np.abs(expected).max())
    assert result.model["modules"] == [type(module).__name__ for module in peer]
    assert result.model["library"].startswith("sentence-transformers ")


@pytest.mark.parametrize("case", ["mean", "two poolings", "normalize", "lower case", "cut", "t5"])
def test_hidden_layers_are_pooled_by_the_models_own_modules(case: str, tmp_path: Path) -> None:
    folder, peer = saved(CASES[case], tmp_path)
    result = embedded(folder, tmp_path / "work", layers=["0", "2", "output"])
    assert [cloud.layer for cloud in result.clouds] == [0, 2, "output"]
    first, last, output = vectors(result)
    rows = []
    for text in TEXTS:
        features = peer.preprocess([text])
        part = {k: features[k] for k in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            states = peer[0].model(**part, output_hidden_states=True).hidden_states
            pooled = peer[1]({**features, "token_embeddings": states[0]})
            pooled = peer[2](pooled) if case == "normalize" else pooled
        rows.append(pooled["sentence_embedding"][0].numpy())
    if case != "t5":
        assert np.abs(first - np.stack(rows)).max() < 2e-6
    if case in ("mean", "two poolings", "normalize"):
        assert np.abs(last - output).max() < 2e-6
    assert ("not applied to hidden layers: module Dense" in result.notes) == (case == "t5")


def test_prompts(tmp_path: Path) -> None:
    prompts = {"query": "the cat ", "passage": "far dog "}
    folder, peer = saved(CASES["mean"], tmp_path, prompts=prompts, default_prompt_name="query")
    by_name, by_text, none = {"prompt_name": "passage"}, {"prompt": "good film "}, {"prompt": ""}
    results = []
    for i, options in enumerate([{}, by_name, by_text, none]):
        result = embedded(folder, tmp_path / str(i), **options)
        results.append(vectors(result)[0])
        assert np.abs(results[-1] - peer.encode(TEXTS, **options)).max() < 2e-6
        expected = options.get("prompt", prompts[options.get("prompt_name", "query")])
        assert result.model["prompt"] == expected
        assert any(expected.strip() in note for note in result.notes) or not expected
    assert all(np.abs(a - b).max() > 1e-3 for a, b in pairwise(results))
    with pytest.raises(IsotropyError, match="did you mean 'query'"):
        embedded(folder, tmp_path / "unknown", prompt_name="qurey")


def test_prompt_left_out_of_the_mean(tmp_path: Path) -> None:
    modules = with_pooling(include_prompt=False)
    folder, peer = saved(modules, tmp_path, prompts={"q": "the cat "}, default_prompt_name="q")
    last, output = vectors(embedded(folder, tmp_path / "w", layers=["2", "output"]))
    assert np.abs(output - peer.encode(TEXTS)).max() < 2e-6
    assert np.abs(last - output).max() < 2e-6


def test_truncation(tmp_path: Path) -> None:
    folder, peer = saved(CASES["dense"], tmp_path, truncate_dim=7)
    result = embedded(folder, tmp_path / "a", layers=["2", "output"])
    assert [cloud.d for cloud in result.clouds] == [16, 7]
    assert np.abs(vectors(result)[1] - peer.encode(TEXTS)).max() < 2e-6
    (cut,) = vectors(embedded(folder, tmp_path / "b", truncate_dim=3))
    assert np.abs(cut - peer.encode(TEXTS, truncate_dim=3)).max() < 2e-6
    with pytest.raises(IsotropyError, match="2 to 9, got 10"):
        embedded(folder, tmp_path / "c", truncate_dim=10)


def test_explicit_pooling_reads_the_transformer_alone(tmp_path: Path) -> None:
    """Lower case and the longest text are the model's own also then."""
    short = transformer(do_lower_case=True, max_seq_length=6)
    folder, _ = saved(lambda f: [*short(f), Pooling(16), Normalize()], tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    expected = []
    for text in TEXTS:
        inputs = tokenizer(text.lower(), truncation=True, max_length=6, return_tensors="pt")
        with torch.inference_mode():
            expected.append(model.eval()(**inputs).last_hidden_state[0].mean(dim=0).numpy())
    result = embedded(folder, tmp_path / "work", pooling="mean")
    assert np.abs(vectors(result)[0] - np.stack(expected)).max() < 2e-6
    assert "not applied: normalization" in result.notes


def test_rows_per_token_leave_out_the_prompt(tmp_path: Path) -> None:
    folder = write_tiny_model("bert", tmp_path / "m")
    result = embedded(folder, tmp_path / "w", pooling="tokens", prompt="the dog ")
    assert result.types is not None
    cut = [text.split()[: 40 - 4] for text in TEXTS]
    known = ["[UNK]" if word not in WORDS else word for words in cut for word in words]
    assert result.types.tolist() == known


def renamed(file: str, prefix: str) -> Callable[[Path], object]:
    """Return the function that puts a prefix before the names of weights."""

    def change(folder: Path) -> None:
        tensors = {f"{prefix}{n}": value for n, value in load_file(folder / file).items()}
        save_file(tensors, folder / file, metadata={"format": "pt"})

    return change


def changed_pooling(**fields: str) -> Callable[[Path], object]:
    """Return the function that changes the entry of the second module."""

    def change(folder: Path) -> None:
        modules = json.loads((folder / "modules.json").read_text())
        modules[1] |= fields
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "modeling_mine.py").write_text("raise SystemExit('run')")

    return change


DENSE = "2_Dense/model.safetensors"
SETTINGS = "config_sentence_transformers.json"
REFUSED: dict[str, Callable[[Path], object]] = {
    "_orig_mod": renamed("model.safetensors", "_orig_mod."),
    "code of its own": changed_pooling(type="modeling_mine.Pooling"),
    "pickled": lambda folder: (folder / DENSE).rename(folder / "2_Dense/pytorch_model.bin"),
    "SparseEncoder": lambda folder: change_json(folder / SETTINGS, model_type="SparseEncoder"),
    "cannot be read": renamed(DENSE, "x."),
    "path in the folder": changed_pooling(path="../../1_Pooling"),
    "adapter": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "quantized": changed_config(quantization_config={"quant_method": "mine"}),
    "no tokenizer": lambda folder: [file.unlink() for file in folder.glob("tokenizer*")],
}


@pytest.mark.parametrize("word", REFUSED)
def test_damaged_models_are_refused_in_one_sentence(word: str, tmp_path: Path) -> None:
    folder, _ = saved(CASES["dense"], tmp_path)
    REFUSED[word](folder)
    with pytest.raises(IsotropyError, match=word) as refused:
        embedded(folder, tmp_path / "work")
    assert "\n" not in str(refused.value)


def test_surrogates_are_named(tmp_path: Path) -> None:
    folder = write_tiny_model("bert", tmp_path / "m")
    with pytest.raises(IsotropyError, match="text 2"):
        tiny_models.embedded(folder, tmp_path / "w", ["cat", "\ud83d dog"])


def test_workflow_refuses_what_it_would_not_apply(tmp_path: Path) -> None:
    options = {"prompts": {"q": "the "}, "default_prompt_name": "q", "truncate_dim": 4}
    folder, _ = saved(CASES["dense"], tmp_path, **options)
    with pytest.raises(IsotropyError, match="module Dense"):
        entry_from_folder(folder, "mine", None, None)
    about = entry_from_folder(folder, "mine", "mean", None).about
    assert "not applied: default prompt 'q', truncate_dim 4, module Dense" in about


def test_model_of_a_hub(tmp_path: Path) -> None:
    """All its modules are downloaded, and run."""
    folder, peer = saved(CASES["dense"], tmp_path, prompts={"q": "the "}, default_prompt_name="q")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    (texts := tmp_path / "t.txt").write_text("\n".join(TEXTS))
    request = Request(["owner/name"], texts=str(texts), metrics=["isoscore"], device="cpu")
    (tmp_path / "work").mkdir()
    with serving(files, tmp_path / "cache"):
        result = run(request, tmp_path / "work")
    (row,) = result.rows
    assert (row["layer"], row["d"]) == ("output", 9)
    assert row["isoscore"] == pytest.approx(float(isoscore(peer.encode(TEXTS))), rel=1e-4)
    assert result.models["owner/name"]["prompt"] == "the "


def test_record_says_what_was_loaded(tmp_path: Path) -> None:
    folder, _ = saved(CASES["dense"], tmp_path, prompts={"q": "the "}, default_prompt_name="q")
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    arguments = ["measure", str(folder), "--texts", str(tmp_path / "t.txt"), "--device", "cpu"]
    arguments += ["--truncate-dim", "5", "--record", str(tmp_path / "record.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (model,) = json.loads((tmp_path / "record.json").read_text())["models"].values()
    assert model["modules"] == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert (model["prompt"], model["truncate_dim"], model["pooling"]) == ("the ", 5, "mean")
    assert model["weights"]["missing"] == []
