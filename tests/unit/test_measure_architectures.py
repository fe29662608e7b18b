"""`isotropy measure` and `isotropy sources add` on many architectures: hidden states are those that
transformers gives for one text at a time, or the model is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import (
    AutoModel,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from isotropy.errors import IsotropyError
from isotropy.models.hidden_states import Embedded, ModelOptions, embed_texts
from replication.sources.own.models import entry_from_folder
from tests.unit.tiny_architectures import ARCHITECTURES, ENCODER_DECODER, T5, write_tiny_model
from tests.unit.tiny_models import changed_config, sentences

TEXTS = [*sentences(9), "cat", "the cat sat on the mat and ran far and ran far"]
ENCODER_DECODERS = [
    kind
    for kind, fields in ARCHITECTURES.items()
    if fields is T5 or ENCODER_DECODER.items() <= fields.items() or kind == "prophetnet"
]
DEPEND_ON_PADDING = ["convbert", "fnet", "funnel", "nystromformer"]
"""They can read more than they were trained for."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("architectures")
    return {kind: write_tiny_model(kind, root / kind) for kind in ARCHITECTURES}


def embedded(folder: Path, work: Path, texts: list[str] = TEXTS, **options: Any) -> Embedded:
    work.mkdir(exist_ok=True)
    chosen = ModelOptions(**({"device": "cpu"} | options))
    return embed_texts("m", folder, texts, chosen, work)


def text_model(kind: str, folder: Path) -> Any:
    """Return the part of a model that reads texts, found by its name."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    if kind in ENCODER_DECODERS:
        return model.get_encoder()
    return model


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_hidden_layers_equal_those_of_single_texts(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders[kind]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), text_model(kind, folder)
    with torch.inference_mode():
        expected = [
            model(
                **tokenizer(text, return_tensors="pt", return_token_type_ids=False),
                output_hidden_states=True,
            ).hidden_states
            for text in TEXTS
        ]
    result = embedded(folder, tmp_path / "w", layers=["all"])
    assert len(result.clouds) == (4 if kind == "funnel" else 3)
    for cloud in result.clouds:
        means = torch.stack([states[int(cloud.layer)][0].mean(dim=0) for states in expected])
        obtained = cloud.rows(np.arange(len(TEXTS)))
        assert np.abs(obtained - means.numpy()).max() < 5e-6 * float(means.abs().max())
    assert result.model["weights"]["missing"] == []


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_add_reads_two_texts_first(kind: str, folders: dict[str, Path]) -> None:
    if kind in ENCODER_DECODERS:
        with pytest.raises(IsotropyError, match="several parts"):
            entry_from_folder(folders[kind], "mine", None, None)
    elif kind in DEPEND_ON_PADDING:
        with pytest.raises(IsotropyError, match="`isotropy measure` reads"):
            entry_from_folder(folders[kind], "mine", None, None)
    else:
        entry = entry_from_folder(folders[kind], "mine", None, None).entry
        assert (entry["size"]["width"], entry["size"]["layers"]) == (16, 2)


def test_layer_without_a_vector_per_token_is_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(IsotropyError, match="layer 2 has not one vector per token"):
        embedded(folders["funnel"], tmp_path / "w", layers=["2"])


def test_token_types_of_the_tokenizer_are_used(tmp_path: Path) -> None:
    """As XLNet's, whose single texts have types other than 0."""
    folder = write_tiny_model("bert", tmp_path / "m")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for part in tokenizer["post_processor"]["single"]:
        next(iter(part.values()))["type_id"] = 1
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | names))
    peer, model = AutoTokenizer.from_pretrained(folder), text_model("bert", folder)
    assert peer("cat")["token_type_ids"] == [1, 1, 1]
    with torch.inference_mode():
        expected = [
            model(**peer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0).numpy()
            for text in TEXTS
        ]
    (cloud,) = embedded(folder, tmp_path / "w").clouds
    assert np.abs(cloud.rows(np.arange(len(TEXTS))) - np.stack(expected)).max() < 5e-6


def test_prompt_ending_in_a_blank_takes_no_token_of_the_text(tmp_path: Path) -> None:
    """In byte-level BPE the blank belongs to the first token of the text."""
    folder = write_tiny_model("gpt2", tmp_path / "m", vocab_size=400)
    words = Tokenizer(BPE())
    words.pre_tokenizer = ByteLevel(add_prefix_space=False)
    words.train_from_iterator(
        TEXTS * 50, BpeTrainer(vocab_size=350, initial_alphabet=ByteLevel.alphabet())
    )
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    result = embedded(folder, tmp_path / "w", ["the cat sat"] * 2, pooling="tokens", prompt="dog: ")
    assert result.types is not None
    assert "".join(result.types).replace("Ġ", " ") == " the cat sat" * 2


def test_token_without_embedding_is_named(tmp_path: Path) -> None:
    folder = write_tiny_model("bert", tmp_path / "m", vocab_size=15)  # the tokenizer has 17
    good = "the cat sat on the mat"
    with pytest.raises(
        IsotropyError, match=r"text 2: token 'film' has id 16, and the model has 15"
    ):
        embedded(folder, tmp_path / "w", [good, "a good film"])
    assert embedded(folder, tmp_path / "v", [good, "the dog"]).clouds[0].n == 2


def test_failing_text_is_named(folders: dict[str, Path], tmp_path: Path) -> None:
    """The sixth text is longer than the model's window, which its configuration conceals."""
    folder = write_tiny_model("bert", tmp_path / "m")
    changed_config(max_position_embeddings=12)(folder)
    texts = [*TEXTS[:5], "cat " * 30, *TEXTS[5:]]
    with pytest.raises(IsotropyError, match=r"do not fit config\.json"):
        embedded(folder, tmp_path / "w", texts)
    folder = write_tiny_model("xlnet", tmp_path / "x")

    def fail(self: Any, input_ids: torch.Tensor, **_: Any) -> Any:
        if input_ids.shape[1] > 25:
            raise RuntimeError("The size of tensor a must match\nthe size of tensor b")
        return original(self, input_ids=input_ids, **_)

    from transformers import XLNetModel

    original = XLNetModel.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(XLNetModel, "forward", fail)
        with pytest.raises(IsotropyError) as refused:
            embedded(folder, tmp_path / "v", texts)
    message = "m: text 6: the model fails: The size of tensor a must match"
    assert re.fullmatch(message, str(refused.value))
