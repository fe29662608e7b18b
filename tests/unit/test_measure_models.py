"""`isotropy measure` on models: hidden states are those that transformers gives for one text at a
time, for many architectures, or the model is refused; pooling, labels, and models of a hub."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast, XLNetModel

from isotropy.errors import IsotropyError
from isotropy.measurement.run import Measurement, Request, run
from isotropy.metrics import isoscore, self_similarity, type_cosines
from isotropy.models.hidden_states import read_layout
from replication.sources.own.models import entry_from_folder
from tests.unit.hub import REVISION, Hub, serving
from tests.unit.tiny_models import (
    ARCHITECTURES,
    ENCODER,
    change_json,
    embedded,
    sentences,
    vectors,
    write_tiny_bert,
    write_tiny_model,
)

TEXTS = sentences(60)
FEW = [*TEXTS[:9], "cat", "the cat sat on the mat and ran far and ran far"]
ENCODER_DECODERS = ["bart", "t5"]
DEPEND_ON_PADDING = ["fnet", "funnel"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("architectures")
    return {kind: write_tiny_model(kind, root / kind) for kind in ARCHITECTURES}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("tiny") / "model")


def states_of(folder: Path, texts: list[str], **options: Any) -> list[list[np.ndarray]]:
    """Hidden states by transformers, one text at a time: per text and layer, of all tokens."""
    tokenizer, peer = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    peer = peer.get_encoder() if folder.name in ENCODER_DECODERS else peer
    result = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", **options)
        with torch.inference_mode():
            states = peer.eval()(**inputs, output_hidden_states=True).hidden_states
        result.append([layer[0].numpy() for layer in states])
    return result


@pytest.fixture(scope="module")
def states(model: Path) -> list[list[np.ndarray]]:
    return states_of(model, TEXTS)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_hidden_layers_equal_those_of_single_texts(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    result = embedded(folders[kind], tmp_path / "w", FEW, layers=["all"])
    assert len(result.clouds) == (4 if kind == "funnel" else 3)
    states = states_of(folders[kind], FEW, return_token_type_ids=False)
    for cloud, obtained in zip(result.clouds, vectors(result), strict=True):
        expected = np.stack([text[int(cloud.layer)].mean(axis=0) for text in states])
        assert np.abs(obtained - expected).max() < 5e-6 * np.abs(expected).max()
    assert result.model["weights"]["missing"] == []


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_add_reads_two_texts_first(kind: str, folders: dict[str, Path]) -> None:
    if kind in ENCODER_DECODERS + DEPEND_ON_PADDING:
        word = "several parts" if kind in ENCODER_DECODERS else "`isotropy measure` reads"
        with pytest.raises(IsotropyError, match=word):
            entry_from_folder(folders[kind], "mine", None, None)
    else:
        entry = entry_from_folder(folders[kind], "mine", None, None).entry
        assert (entry["size"]["width"], entry["size"]["layers"]) == (16, 2)


def test_model_of_one_length_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Landmarks of a Nyströmformer are means of parts of texts of 64 tokens."""
    fields = ENCODER | {"num_landmarks": 4, "max_position_embeddings": 64}
    monkeypatch.setitem(ARCHITECTURES, "nystromformer", fields)
    folder = write_tiny_model("nystromformer", tmp_path / "m")
    with pytest.raises(IsotropyError, match="texts of 3 and 6 tokens"):
        embedded(folder, tmp_path / "w", FEW)


def test_layer_without_a_vector_per_token_is_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match="one vector per token"):
        embedded(folders["funnel"], tmp_path / "w", FEW, layers=["2"])


def test_token_types_of_the_tokenizer_are_used(tmp_path: Path) -> None:
    """As XLNet's, whose single texts have types other than 0."""
    folder = write_tiny_model("bert", tmp_path / "m")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for part in tokenizer["post_processor"]["single"]:
        next(iter(part.values()))["type_id"] = 1
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    change_json(folder / "tokenizer_config.json", model_input_names=names)
    assert AutoTokenizer.from_pretrained(folder)("cat")["token_type_ids"] == [1, 1, 1]
    (obtained,) = vectors(embedded(folder, tmp_path / "w", FEW))
    expected = np.stack([text[-1].mean(axis=0) for text in states_of(folder, FEW)])
    assert np.abs(obtained - expected).max() < 5e-6


def test_prompt_ending_in_a_blank_takes_no_token_of_the_text(tmp_path: Path) -> None:
    """In byte-level BPE the blank belongs to the first token of the text."""
    folder = write_tiny_model("gpt2", tmp_path / "m", vocab_size=400)
    words = Tokenizer(BPE())
    words.pre_tokenizer = ByteLevel(add_prefix_space=False)
    words.train_from_iterator(
        FEW * 50, BpeTrainer(vocab_size=350, initial_alphabet=ByteLevel.alphabet())
    )
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    result = embedded(folder, tmp_path / "w", ["the cat sat"] * 2, pooling="tokens", prompt="dog: ")
    assert result.types is not None
    assert "".join(result.types).replace("Ġ", " ") == " the cat sat" * 2


def test_token_without_embedding_is_named(tmp_path: Path) -> None:
    folder = write_tiny_model("bert", tmp_path / "m", vocab_size=15)  # the tokenizer has 17
    good = "the cat sat on the mat"
    with pytest.raises(IsotropyError, match="text 2: token 'film'"):
        embedded(folder, tmp_path / "w", [good, "a good film"])
    assert embedded(folder, tmp_path / "v", [good, "the dog"]).clouds[0].n == 2


def test_failing_text_is_named(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sixth text is longer than the model's window, which its configuration conceals."""
    original = XLNetModel.forward

    def fail(self: Any, input_ids: torch.Tensor, **_: Any) -> Any:
        if input_ids.shape[1] > 25:
            raise RuntimeError("The size of tensor a must match\nthe size of tensor b")
        return original(self, input_ids=input_ids, **_)

    monkeypatch.setattr(XLNetModel, "forward", fail)
    with pytest.raises(IsotropyError, match="text 6") as refused:
        embedded(folders["xlnet"], tmp_path / "v", [*FEW[:5], "cat " * 30, *FEW[5:]])
    assert str(refused.value).endswith("The size of tensor a must match")


@pytest.mark.parametrize("pooling", ["mean", "cls", "last", None])
def test_pooled_layers_equal_transformers(
    model: Path, states: list[list[np.ndarray]], tmp_path: Path, pooling: str | None
) -> None:
    pool = {"cls": lambda x: x[0], "last": lambda x: x[-1]}.get(str(pooling), lambda x: x.mean(0))
    result = embedded(model, tmp_path, TEXTS, pooling=pooling, layers=["all"])
    assert [cloud.layer for cloud in result.clouds] == [0, 1, 2]
    for layer, obtained in enumerate(vectors(result)):
        expected = np.stack([pool(text[layer]) for text in states])
        assert np.abs(obtained - expected).max() < 1e-6


def test_token_pooling_leaves_out_special_tokens(
    model: Path, states: list[list[np.ndarray]], tmp_path: Path
) -> None:
    result = embedded(model, tmp_path, TEXTS, pooling="tokens", layers=["-1"])
    expected = np.concatenate([text[2][1:-1] for text in states])
    assert np.abs(vectors(result)[0] - expected).max() < 1e-6
    assert result.types is not None
    assert result.types.tolist() == " ".join(TEXTS).split()
    assert result.texts.tolist() == [i for i, text in enumerate(TEXTS) for _ in text.split()]


def test_tokens_are_measured_by_word_and_sentence(model: Path, tmp_path: Path) -> None:
    (row,) = measured(str(model), tmp_path, pooling="tokens").rows
    result = embedded(model, tmp_path / "again", TEXTS, pooling="tokens", layers=["2"])
    (X,), types = vectors(result), result.types
    assert types is not None
    assert row["s_inter"] == pytest.approx(type_cosines(X, types).s_inter)
    frequent = np.isin(types, [t for t in set(types) if (types == t).sum() >= 5])
    similar = self_similarity(X[frequent], types[frequent]).values.mean()
    assert row["self_similarity"] == pytest.approx(similar)
    assert {"explainable_variance_centred", "intra_sentence_null"} <= row.keys()


@pytest.mark.parametrize(
    ("options", "n"),
    [({"sample": 40}, 40), ({"pooling": "tokens"}, sum(len(text.split()) for text in TEXTS))],
)
def test_labels_are_matched_to_samples_and_tokens(
    options: dict[str, object], n: int, model: Path, tmp_path: Path
) -> None:
    lines = [json.dumps({"text": t, "label": int("good" in t)}) for t in TEXTS]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    request = Request([str(model)], texts=str(tmp_path / "t.jsonl"), labels="label", seed=3)
    (row,) = run(request._replace(**options), tmp_path).rows
    assert -1 <= row["silhouette"] <= 1
    assert row["n"] == n


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
    result = embedded(tmp_path / "saved", tmp_path / "work", texts)
    assert np.abs(vectors(result)[0] - peer.encode(texts)).max() < 1e-6
    assert "texts of at most 32 tokens, 1 of 3 reach that or are cut" in result.notes


@pytest.fixture
def hub(model: Path, tmp_path: Path) -> Iterator[Hub]:
    """A local hub with the model, which huggingface_hub uses, and an empty cache."""
    files = {file.name: file.read_bytes() for file in model.iterdir()} | {"run.py": b"no()"}
    with serving(files, tmp_path / "cache") as server:
        yield server


def measured(name: str, folder: Path, **options: object) -> Measurement:
    (folder / "t.txt").write_text("\n".join(TEXTS))
    work = folder / f"work{len(list(folder.iterdir()))}"
    work.mkdir()
    return run(Request([name], texts=str(folder / "t.txt"))._replace(**options), work)


@pytest.mark.parametrize("revision", ["", f"@{REVISION}"])
def test_cached_model_needs_no_hub(hub: Hub, model: Path, tmp_path: Path, revision: str) -> None:
    """The hub is closed before the second measurement; unneeded files are not downloaded."""
    first = measured(f"owner/name{revision}", tmp_path)
    assert f"owner/name{revision}: revision {REVISION}" in first.notes
    assert not list(tmp_path.rglob("run.py"))
    hub.close()
    again = f"hub:owner/name{revision}"
    assert measured(again, tmp_path).rows == [row | {"input": again} for row in first.rows]
    (X,) = vectors(embedded(model, tmp_path / "work", TEXTS, layers=["-1"]))
    assert first.rows[0]["isoscore"] == pytest.approx(float(isoscore(X)))


def test_unreachable_hub_is_an_error(hub: Hub, tmp_path: Path) -> None:
    hub.close()
    with pytest.raises(IsotropyError, match="could not be read"):
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
