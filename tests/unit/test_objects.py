"""What is handed to `isotropy.measure` as an object is what is measured: a model with its class,
hooks, precision and mode; labels, texts and frames by their values, whatever library holds them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModel, AutoTokenizer

import isotropy
from isotropy.errors import IsotropyError
from isotropy.integrations.sentence_transformers import ClusterEnhancementModule
from isotropy.metrics import isoscore, silhouette
from isotropy.transforms import ClusterBasedEnhancement
from tests.unit.tiny_models import change_json, sentences, write_tiny_bert, write_tiny_model

TEXTS = sentences(40)


class BidirectionalLlama(transformers.LlamaModel):
    """Each token attends to all tokens."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **kwargs: Any) -> Any:
        if attention_mask is not None:
            length = attention_mask.shape[1]
            attention_mask = attention_mask.bool()[:, None, None].expand(-1, 1, length, -1)
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)


class DoubledBert(transformers.BertModel):
    """A subclass whose forward pass gives other states."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().forward(*args, **kwargs)
        outputs.hidden_states = tuple(h * torch.arange(1, 17) for h in outputs.hidden_states)
        return outputs


def hooked(part: Callable[[Any], nn.Module], *, before: bool = False) -> Callable[[Any], None]:
    """A change of what a part gives, or gets."""

    def change(model: Any) -> None:
        scale = torch.linspace(0.1, 3, 16)
        if before:
            part(model).register_forward_pre_hook(lambda _, args: (args[0] * scale, *args[1:]))
        else:
            part(model).register_forward_hook(lambda _, args, output: output * scale)

    return change


def add_to(name: str, value: float) -> Callable[[Any], None]:
    """A change of the parameters whose names end so."""

    def change(model: Any) -> None:
        for key, weight in model.named_parameters():
            if key.endswith(name):
                weight.data += value * torch.arange(weight.numel()).view(weight.shape).cos()

    return change


def activation(model: Any) -> None:
    for layer in model.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.Tanh()


def patched_forward(model: Any) -> None:
    output = model.encoder.layer[1].output
    forward = output.forward
    output.forward = lambda *args: forward(*args) * torch.linspace(0.1, 3, 16)


def pruned(model: Any) -> None:
    del model.encoder.layer[1]


def lora(model: Any) -> None:
    """As adapters do: a layer is replaced by one with a part of low rank."""
    query = model.encoder.layer[0].attention.self.query
    low = nn.Sequential(nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False))
    model.encoder.layer[0].attention.self.query = Sum(query, low)


class Sum(nn.Module):
    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + 20 * self.b(x)


def decoder(model: Any) -> None:
    model.config.is_decoder = True
    model.set_attn_implementation("eager")  # the only one that reads it after the model is built


def resized(model: Any) -> None:
    model.resize_token_embeddings(40)


Change = Callable[[Any], object]
CHANGES: dict[str, tuple[str, Change]] = {
    "hook on a layer": ("bert", hooked(lambda m: m.encoder.layer[0].output)),
    "hook on the embeddings": ("bert", hooked(lambda m: m.embeddings)),
    "hook before a layer": ("bert", hooked(lambda m: m.encoder.layer[1], before=True)),
    "activation": ("bert", activation),
    "decoder": ("bert", decoder),
    "patched forward": ("bert", patched_forward),
    "pruned": ("bert", pruned),
    "adapter": ("bert", lora),
    "resized": ("bert", resized),
    "weights": ("bert", add_to("query.weight", 5)),
    "norm": ("bert", add_to("LayerNorm.weight", 0.9)),
    "half precision": ("bert", lambda m: m.bfloat16()),
    "double precision": ("bert", lambda m: m.double()),
    "attention": ("bert", lambda m: m.set_attn_implementation("eager")),
    "training mode": ("bert", lambda m: m.train()),
    "subclass": ("bert", DoubledBert),
    "bidirectional": ("llama", BidirectionalLlama),
    "causal": ("llama", transformers.LlamaForCausalLM),
    "hook in a decoder": ("llama", hooked(lambda m: m.layers[0].mlp)),
    "outputs as tuples": ("bert", lambda m: setattr(m.config, "return_dict", False)),
    "encoder of a pair": ("t5", hooked(lambda m: m.get_encoder().block[0].layer[0].layer_norm)),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    wide = {"initializer_range": 0.3}  # so that attention matters
    return {kind: write_tiny_model(kind, root / kind, **wide) for kind in ("bert", "llama", "t5")}


def pooled_states(model: Any, tokenizer: Any, layer: int) -> np.ndarray:
    """Mean of the states of the tokens, by one pass per text."""
    rows = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.inference_mode():
            options = {"output_hidden_states": True, "return_dict": True}
            states = model(**inputs, **options).hidden_states[layer][0]
        rows.append(states.float().mean(dim=0).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("change", CHANGES)
def test_model_is_measured_as_it_is(change: str, folders: dict[str, Path]) -> None:
    """Twenty-one ways to change a loaded model: IsoScore is that of the states it gives."""
    kind, apply = CHANGES[change]
    torch.manual_seed(0)
    model_class = apply if isinstance(apply, type) else AutoModel
    model, tokenizer = (C.from_pretrained(folders[kind]) for C in (model_class, AutoTokenizer))
    if not isinstance(apply, type):
        apply(model)
    modes = [module.training for module in model.modules()]
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    measured = isotropy.measure((model, tokenizer), texts=TEXTS, metrics="isoscore")
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(weights[name], w) for name, w in model.state_dict().items())
    model.eval()
    expected = pooled_states(model.get_encoder() if kind == "t5" else model, tokenizer, -1)
    tolerance = 2e-2 if change == "half precision" else 1e-4
    assert measured["isoscore"].item() == pytest.approx(isoscore(expected), rel=tolerance)
    same = "causal", "training mode", "attention", "resized", "double precision"
    if change not in (*same, "outputs as tuples"):
        plain = AutoModel.from_pretrained(folders[kind])
        untouched = isotropy.measure((plain, tokenizer), texts=TEXTS, metrics="isoscore")
        assert measured["isoscore"].item() != pytest.approx(untouched["isoscore"].item(), rel=1e-5)


def sentence_model(folder: Path) -> SentenceTransformer:
    transformer = Transformer(str(write_tiny_model("bert", folder, initializer_range=0.3)))
    return SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").eval()


def own_encode(model: Any) -> None:
    encode = model.encode
    model.encode = lambda texts, **options: encode(texts, **options)[:, ::-1] ** 3


def bare_encode(model: Any) -> None:
    encode = model.encode
    model.encode = lambda sentences: encode(sentences) * np.arange(16)


def enhanced(model: Any) -> None:
    transform = ClusterBasedEnhancement(3, 1, random_state=0).fit(model.encode(TEXTS))
    model.append(ClusterEnhancementModule.of(transform))


SENTENCE_CHANGES: dict[str, Change] = {
    "own encode": own_encode,
    "encode without options": bare_encode,
    "hook in its transformer": lambda m: hooked(lambda x: x[0].model.embeddings)(m),
    "hook on the model": lambda m: m[1].register_forward_hook(
        lambda _, args, out: out | {"sentence_embedding": out["sentence_embedding"] ** 3}
    ),
    "module of ours": enhanced,
    "normalized": lambda m: m.append(Normalize()),
    "truncated": lambda m: setattr(m, "truncate_dim", 5),
    "cut": lambda m: setattr(m, "max_seq_length", 4),
    "half precision": lambda m: m.bfloat16(),
    "training mode": lambda m: m.train(),
}


@pytest.mark.parametrize("change", SENTENCE_CHANGES)
def test_sentence_model_is_measured_as_it_is(change: str, tmp_path: Path) -> None:
    model = sentence_model(tmp_path)
    SENTENCE_CHANGES[change](model)
    measured = isotropy.measure(model, texts=TEXTS, metrics="isoscore")
    assert model.training == (change == "training mode")
    expected = model.encode(TEXTS)
    tolerance = 2e-2 if change == "half precision" else 1e-4
    assert measured["isoscore"].item() == pytest.approx(isoscore(expected), rel=tolerance)
    assert measured["d"].item() == expected.shape[1]


def test_hidden_layers_of_a_given_sentence_model(tmp_path: Path) -> None:
    model = sentence_model(tmp_path)
    SENTENCE_CHANGES["hook in its transformer"](model)
    by_layer = isotropy.measure(model, texts=TEXTS, layers=[1, 2], metrics="isoscore")["isoscore"]
    last = isotropy.measure(model, texts=TEXTS, metrics="isoscore")["isoscore"]
    assert by_layer.iloc[1] == pytest.approx(last.item(), rel=1e-5)
    assert by_layer.iloc[0] != pytest.approx(last.item(), rel=1e-3)
    tokens = isotropy.measure(model, texts=TEXTS, pooling="tokens", metrics="isoscore")
    pair = (model[0].model, model.tokenizer)
    expected = isotropy.measure(pair, texts=TEXTS, pooling="tokens", metrics="isoscore")
    assert tokens["isoscore"].item() == expected["isoscore"].item()


def test_wrapped_models_and_heads(folders: dict[str, Path]) -> None:
    """A model for several devices; one with a head, whose states are those of its base."""
    model, tokenizer = (C.from_pretrained(folders["bert"]) for C in (AutoModel, AutoTokenizer))
    expected = isotropy.measure((model, tokenizer), texts=TEXTS)
    wrapped = isotropy.measure((nn.DataParallel(model), tokenizer), texts=TEXTS)
    pd.testing.assert_frame_equal(wrapped.drop(columns="input"), expected.drop(columns="input"))
    head = transformers.BertForMaskedLM(model.config)
    head.bert.load_state_dict(model.state_dict(), strict=False)
    compiled = torch.compile(nn.DataParallel(model), backend="eager")
    again = isotropy.measure((compiled, tokenizer), texts=TEXTS)
    pd.testing.assert_frame_equal(again.drop(columns="input"), expected.drop(columns="input"))
    with_head = isotropy.measure((head, tokenizer), texts=TEXTS)
    assert with_head["isoscore"].item() == pytest.approx(expected["isoscore"].item(), rel=1e-6)


@pytest.mark.parametrize(
    ("parts", "options", "word"),
    [
        (lambda m, t: m, {}, "tokenizer"),
        (lambda m, t: (m, "bert"), {}, "tokenizer"),
        (lambda m, t: (t, m), {}, "tokenizer"),
        (lambda m, t: (nn.Linear(2, 2), t), {}, "tokenizer"),
        (lambda m, t: nn.Sequential(m), {}, "tokenizer"),
        (lambda m, t: (m, t), {"device": "cuda"}, "cpu"),
        (lambda m, t: (m, t), {"texts": None}, "texts"),
    ],
)
def test_models_that_cannot_be_run(
    parts: Callable[[Any, Any], Any],
    options: dict[str, Any],
    word: str,
    folders: dict[str, Path],
) -> None:
    pair = (C.from_pretrained(folders["bert"]) for C in (AutoModel, AutoTokenizer))
    with pytest.raises(IsotropyError, match=word):
        isotropy.measure(parts(*pair), **{"texts": TEXTS, **options})


@pytest.mark.parametrize("name", ["LlamaBiModel", "BertForEverything"])
def test_folder_of_an_unknown_class_is_refused(name: str, tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "m")
    change_json(folder / "config.json", architectures=[name])
    with pytest.raises(IsotropyError, match=name):
        isotropy.measure(folder, texts=TEXTS)
    change_json(folder / "config.json", architectures=["TFBertForMaskedLM"])
    assert len(isotropy.measure(folder, texts=TEXTS)) == 1


def test_folder_of_an_adapter_is_refused(tmp_path: Path) -> None:
    """As PEFT saves it, without the model. (In memory it is run as any other change of a model.)"""
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(IsotropyError, match="merge_and_unload"):
        isotropy.measure(tmp_path, texts=TEXTS)


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "NumPy": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "column": lambda values: np.array(values)[:, None],
    "pandas": pd.Series,
    "pandas objects": lambda values: pd.Series(values, dtype=object),
    "pandas index": pd.Index,
    "pandas categories": lambda values: pd.Series(values, dtype="category"),
    "pandas frame": lambda values: pd.DataFrame({"y": values}),
    "polars": pl.Series,
    "polars frame": lambda values: pl.DataFrame({"y": values}),
    "Arrow": pa.array,
    "Arrow chunks": lambda values: pa.chunked_array([values[:7], values[7:]]),
    "Arrow frame": lambda values: pa.table({"y": values}),
    "generator": lambda values: (value for value in values),
    "Arrow dictionary": lambda values: pa.array(values).dictionary_encode(),
}
CLASSES = [i % 3 for i in range(40)]


class Colour(enum.Enum):
    RED, GREEN, BLUE = 0, 1, 2


VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda i: i,
    "float": float,
    "str": str,
    "bool": lambda i: i > 0,
    "date": lambda i: date(2020, 1, 1 + i),
}


@pytest.fixture(scope="module")
def cloud() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 4)) + np.array(CLASSES)[:, None]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("column", COLUMNS)
def test_labels_of_any_type(column: str, kind: str, cloud: np.ndarray) -> None:
    values = [VALUES[kind](i) for i in CLASSES]
    measured = isotropy.measure(cloud, labels=COLUMNS[column](values), metrics="silhouette")
    codes = np.unique(np.array(list(map(repr, values))), return_inverse=True)[1]
    assert measured["silhouette"].item() == pytest.approx(float(silhouette(cloud, codes)))


def test_labels_are_compared_by_value(cloud: np.ndarray) -> None:
    """1, 1.0, True and numbers of other libraries are one class; "1" is another."""
    ones = [1, 1.0, True, np.int8(1), np.float32(1), Decimal(1), torch.tensor(1), np.array(1.0)]
    zeros = [0, -0.0, 0.0, False, np.uint8(0), Decimal(0), torch.tensor(0.0), np.bool_(False)]
    labels = [(zeros if c == 0 else ones)[i % 8] for i, c in enumerate(CLASSES)]
    expected = float(silhouette(cloud, np.minimum(CLASSES, 1)))
    measured = isotropy.measure(cloud, labels=labels, metrics="silhouette")
    assert measured["silhouette"].item() == pytest.approx(expected)
    spelt = isotropy.measure(cloud, labels=[0, 1, "1"] * 13 + [0], metrics="silhouette")
    expected = float(silhouette(cloud, np.array(CLASSES)))
    assert spelt["silhouette"].item() == pytest.approx(expected)
    colours = [Colour(c) for c in CLASSES]
    named = isotropy.measure(cloud, labels=colours, metrics="silhouette")
    assert named["silhouette"].item() == pytest.approx(expected)


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.nan, pd.NA, pd.NaT, "", Decimal("nan")], ids=repr
)
def test_missing_labels_are_named(missing: Any, cloud: np.ndarray) -> None:
    with pytest.raises(ValueError, match="labels 3 is missing"):
        isotropy.measure(cloud, labels=[1, 2, missing, *CLASSES[3:]])


@pytest.mark.parametrize(
    "labels",
    [set(CLASSES), {"a": 1}, 3, b"abc", [[1]] * 40, [np.ones(2)] * 40, [torch.ones(2)] * 40,
     np.ones((40, 2)), (i for i in range(3)), np.array(3), torch.tensor(3), "01" * 200],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_what_is_no_label_is_refused(labels: Any, cloud: np.ndarray) -> None:
    with pytest.raises(ValueError, match="labels"):
        isotropy.measure(cloud, labels=labels)


@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "bytes"])
def test_texts_of_any_column(column: str, folders: dict[str, Path]) -> None:
    expected = isotropy.measure(folders["bert"], texts=TEXTS)
    measured = isotropy.measure(folders["bert"], texts=COLUMNS[column](TEXTS))
    pd.testing.assert_frame_equal(measured, expected)


@pytest.mark.parametrize(
    "convert",
    [str.encode, lambda text: Colour.RED, lambda text: date(2020, 1, 1), lambda text: 1.5,
     lambda text: torch.ones(()), lambda text: [text], lambda text: None, lambda text: " "],
    ids=["bytes", "enum", "date", "number", "tensor", "list", "none", "blank"],
)  # fmt: skip
def test_only_strings_are_texts(convert: Callable[[str], Any], folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="text 2"):
        isotropy.measure(folders["bert"], texts=[TEXTS[0], convert(TEXTS[1]), *TEXTS[2:]])


def erasing(folder: Path, *, special: bool) -> Path:
    """A model whose tokenizer deletes digits, and adds special tokens or none."""
    write_tiny_bert(folder)
    normalizer = {"type": "Replace", "pattern": {"Regex": "[0-9]"}, "content": ""}
    fields: dict[str, Any] = {"normalizer": normalizer}
    change_json(folder / "tokenizer.json", **fields | ({} if special else {"post_processor": None}))
    return folder


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "the model's", "static"])
def test_text_without_a_token_is_named(pooling: str, special: bool, tmp_path: Path) -> None:
    """Also where special tokens or a prompt would give it a vector."""
    folder = erasing(tmp_path / "m", special=special)
    texts = [*TEXTS[:4], "42 7", *TEXTS[4:]]
    if pooling == "static":
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        modules = [StaticEmbedding(tokenizer, embedding_dim=8)]
        model, options = SentenceTransformer(modules=modules, device="cpu"), {}
    elif pooling == "the model's":
        modules = [Transformer(str(folder)), Pooling(16)]
        model, options = SentenceTransformer(modules=modules, device="cpu"), {"prompt": "the "}
    else:
        model, options = folder, {"pooling": pooling, "prompt": "the "}
    with pytest.raises(IsotropyError, match=r"text 5, '42 7'"):
        isotropy.measure(model, texts=texts, **options)
    assert len(isotropy.measure(model, texts=TEXTS, **options)) == 1


class Interchange:
    """A frame of a library that has the dataframe interchange alone."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def __dataframe__(self, **options: Any) -> Any:
        return pa.Table.from_pandas(self.frame, preserve_index=False).__dataframe__(**options)


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with swapped bytes": lambda frame: frame.astype(
        {name: ">f8" for name in frame if "dim" in name}
    ),
    "pandas with Arrow's types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "Arrow": pa.Table.from_pandas,
    "Arrow batch": pa.RecordBatch.from_pandas,
    "interchange": Interchange,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_any_library(kind: str, cloud: np.ndarray) -> None:
    """Columns are named, labels are a column, and an id is never a dimension by itself."""
    frame = pd.DataFrame(cloud, columns=[f"dim_{i}" for i in range(4)])
    frame.insert(0, "id", np.arange(40))
    frame["y"] = CLASSES
    x = FRAMES[kind](frame)
    measured = isotropy.measure(x, columns="dim_*", labels="y", metrics="isoscore,silhouette")
    assert measured["isoscore"].item() == pytest.approx(isoscore(cloud))
    expected = float(silhouette(cloud, np.array(CLASSES)))
    assert measured["silhouette"].item() == pytest.approx(expected)
    assert measured["columns"].item() == "dim_0…dim_3"
    with pytest.raises(IsotropyError, match="columns"):
        isotropy.measure(x)
    with pytest.raises(IsotropyError, match="'z'"):
        isotropy.measure(x, columns="dim_*", labels="z")


@pytest.mark.parametrize(
    "column",
    [
        lambda X: pd.Series(list(X)),
        lambda X: pl.Series(X.tolist()),
        lambda X: pl.DataFrame({"v": X}),
        lambda X: pa.array(X.tolist()),
        lambda X: pa.FixedSizeListArray.from_arrays(X.ravel(), 4),
        lambda X: pa.chunked_array([X[:9].tolist(), X[9:].tolist()]),
    ],
)
def test_columns_of_vectors(column: Callable[[np.ndarray], Any], cloud: np.ndarray) -> None:
    measured = isotropy.measure(column(cloud), metrics="isoscore")
    assert measured["isoscore"].item() == pytest.approx(isoscore(cloud))


@pytest.mark.parametrize("dtype", [">f8", "<f8", np.longdouble, ">f4", "<f2", ">i8", "O"])
def test_precision_of_an_array_is_kept(dtype: Any) -> None:
    """A far mean in double precision, in any order of bytes."""
    far = 0 if dtype in (">f4", "<f2") else 1e7
    X = np.random.default_rng(0).normal(size=(500, 8)) * np.arange(1, 9) * 10 + far
    X = X.astype(dtype)
    if dtype == "O":
        with pytest.raises(IsotropyError, match="numbers"):
            isotropy.measure(X)
        return
    measured = isotropy.measure(X, metrics="isoscore")["isoscore"].item()
    expected = isoscore(X.astype(np.float64) - far)
    assert measured == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        (torch.ones(5, 3).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.ones(5, 3), 0.1, 0, torch.qint8), "quantized"),
        (torch.ones(5, 3, device="meta"), "meta"),
        (torch.ones(5, 3, dtype=torch.complex64), "complex"),
    ],
)
def test_tensors_without_values_are_refused(tensor: torch.Tensor, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        isotropy.measure(tensor)
