"""Models of each architecture of the papers, read by us in padded batches and by plain transformers
one text at a time: the same tokens, hidden states and vectors."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from isotropy.embed.layers import read_layer, read_tokens
from isotropy.embed.sentence_encoder import SentenceEncoder, embed
from isotropy.embed.tokens import Extraction, extract
from isotropy.errors import IsotropyError
from isotropy.sources.encoder import Encoder
from tests.rehearsal import models
from tests.rehearsal.texts import Writer

NAMES = list(models.ARCHITECTURES)
CPU = torch.device("cpu")
LENGTH = 24
TEXTS = [
    *Writer(40).sentences(12),
    "ok",
    "Zürich, “so-called” U.S. café — don't!",
    "  blanks   before and \t between  ",
    "unbelievably long " * 30,
]
POSITIONS = {"gpt2": 1024}
"""Tokens that the real models read, where it is not 512."""


def encoder_of(folder: Path, **settings: Any) -> SentenceEncoder:
    chosen = {"pooling": "mean", "normalize": False, "max_length": LENGTH} | settings
    dtype = chosen.pop("dtype", torch.float32)
    return SentenceEncoder(folder, Encoder.model_validate(chosen), CPU, dtype)


def plain(folder: Path, texts: list[str], **cut: Any) -> list[tuple[list[int], Any]]:
    """Word pieces and all hidden states of each text alone, by transformers without more."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", **cut)
        with torch.inference_mode():
            states = model(**inputs, output_hidden_states=True).hidden_states
        found.append((inputs["input_ids"][0].tolist(), [state[0].numpy() for state in states]))
    return found


def extracted(
    encoder: SentenceEncoder, texts: list[str], folder: Path, window: int | None = None
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """The table of tokens, and the vectors of all layers."""
    layers = list(range(encoder.n_layers + 1))
    (folder / "out").mkdir()
    extraction = Extraction(encoder, texts, layers=layers, window=window, token_budget=128)
    extract(extraction, workers=1, work=folder / "work", folder=folder / "out", mark="m")
    return read_tokens(folder / "out"), [read_layer(folder / "out", i) for i in layers]


@pytest.mark.parametrize("name", NAMES)
def test_hidden_states(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Of all layers, from the embeddings (0) on: tokens, positions, masks and token types."""
    encoder = encoder_of(synthetic_models / name)
    tokens, layers = extracted(encoder, TEXTS, tmp_path)
    known = plain(synthetic_models / name, TEXTS, truncation=True, max_length=LENGTH)
    assert tokens["id"].tolist() == [i for ids, _ in known for i in ids]
    assert len(layers) == len(known[0][1]) == (7 if name in SIX_LAYERS else 13)
    for layer, vectors in enumerate(layers):
        expected = np.concatenate([states[layer] for _, states in known])
        assert np.abs(vectors - expected).max() < 2e-6 * max(1, np.abs(expected).max()), layer


SIX_LAYERS = [name for name in NAMES if "distil" in name or "MiniLM" in name]


@pytest.mark.parametrize("name", NAMES)
def test_layer_0_and_the_last(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Layer 0 is what the first block reads, and the last layer is the model's output: GPT-2's
    after its final norm, which the layers before have not passed."""
    model = AutoModel.from_pretrained(synthetic_models / name, dtype=torch.float32).eval()
    blocks = next(
        module
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) == (1 if name == "albert-base-v2" else model.config.num_hidden_layers)
    )
    first = blocks[0].albert_layers[0] if name == "albert-base-v2" else blocks[0]
    read: list[torch.Tensor] = []
    first.register_forward_pre_hook(lambda _, given: read.append(given[0][0]))
    _, layers = extracted(encoder := encoder_of(synthetic_models / name), TEXTS[:1], tmp_path)
    ids = torch.tensor([encoder.tokenize(TEXTS[:1])[0]])
    with torch.inference_mode():
        last = model(ids).last_hidden_state[0].numpy()
    assert np.abs(layers[0] - read[0].numpy()).max() < 1e-6
    assert np.abs(layers[-1] - last).max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """The first and the last of a text are marked, where the tokenizer adds any; a text that spells
    one out has it marked, too, or cut into pieces, but never loses a token."""
    tokens, _ = extracted(encoder_of(synthetic_models / name), TEXTS, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    for text, own in zip(TEXTS, (group for _, group in tokens.groupby("text")), strict=True):
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        added = 0 if "gpt" in name else 1
        assert own["special"].tolist() == [
            *[True] * added,
            *[False] * (len(own) - 2 * added),
            *[True] * added,
        ]
        kept = own.loc[~own["special"], "id"].tolist()
        assert kept == bare[: len(kept)]
        assert len(kept) == min(len(bare), LENGTH - 2 * added)
        assert own["position"].tolist() == list(range(len(own)))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("name", NAMES)
def test_pooling(name: str, pooling: str, synthetic_models: Path, tmp_path: Path) -> None:
    """The mean of all tokens, special ones among them, or the first; then norm 1."""
    encoder = encoder_of(synthetic_models / name, pooling=pooling, normalize=True)
    vectors, _ = embed(encoder, TEXTS, token_budget=128, workers=1, work=tmp_path)
    known = plain(synthetic_models / name, TEXTS, truncation=True, max_length=LENGTH)
    expected = np.stack(
        [states[-1].mean(axis=0) if pooling == "mean" else states[-1][0] for _, states in known]
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(vectors - expected).max() < 2e-6


@pytest.mark.parametrize("name", NAMES)
def test_windows_of_a_stream(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """All texts after one another, each with its special tokens, in windows of equal length; a
    model reads each window as it would read those tokens alone."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    texts = [*TEXTS[:8], "", *TEXTS[8:12]]
    stream = [i for text in texts for i in tokenizer(text)["input_ids"]]
    encoder = encoder_of(synthetic_models / name)
    tokens, layers = extracted(encoder, texts, tmp_path, window=16)
    n = len(stream) // 16
    assert n > 4
    assert tokens["id"].tolist() == stream[: 16 * n]
    model = AutoModel.from_pretrained(synthetic_models / name, dtype=torch.float32).eval()
    for i in range(n):
        ids = torch.tensor([stream[16 * i : 16 * (i + 1)]])
        with torch.inference_mode():
            states = model(ids, output_hidden_states=True).hidden_states
        for vectors, state in zip(layers, states, strict=True):
            rows = vectors[16 * i : 16 * (i + 1)]
            assert np.abs(rows - state[0].numpy()).max() < 2e-6 * max(1, float(state.abs().max()))


@pytest.mark.parametrize("name", NAMES)
def test_sub_words_of_words(name: str, synthetic_models: Path) -> None:
    """The pieces of a word between blanks are those that the tokenizer makes of the word alone;
    byte-level pairs have the blank before it."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    byte_level = name in ("gpt2", "roberta-base", "all-distilroberta-v1")
    texts = [text for text in TEXTS[:14] if text.strip() == text]
    pieces = encoder_of(synthetic_models / name, max_length=512).tokenize_marked(texts)
    for text, ids, numbers in zip(texts, pieces.ids, pieces.words, strict=True):
        for i, word in enumerate(text.split()):
            spelt = f" {word}" if byte_level and i else word
            alone = tokenizer(spelt, add_special_tokens=False)["input_ids"]
            assert [k for k, number in zip(ids, numbers, strict=True) if number == i] == alone
        assert max(numbers) == len(text.split()) - 1


@pytest.mark.parametrize("name", NAMES)
def test_the_longest_text_that_a_model_reads(name: str, synthetic_models: Path) -> None:
    """Is what transformers itself can read: one token more fails, but in MPNet and RoBERTa, whose
    positions begin behind the padding's, two positions are never used."""
    encoder = encoder_of(synthetic_models / name)
    assert encoder.longest == POSITIONS.get(name, 512)
    model = AutoModel.from_pretrained(synthetic_models / name).eval()
    ids = torch.full((1, encoder.longest + 1), 7)
    with torch.inference_mode():
        assert torch.isfinite(model(ids[:, :-1]).last_hidden_state).all()
        with pytest.raises((IndexError, RuntimeError)):
            model(ids)
    with pytest.raises(IsotropyError, match=f"reads at most {encoder.longest} tokens"):
        encoder_of(synthetic_models / name, max_length=encoder.longest + 1)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Vectors come as float32, and near those of full precision."""
    vectors = [
        embed(
            encoder_of(synthetic_models / name, dtype=dtype),
            TEXTS,
            token_budget=128,
            workers=1,
            work=tmp_path / str(dtype),
        )[0]
        for dtype in (torch.float32, torch.bfloat16)
    ]
    assert vectors[1].dtype == np.float32
    scale = np.abs(vectors[0]).max()
    assert 0 < np.abs(vectors[0] - vectors[1]).max() < 0.05 * scale


@pytest.mark.parametrize("name", [name for name in NAMES if "gpt" not in name])
def test_pairs_in_padded_rows(name: str, synthetic_models: Path) -> None:
    """Texts in pairs, padded to a length: token types where the tokenizer has them."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    model = AutoModel.from_pretrained(synthetic_models / name, dtype=torch.float32).eval()
    given = tokenizer(TEXTS[:6], TEXTS[6:12])
    encoder = encoder_of(synthetic_models / name)
    types = given.get("token_type_ids")
    found = encoder.encode_padded(given["input_ids"], types, 3, 64).numpy()
    assert found.shape == (6, 64, models.WIDTH)
    for i in range(6):
        alone = tokenizer(TEXTS[i], TEXTS[6 + i], return_tensors="pt")
        with torch.inference_mode():
            state = model(**alone, output_hidden_states=True).hidden_states[3][0].numpy()
        assert np.abs(found[i, : len(state)] - state).max() < 2e-6 * max(1, np.abs(state).max())


def test_cased_and_uncased(synthetic_models: Path) -> None:
    """As the real ones: cased models tell letters and accents apart, uncased ones do not; ALBERT
    drops accents and OpenAI GPT does, too."""
    for name in NAMES:
        tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
        tells = tokenizer("Café")["input_ids"] != tokenizer("cafe")["input_ids"]
        assert tells == (not models.ARCHITECTURES[name].lower), name
    assert unicodedata.normalize("NFKD", "é") != "é"
