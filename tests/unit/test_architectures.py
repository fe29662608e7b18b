"""Models of each architecture of the papers: our padded batches give the same tokens, hidden
states and vectors as plain transformers with one text at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from isotropy.errors import IsotropyError
from isotropy.models.encoder import Encoder
from isotropy.models.sentence_encoder import SentenceEncoder, embed
from replication.embed.layers import read_layer, read_tokens
from replication.embed.tokens import Extraction, extract
from tests import synthetic_models as models
from tests.synthetic_texts import Writer

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
"""Maximum numbers of tokens of the real models, where they are not 512."""


def make_encoder(folder: Path, **settings: Any) -> SentenceEncoder:
    chosen = {"pooling": "mean", "normalize": False, "max_length": LENGTH} | settings
    dtype = chosen.pop("dtype", torch.float32)
    return SentenceEncoder(folder, Encoder.model_validate(chosen), CPU, dtype)


def reference_states(folder: Path, texts: list[str], **cut: Any) -> list[tuple[list[int], Any]]:
    """Return word pieces and all hidden states of each text by plain transformers, one by one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    result = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", **cut)
        with torch.inference_mode():
            states = model(**inputs, output_hidden_states=True).hidden_states
        result.append((inputs["input_ids"][0].tolist(), [state[0].numpy() for state in states]))
    return result


def extract_all_layers(
    encoder: SentenceEncoder, texts: list[str], folder: Path, window: int | None = None
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Extract token vectors; return the table of tokens, and the vectors of all layers."""
    layers = list(range(encoder.n_layers + 1))
    (folder / "out").mkdir()
    extraction = Extraction(encoder, texts, layers=layers, window=window, token_budget=128)
    extract(extraction, workers=1, work=folder / "work", folder=folder / "out", mark="m")
    return read_tokens(folder / "out"), [read_layer(folder / "out", i) for i in layers]


@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_equal_transformers(
    name: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """For all layers from the embeddings (0); token positions and masks must be right for this."""
    encoder = make_encoder(synthetic_models / name)
    tokens, layers = extract_all_layers(encoder, TEXTS, tmp_path)
    reference = reference_states(synthetic_models / name, TEXTS, truncation=True, max_length=LENGTH)
    assert tokens["id"].tolist() == [i for ids, _ in reference for i in ids]
    assert len(layers) == len(reference[0][1]) == (7 if name in SIX_LAYERS else 13)
    for layer, vectors in enumerate(layers):
        expected = np.concatenate([states[layer] for _, states in reference])
        assert np.abs(vectors - expected).max() < 2e-6 * max(1, np.abs(expected).max()), layer


SIX_LAYERS = [name for name in NAMES if "distil" in name or "MiniLM" in name]


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_are_marked(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Tokens that the tokenizer adds at either end are marked; the others are the tokens of the
    text."""
    tokens, _ = extract_all_layers(make_encoder(synthetic_models / name), TEXTS, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    added = 0 if "gpt" in name else 1
    for text, (_, text_tokens) in zip(TEXTS, tokens.groupby("text"), strict=True):
        expected_ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        ends, rest = [True] * added, [False] * (len(text_tokens) - 2 * added)
        assert text_tokens["special"].tolist() == [*ends, *rest, *ends]
        plain_ids = text_tokens.loc[~text_tokens["special"], "id"].tolist()
        assert plain_ids == expected_ids[: len(plain_ids)]
        assert len(plain_ids) == min(len(expected_ids), LENGTH - 2 * added)
        assert text_tokens["position"].tolist() == list(range(len(text_tokens)))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("name", NAMES)
def test_pooled_vectors_equal_transformers(
    name: str, pooling: str, synthetic_models: Path, tmp_path: Path
) -> None:
    """The mean of all tokens, including special ones, or the first token; normalized."""
    encoder = make_encoder(synthetic_models / name, pooling=pooling, normalize=True)
    vectors, _ = embed(encoder, TEXTS, token_budget=128, workers=1, work=tmp_path)
    reference = reference_states(synthetic_models / name, TEXTS, truncation=True, max_length=LENGTH)
    expected = np.stack(
        [states[-1].mean(axis=0) if pooling == "mean" else states[-1][0] for _, states in reference]
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(vectors - expected).max() < 2e-6


@pytest.mark.parametrize("name", NAMES)
def test_windows_equal_transformers(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Texts with their special tokens are concatenated and cut into windows, whose hidden states
    equal those of single windows in transformers."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    texts = [*TEXTS[:8], "", *TEXTS[8:12]]
    stream = [i for text in texts for i in tokenizer(text)["input_ids"]]
    encoder = make_encoder(synthetic_models / name)
    tokens, layers = extract_all_layers(encoder, texts, tmp_path, window=16)
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
def test_pieces_of_words_are_those_of_single_words(name: str, synthetic_models: Path) -> None:
    """The pieces of a word in a text are those of the word alone; for byte-level BPE, with a blank
    before it."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    byte_level = name in ("gpt2", "roberta-base", "all-distilroberta-v1")
    texts = [text for text in TEXTS[:14] if text.strip() == text]
    pieces = make_encoder(synthetic_models / name, max_length=512).tokenize_pieces(texts)
    for text, ids, numbers in zip(texts, pieces.ids, pieces.words, strict=True):
        for i, word in enumerate(text.split()):
            spelt = f" {word}" if byte_level and i else word
            alone = tokenizer(spelt, add_special_tokens=False)["input_ids"]
            assert [k for k, number in zip(ids, numbers, strict=True) if number == i] == alone
        assert max(numbers) == len(text.split()) - 1


@pytest.mark.parametrize("name", NAMES)
def test_longest_text_is_the_limit_of_transformers(name: str, synthetic_models: Path) -> None:
    """With one more token transformers fails. (In MPNet and RoBERTa the first two of 514 positions
    are not used.)"""
    encoder = make_encoder(synthetic_models / name)
    assert encoder.longest == POSITIONS.get(name, 512)
    model = AutoModel.from_pretrained(synthetic_models / name).eval()
    ids = torch.full((1, encoder.longest + 1), 7)
    with torch.inference_mode():
        assert torch.isfinite(model(ids[:, :-1]).last_hidden_state).all()
        with pytest.raises((IndexError, RuntimeError)):
            model(ids)
    with pytest.raises(IsotropyError, match=f"at most {encoder.longest} "):
        make_encoder(synthetic_models / name, max_length=encoder.longest + 1)


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_in_bfloat16(name: str, synthetic_models: Path, tmp_path: Path) -> None:
    """Vectors are returned as float32, and near those of full precision."""
    vectors = []
    for dtype in (torch.float32, torch.bfloat16):
        encoder, work = make_encoder(synthetic_models / name, dtype=dtype), tmp_path / str(dtype)
        vectors.append(embed(encoder, TEXTS, token_budget=128, workers=1, work=work)[0])
    assert vectors[1].dtype == np.float32
    assert 0 < np.abs(vectors[0] - vectors[1]).max() < 0.05 * np.abs(vectors[0]).max()


@pytest.mark.parametrize("name", [name for name in NAMES if "gpt" not in name])
def test_padded_pairs_equal_transformers(name: str, synthetic_models: Path) -> None:
    """Pairs of texts are padded to a length; token types are used if the tokenizer has them."""
    tokenizer = AutoTokenizer.from_pretrained(synthetic_models / name)
    model = AutoModel.from_pretrained(synthetic_models / name, dtype=torch.float32).eval()
    given = tokenizer(TEXTS[:6], TEXTS[6:12])
    encoder = make_encoder(synthetic_models / name)
    types = given.get("token_type_ids")
    result = encoder.encode_padded(given["input_ids"], types, 3, 64).numpy()
    assert result.shape == (6, 64, models.WIDTH)
    for i in range(6):
        alone = tokenizer(TEXTS[i], TEXTS[6 + i], return_tensors="pt")
        with torch.inference_mode():
            state = model(**alone, output_hidden_states=True).hidden_states[3][0].numpy()
        assert np.abs(result[i, : len(state)] - state).max() < 2e-6 * max(1, np.abs(state).max())
