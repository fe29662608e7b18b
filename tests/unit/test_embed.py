"""Embeddings of the real all-MiniLM-L6-v2 against sentence-transformers; they do not depend on
workers, parts and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from isotropy.device import pick_device
from isotropy.errors import IsotropyError
from isotropy.models.batches import batches
from isotropy.models.encoder import Encoder
from isotropy.models.sentence_encoder import SentenceEncoder, embed
from replication.embed.words import look_up
from replication.sources.formats import StaticVectors, read_rows
from replication.sources.spec import read_fetched

MINILM = Encoder(pooling="mean", normalize=True, max_length=256)


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> SentenceEncoder:
    return SentenceEncoder(minilm, MINILM, torch.device("cpu"))


@pytest.fixture(scope="module")
def texts(minilm: Path) -> list[str]:
    """Real sentences, a text far beyond the maximum length, and an empty text."""
    polarity = minilm.parent / "polarity"
    rows = read_rows(read_fetched(polarity).content, polarity)[:150]
    return [*(row.texts[0] for row in rows), "word " * 400, ""]


def test_embeddings_equal_sentence_transformers(
    encoder: SentenceEncoder, texts: list[str], minilm: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    peer = SentenceTransformer(
        modules=[
            Transformer(str(minilm), max_seq_length=256),
            Pooling(encoder.dim, pooling_mode="mean"),
            Normalize(),
        ],
        device="cpu",
    )
    ours, _ = embed(encoder, texts, token_budget=2048, workers=2, work=tmp_path)
    assert ours.dtype == np.float32
    assert np.abs(ours - peer.encode(texts)).max() < 1e-6


def test_workers_and_parts_do_not_change_a_bit(
    encoder: SentenceEncoder, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_one_part, _ = embed(encoder, texts, token_budget=512, workers=1, work=tmp_path / "a")
    monkeypatch.setattr("isotropy.models.sentence_encoder.TEXTS_PER_PART", 40)
    parts, _ = embed(encoder, texts, token_budget=512, workers=3, work=tmp_path / "b")
    assert in_one_part.tobytes() == parts.tobytes()
    # Resumed with one part missing: only this part is computed.
    next((tmp_path / "b").glob("part*")).unlink()
    again, measured = embed(encoder, texts, token_budget=512, workers=2, work=tmp_path / "b")
    assert again.tobytes() == in_one_part.tobytes()
    assert 0 < len(texts) - measured["texts_taken_up_from_a_killed_run"] < 80


def test_batches_cover_every_text_within_the_budget() -> None:
    lengths = [5, 200, 7, 5, 1000, 6]
    result = batches(lengths, 64)
    assert sorted(i for batch in result for i in batch) == list(range(6))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= 64 for b in result)


def test_missing_gpu_is_an_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(IsotropyError, match="no GPU"):
        pick_device("cuda")
    assert pick_device("auto").type == "cpu"


def test_words_are_looked_up() -> None:
    table = StaticVectors(["tea", "cup", "tea"], np.arange(6, dtype=np.float32).reshape(3, 2))
    assert look_up(table, ["cup", "tea"]).tolist() == [[2, 3], [0, 1]]
    with pytest.raises(IsotropyError, match="'pot'"):
        look_up(table, ["pot"])
