"""`isotropy measure` on models: layers and pooling against transformers and sentence-transformers,
and models of a hub."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from isotropy.errors import IsotropyError
from isotropy.measurement.run import Request, Result, run
from isotropy.metrics import isoscore, self_similarity, type_cosines
from isotropy.models.hidden_states import Embedded, ModelOptions, embed_texts, read_layout
from tests.unit.hub import REVISION, Hub, use
from tests.unit.tiny_models import sentences, write_tiny_bert

TEXTS = sentences(60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def states(model: Path) -> list[list[np.ndarray]]:
    """Hidden states by transformers, one text at a time: per text and layer, of all tokens."""
    tokenizer, peer = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    with torch.inference_mode():
        result = [
            peer(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
            for text in TEXTS
        ]
    return [[layer[0].numpy() for layer in layers] for layers in result]


def embedded(model: Path, work: Path, pooling: str | None, layers: str = "all") -> Embedded:
    options = ModelOptions(layers.split(","), pooling, "cpu")  # type: ignore[arg-type]
    return embed_texts("model", model, TEXTS, options, work)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last", None])
def test_pooled_layers_equal_transformers(
    model: Path, states: list[list[np.ndarray]], tmp_path: Path, pooling: str | None
) -> None:
    pool = {"cls": lambda x: x[0], "last": lambda x: x[-1]}.get(str(pooling), lambda x: x.mean(0))
    obtained = embedded(model, tmp_path, pooling)
    assert [cloud.layer for cloud in obtained.clouds] == [0, 1, 2]
    for layer, cloud in enumerate(obtained.clouds):
        expected = np.stack([pool(text[layer]) for text in states])
        assert np.abs(cloud.rows(np.arange(60)) - expected).max() < 1e-6


def test_token_pooling_leaves_out_special_tokens(
    model: Path, states: list[list[np.ndarray]], tmp_path: Path
) -> None:
    obtained = embedded(model, tmp_path, "tokens", "-1")
    expected = np.concatenate([text[2][1:-1] for text in states])
    (cloud,) = obtained.clouds
    assert np.abs(cloud.rows(np.arange(len(expected))) - expected).max() < 1e-6
    assert obtained.types is not None
    assert obtained.types.tolist() == " ".join(TEXTS).split()
    assert obtained.texts.tolist() == [i for i, text in enumerate(TEXTS) for _ in text.split()]


def test_tokens_are_measured_by_word_and_sentence(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    (tmp_path / "work").mkdir()
    request = Request([str(model)], texts=str(tmp_path / "t.txt"), pooling="tokens")
    (row,) = run(request, tmp_path / "work").rows
    (tmp_path / "again").mkdir()
    result = embedded(model, tmp_path / "again", "tokens", "2")
    X = result.clouds[0].rows(np.arange(result.clouds[0].n))
    assert result.types is not None
    assert row["s_inter"] == pytest.approx(type_cosines(X, result.types).s_inter)
    frequent = np.isin(
        result.types, [t for t in set(result.types) if (result.types == t).sum() >= 5]
    )
    similar = self_similarity(X[frequent], result.types[frequent]).values.mean()
    assert row["self_similarity"] == pytest.approx(similar)
    assert {"explainable_variance_centred", "intra_sentence_null"} <= row.keys()


def test_labels_are_matched_to_samples_and_tokens(model: Path, tmp_path: Path) -> None:
    """With a sample of texts, and with tokens as rows."""
    lines = [json.dumps({"text": t, "label": int("good" in t)}) for t in TEXTS]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    request = Request([str(model)], texts=str(tmp_path / "t.jsonl"), labels="label", seed=3)
    changes: list[dict[str, object]] = [{"sample": 40}, {"pooling": "tokens"}]
    for change in changes:
        work = tmp_path / next(iter(change))
        work.mkdir()
        (row,) = run(request._replace(**change), work).rows
        assert -1 <= row["silhouette"] <= 1
        assert row["n"] == (40 if "sample" in change else sum(len(t.split()) for t in TEXTS))


@pytest.mark.study
def test_saved_sentence_transformer_gives_the_same_embeddings(minilm: Path, tmp_path: Path) -> None:
    """Pooling, normalization and length are read from the saved folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    transformer = Transformer(str(minilm), max_seq_length=32)
    modules = [transformer, Pooling(384, pooling_mode="cls"), Normalize()]
    peer = SentenceTransformer(modules=modules, device="cpu")
    peer.save(str(tmp_path / "saved"))
    layout = read_layout(tmp_path / "saved")
    assert (layout.pooling, layout.normalize, layout.max_length) == ("cls", True, 32)
    texts = ["A good film.", "A bad plot, and far too long: " + "word " * 60, "The cat sat."]
    (tmp_path / "work").mkdir()
    options = ModelOptions(device="cpu")
    result = embed_texts("saved", tmp_path / "saved", texts, options, tmp_path / "work")
    assert np.abs(result.clouds[0].rows(np.arange(3)) - peer.encode(texts)).max() < 1e-6
    assert "texts of at most 32 tokens, 1 of 3 reach that or are cut" in result.notes


@pytest.fixture
def hub(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A local hub with the model, which huggingface_hub uses, and an empty cache."""
    server = Hub({file.name: file.read_bytes() for file in model.iterdir()} | {"run.py": b"no()"})
    use(server, tmp_path / "cache", monkeypatch)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    yield server
    server.close()


def measured(name: str, folder: Path) -> Result:
    work = folder / f"work{len(list(folder.iterdir()))}"
    work.mkdir()
    return run(Request([name], texts=str(folder / "t.txt")), work)


@pytest.mark.parametrize("revision", ["", f"@{REVISION}"])
def test_cached_model_needs_no_hub(hub: Hub, model: Path, tmp_path: Path, revision: str) -> None:
    """The hub is closed before the second measurement; unneeded files are not downloaded."""
    first = measured(f"owner/name{revision}", tmp_path)
    assert f"owner/name{revision}: revision {REVISION}" in first.notes
    assert not list(tmp_path.rglob("run.py"))
    hub.close()
    again = f"hub:owner/name{revision}"
    assert measured(again, tmp_path).rows == [row | {"input": again} for row in first.rows]
    (tmp_path / "work").mkdir()
    X = embedded(model, tmp_path / "work", None, "-1").clouds[0].rows(np.arange(60))
    assert first.rows[0]["isoscore"] == pytest.approx(float(isoscore(X)))


def test_unreachable_hub_is_an_error(hub: Hub, tmp_path: Path) -> None:
    hub.close()
    with pytest.raises(IsotropyError, match=r"could not be read.*no such file or folder here"):
        measured("owner/name", tmp_path)


@pytest.mark.study
def test_interrupted_download_can_be_repeated(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All downloads are truncated at first; the next measurement succeeds."""
    sleep = time.sleep  # the hub's own client waits between its attempts
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(seconds / 50))
    hub.fault, hub.times = "truncate", 1000
    with pytest.raises(IsotropyError, match="could not be read") as refused:
        measured("owner/name", tmp_path)
    assert "\n" not in str(refused.value)
    hub.times = 0
    assert measured("owner/name", tmp_path).rows
