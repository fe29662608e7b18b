"""Token vectors of the real all-MiniLM-L6-v2: equal to the model's hidden states, and the same with
parts, shards, workers and interruptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isotropy.errors import IsotropyError
from isotropy.models.encoder import Encoder
from isotropy.models.sentence_encoder import Pieces, SentenceEncoder, embed
from replication.embed.layers import read_layer, read_tokens, token_rows
from replication.embed.tokens import Extraction, extract, extract_shard
from replication.sources.formats import read_rows
from replication.sources.spec import read_fetched
from tests.unit.interruption import interrupted_at


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> SentenceEncoder:
    return SentenceEncoder(
        minilm, Encoder(pooling="mean", normalize=True, max_length=64), torch.device("cpu")
    )


@pytest.fixture(scope="module")
def texts(minilm: Path) -> list[str]:
    polarity = minilm.parent / "polarity"
    rows = read_rows(read_fetched(polarity).content, polarity)[:60]
    return [*(row.texts[0] for row in rows), "word " * 100, "ok"]


class Copied(SentenceEncoder):
    """The encoder, of which a test changes a method."""

    def __init__(self, original: SentenceEncoder) -> None:
        self.__dict__.update(original.__dict__)


def run(
    encoder: SentenceEncoder, texts: list[str], folder: Path, *, workers: int = 1, **options: object
) -> dict[str, object]:
    (folder / "out").mkdir(parents=True)
    reading: dict[str, object] = {"layers": [0, 3, 6], "window": None, "token_budget": 512}
    extraction = Extraction(encoder, texts, **(reading | options))  # type: ignore[arg-type]
    return extract(
        extraction, workers=workers, work=folder / "work", folder=folder / "out", mark="m"
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def test_means_of_token_vectors_are_the_sentence_embeddings(
    encoder: SentenceEncoder, texts: list[str], tmp_path: Path
) -> None:
    measured = run(encoder, texts, tmp_path)
    tokens, last = read_tokens(tmp_path / "out"), read_layer(tmp_path / "out", 6)
    assert measured["texts_as_long_as_the_encoder_reads"] == 1
    assert tokens["piece"].iloc[0] == "[CLS]"
    pooled = np.stack([last[tokens["text"] == i].mean(axis=0) for i in range(len(texts))])
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    sentences, _ = embed(encoder, texts, token_budget=512, workers=1, work=tmp_path / "sentences")
    assert np.abs(pooled - sentences).max() < 1e-6


def test_parts_workers_and_interruption_do_not_change_a_bit(
    encoder: SentenceEncoder, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(encoder, texts, tmp_path / "whole")
    monkeypatch.setattr("replication.embed.tokens.PART_TOKENS", 300)
    with interrupted_at(2, SentenceEncoder, "encode_tokens"):
        run(encoder, texts, tmp_path / "killed")
    saved_parts = [p.name for p in (tmp_path / "killed/work").iterdir()]
    assert saved_parts == ["part000000.safetensors", "part000001.safetensors"]
    (tmp_path / "killed/out").rename(tmp_path / "killed/lost")
    measured = run(encoder, texts, tmp_path / "killed", workers=3)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert 0 < measured["tokens_found_computed"] < measured["tokens"]  # type: ignore[operator]


@pytest.mark.parametrize("shards", [1, 4, 30])
def test_shards_do_not_change_a_bit(
    encoder: SentenceEncoder,
    texts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shards: int,
) -> None:
    """Also with more shards than parts; merging needs no model, and rejects wrong or missing
    parts."""
    monkeypatch.setattr("replication.embed.tokens.PART_TOKENS", 300)
    run(encoder, texts, tmp_path, window=32)
    extraction = Extraction(encoder, texts, layers=[0, 3, 6], window=32, token_budget=512)
    folders = [tmp_path / f"shard{k}" for k in range(shards)]
    tokens = 0
    for k, folder in enumerate(folders):
        folder.mkdir()
        tokens += extract_shard(
            extraction, k + 1, shards, workers=1, work=tmp_path / f"work{k}", folder=folder
        )
    assert tokens == len(extraction.tokens)
    monkeypatch.setattr(SentenceEncoder, "encode_tokens", None)
    common = {"workers": 1, "work": tmp_path / "none", "mark": "m", "shards": folders}
    (tmp_path / "merged/out").mkdir(parents=True)
    out = tmp_path / "merged/out"
    measured = extract(extraction, folder=out, **common)  # type: ignore[arg-type]
    assert contents(tmp_path / "merged") == contents(tmp_path)
    assert measured["shards"] == shards
    other = Extraction(encoder, texts[::-1], layers=[0, 3, 6], window=32, token_budget=512)
    with pytest.raises(IsotropyError, match="not part 0"):
        extract(other, folder=tmp_path / "merged/out", **common)  # type: ignore[arg-type]
    next(path for folder in folders for path in folder.glob("part*")).unlink()
    with pytest.raises(IsotropyError, match="no shard"):
        extract(extraction, folder=tmp_path / "merged/out", **common)  # type: ignore[arg-type]


def test_windows_cut_the_stream_of_all_lines(
    encoder: SentenceEncoder, texts: list[str], tmp_path: Path
) -> None:
    """Lines with their special tokens are concatenated and cut at any place; a last short window is
    left out."""
    lines = ["", *texts[:8], "word " * 100, ""]
    measured = run(encoder, lines, tmp_path, window=32)
    stream = [i for line in lines for i in encoder.tokenizer(line)["input_ids"]]
    n_tokens = len(stream) // 32 * 32
    tokens = read_tokens(tmp_path / "out")
    assert tokens["id"].tolist() == stream[:n_tokens]
    assert measured["windows"] == n_tokens // 32
    assert measured["tokens_after_the_last_window"] == len(stream) - n_tokens
    ids = torch.tensor(stream[:n_tokens]).reshape(-1, 32)
    with torch.inference_mode():
        states = encoder.model(input_ids=ids, output_hidden_states=True).hidden_states
    for layer in (0, 3, 6):
        expected = states[layer].flatten(0, 1).numpy()
        assert np.abs(read_layer(tmp_path / "out", layer) - expected).max() < 1e-5
    assert tokens["special"].tolist() == [i in (101, 102) for i in stream[:n_tokens]]
    with pytest.raises(IsotropyError, match="window 513"):
        run(encoder, lines, tmp_path / "long", window=513)
    with pytest.raises(IsotropyError, match="fewer than one window"):
        run(encoder, ["ok"], tmp_path / "short", window=32)


def test_texts_without_tokens_do_not_affect_others(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    class Bare(Copied):
        """An encoder without special tokens, as GPT's."""

        def tokenize_pieces(self, texts: object, *, cut: bool = True) -> Pieces:
            result = super().tokenize_pieces(texts, cut=cut)  # type: ignore[arg-type]
            bare = ([row[1:-1] for row in rows] if rows else None for rows in result)
            return Pieces(*bare)  # type: ignore[arg-type]

    measured = run(Bare(encoder), [" ", "good", " ", "not so good"], tmp_path)
    assert measured["tokens"] == 4
    assert np.abs(read_layer(tmp_path / "out", 6)).max(axis=1).min() > 0
    assert read_tokens(tmp_path / "out")["text"].tolist() == [1, 3, 3, 3]
    with pytest.raises(IsotropyError, match="no tokens"):
        run(Bare(encoder), [" "], tmp_path / "none")


def test_unknown_layers_and_invalid_vectors_are_errors(
    encoder: SentenceEncoder, texts: list[str], tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match="layer 7"):
        run(encoder, texts, tmp_path / "a", layers=[1, 7])

    class Broken(Copied):
        def encode_tokens(self, ids: object, layers: object) -> list[torch.Tensor]:
            states = super().encode_tokens(ids, layers)  # type: ignore[arg-type]
            return [s * float("nan") for s in states]

    with pytest.raises(IsotropyError, match="NaN"):
        run(Broken(encoder), texts[:3], tmp_path / "b")


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_token_rows_of_chosen_texts(lengths: list[int], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=10))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    expected = [row for i in chosen for row in range(offsets[i], offsets[i + 1])]
    assert token_rows(offsets, np.array(chosen, dtype=int)).tolist() == expected
