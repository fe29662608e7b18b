"""Random mutations of small valid inputs of `isotropy measure`, in this process.

python -m tests.campaign.inputs [--n 1000] [--seed 0]

Of each mutation it is known, from transformers, sentence-transformers, or the array that was
written, which vectors the input holds now, or that it holds none. The command must give their n, d
and IsoScore, or refuse the input in one sentence. Counted as missed: other numbers, a traceback,
and damaged inputs that are measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.errors import is_failure
from tests.campaign.mutations import mutate
from tests.unit.tiny_models import sentences, write_tiny_bert

TEXTS = sentences(12)


TOLERANCE = 1e-3
"""Of IsoScore; damaged models can have little variance, of which single precision shows less."""

ROUNDING = 1e-4
"""Range of a coordinate, relative to the largest value, that single precision hardly shows."""


class Case(NamedTuple):
    """A mutated input.

    Attributes:
        arguments: those of `isotropy measure`, after the input.
        expected: the vectors that it holds, shape (n, d); None: it must be refused.
        change: what was changed.
        may_be_refused: whether a refusal is right as well.
    """

    path: Path
    arguments: list[str]
    expected: np.ndarray | None
    change: str
    may_be_refused: bool = False


def isoscore(X: np.ndarray) -> float:
    """IsoScore by its definition, in double precision."""
    covariance = np.cov(np.asarray(X, dtype=np.float64).T)
    d = len(covariance)
    participation = np.trace(covariance) ** 2 / (covariance**2).sum()
    return float((participation - 1) / (d - 1))


class Inputs:
    """Small valid inputs. Each method copies and mutates one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        (folder / "texts.txt").write_text("\n".join(TEXTS))
        self.bert = write_tiny_bert(folder / "bert")
        torch.manual_seed(0)
        modules = [Transformer(str(self.bert)), Pooling(16), Dense(16, 9), Normalize()]
        model = SentenceTransformer(modules=modules, device="cpu", prompts={"q": "the "})
        self.sentence_model = folder / "sentence-model"
        model.save_pretrained(str(self.sentence_model))

    def _new(self, suffix: str) -> Path:
        self.number += 1
        return self.folder / f"{self.number}{suffix}"

    def _model_case(self, path: Path, change: str, encode: Callable[[Path], np.ndarray]) -> Case:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected: np.ndarray | None = encode(path)
        except BaseException as error:  # a panic of the Rust code in tokenizers is no Exception
            if not is_failure(error):
                raise
            expected = None  # the library that wrote the model cannot read it
        if expected is not None and not np.isfinite(expected).all():
            expected = None
        arguments = ["--texts", str(self.folder / "texts.txt"), "--device", "cpu"]
        return Case(path, arguments, expected, change, may_be_refused=True)

    def tensors(self, draw: random.Random) -> Case:
        """Rename, drop, cut, convert or spoil tensors of a BERT."""
        path = Path(shutil.copytree(self.bert, self._new("")))
        change = _change_tensors(path / "model.safetensors", draw)
        return self._model_case(path, change, encode_with_transformers)

    def configuration(self, draw: random.Random) -> Case:
        """Change a field of config.json or of the tokenizer's files."""
        path = Path(shutil.copytree(self.bert, self._new("")))
        name = draw.choice(
            ["config.json", "config.json", "tokenizer.json", "tokenizer_config.json"]
        )
        change = _change_json(path / name, draw, FIELDS if name == "config.json" else {})
        return self._model_case(path, change, encode_with_transformers)

    def modules(self, draw: random.Random) -> Case:
        """Change the configuration of a model of sentence-transformers."""
        path = Path(shutil.copytree(self.sentence_model, self._new("")))
        names = ["modules.json", "1_Pooling/config.json", "config_sentence_transformers.json"]
        name = draw.choice([*names, "sentence_bert_config.json", "2_Dense/config.json"])
        change = _change_json(path / name, draw, MODULE_FIELDS.get(name, {}))
        return self._model_case(path, change, encode_with_sentence_transformers)

    def dense(self, draw: random.Random) -> Case:
        """Change tensors of a Dense module."""
        path = Path(shutil.copytree(self.sentence_model, self._new("")))
        change = _change_tensors(path / "2_Dense/model.safetensors", draw)
        return self._model_case(path, change, encode_with_sentence_transformers)

    def text(self, draw: random.Random) -> Case:
        """Change a file of text vectors: header, separators, marks, encodings, lines."""
        X = _vectors(draw)
        lines = [[f"{value:.6f}" for value in row] for row in X]
        if words := draw.random() < 0.7:
            lines = [[f"w{i}", *line] for i, line in enumerate(lines)]
        if header := words and draw.random() < 0.6:
            lines.insert(0, [str(len(X)), str(X.shape[1])])
        change = draw.choice(TEXT_CHANGES)
        damaged = _damage_lines(lines, change, draw, words=words, header=header)
        path = self._new(draw.choice([".txt", ".vec"]))
        data = _join(lines, change, draw)
        if change == "cut" and header:
            data, damaged = data[: data.rstrip().rfind(b" ") - draw.randrange(9)], True
        path.write_bytes(data)
        what = (
            f"{change}, {'words' if words else 'no words'}, {'header' if header else 'no header'}"
        )
        return Case(path, [], None if damaged else X, what)

    def array(self, draw: random.Random) -> Case:
        """Change a NumPy or safetensors array: type, order, length, shape, values."""
        X = _vectors(draw)
        change = draw.choice(ARRAY_CHANGES)
        expected: np.ndarray | None = X
        if change in ("float16", "int64", ">f8", "longdouble", "uint8"):
            X = (X * 50 + 100 if change == "uint8" else X * 50).astype(change)
            expected = X.astype(np.float64)
        elif change in ("object", "str", "complex128", "bool", "datetime64[s]"):
            X = (X > 0) if change == "bool" else X.astype("i8" if "date" in change else change)
            X = X.astype(change)
            expected = X.astype(np.float64) if change == "bool" else None
        elif change == "Fortran":
            X = np.asfortranarray(X)
        elif change in ("nan", "inf", "-inf"):
            X[draw.randrange(len(X)), draw.randrange(X.shape[1])] = float(change)
            expected = None
        elif change == "one dimension":
            X, expected = X[:, 0], None
        path = self._new(".npy")
        np.save(path, X, allow_pickle=change == "object")
        data = path.read_bytes()
        if change == "cut":
            path.write_bytes(data[: len(data) - draw.randrange(1, X.nbytes)])
            expected = None
        elif change == "not an array":
            path.write_bytes(draw.randbytes(200))
            expected = None
        return Case(path, [], expected, change, may_be_refused=change in ("bool", "longdouble"))

    def table(self, draw: random.Random) -> Case:
        """Add columns that are no dimensions to a table, in one of several formats."""
        X = _vectors(draw)
        frame = pd.DataFrame(X, columns=[f"d{i}" for i in range(X.shape[1])])
        labels = [draw.choice(["a", "b"]) for _ in X]
        labels[:2] = ["a", "b"]
        change = draw.choice(
            ["plain", "labels", "numbered labels", "score", "index", "nan", "text"]
        )
        arguments: list[str] = []
        expected: np.ndarray | None = X
        place = draw.randrange(frame.shape[1] + 1)
        if change in ("labels", "numbered labels"):
            values = labels if change == "labels" else [int(label == "a") for label in labels]
            frame.insert(place, "class", values)
            arguments = ["--labels", "class"]
        elif change == "score":
            frame.insert(place, "score", [draw.random() for _ in X])
            arguments = ["--columns", "d*"]
        elif change == "index":
            frame.index = pd.Index([draw.randrange(10**6) for _ in X], name="row")
        elif change == "nan":
            frame.iloc[draw.randrange(len(X)), draw.randrange(X.shape[1])] = float("nan")
            expected = None
        elif change == "text":
            frame.insert(place, "name", labels)
        path = self._new(draw.choice([".parquet", ".csv", ".tsv", ".csv.gz"]))
        _write_table(frame, path, draw, index=change == "index")
        # A text column or a written index may be refused, but is never a dimension
        may_be_refused = change in ("text", "index")
        return Case(path, arguments, expected, f"{change}, {path.suffix}", may_be_refused)


TEXT_CHANGES = [
    *("none", "byte order mark", "tabs", "several blanks", "blank lines", "Windows lines"),
    *("field left out", "word left out", "no number", "count", "width", "cut", "blank in a word"),
    *("UTF-16", "Latin-1"),
]
ARRAY_CHANGES = [
    *("none", "float16", "int64", ">f8", "longdouble", "uint8", "object", "str", "complex128"),
    *("bool", "datetime64[s]", "Fortran", "nan", "inf", "-inf", "one dimension", "cut"),
    "not an array",
]
FIELDS: dict[str, list[Any]] = {
    "hidden_size": [8, 32, 17],
    "num_hidden_layers": [1, 3],
    "num_attention_heads": [1, 4, 3],
    "intermediate_size": [16, 64],
    "max_position_embeddings": [16, 64],
    "vocab_size": [10, 30],
    "hidden_act": ["relu", "nonsense"],
    "layer_norm_eps": [1e-3, "x"],
    "model_type": ["roberta", "mpnet", "t5", "gpt2", "clip", "mine"],
    "auto_map": [{"AutoModel": "modeling.Mine"}],
    "architectures": [["BertForMaskedLM"], ["Mine"], []],
    "dtype": ["float16", "bfloat16", "float8"],
    "is_decoder": [True],
}
MODULE_FIELDS: dict[str, dict[str, list[Any]]] = {
    "1_Pooling/config.json": {
        "pooling_mode": ["cls", "max", ["mean", "max"], "lasttoken", "weightedmean", "median"],
        "pooling_mode_max_tokens": [True],
        "embedding_dimension": [8, 32],
        "include_prompt": [False],
    },
    "config_sentence_transformers.json": {
        "default_prompt_name": ["q", "missing"],
        "truncate_dim": [4, 9, 100, -1],
        "model_type": ["SparseEncoder", "CrossEncoder"],
        "prompts": [{"q": "cat "}, []],
    },
    "sentence_bert_config.json": {"max_seq_length": [4, 1000], "do_lower_case": [True]},
    "2_Dense/config.json": {
        "in_features": [8],
        "out_features": [4],
        "bias": [False],
        "activation_function": ["torch.nn.modules.activation.ReLU", "os.system"],
    },
}


def _vectors(draw: random.Random) -> np.ndarray:
    rng = np.random.default_rng(draw.randrange(2**32))
    n, d = draw.randrange(20, 60), draw.randrange(3, 8)
    return np.round(rng.normal(size=(n, d)) * rng.uniform(0.3, 3, d), 6)


def _damage_lines(
    lines: list[list[str]], change: str, draw: random.Random, *, words: bool, header: bool
) -> bool:
    """Apply a change to the fields of text vectors; return whether they are damaged."""
    row = lines[draw.randrange(header, len(lines))]
    if change == "field left out":
        del row[draw.randrange(words, len(row))]
    elif change == "word left out" and words:
        del row[0]
    elif change == "no number":
        row[-1] = draw.choice(["nan", "inf", "1,5", "x", "--1", "1.2.3"])
    elif change == "count" and header:
        lines[0][0] = str(int(lines[0][0]) + draw.choice([-3, -1, 2, 7]))
    elif change == "width" and header:
        lines[0][1] = str(int(lines[0][1]) + draw.choice([-1, 1, 3]))
    elif change == "blank in a word" and words:
        row[0] = "New York"
        return False
    else:
        return change in ("UTF-16", "Latin-1")
    return True


def _join(lines: list[list[str]], change: str, draw: random.Random) -> bytes:
    """Join fields to a file with the separators, ends of lines and encoding of a mutation."""
    separator = {"tabs": "\t", "several blanks": "  "}.get(change, " ")
    rows = [separator.join(line) for line in lines]
    if change == "blank lines":
        rows += [""] * draw.randrange(1, 4)
    text = ("\r\n" if change == "Windows lines" else "\n").join(rows) + "\n"
    if change == "byte order mark":
        return text.encode("utf-8-sig")
    if change == "UTF-16":
        return text.encode("utf-16")
    if change == "Latin-1":
        return ("é" + text).encode("latin-1")
    return text.encode()


def _write_table(frame: pd.DataFrame, path: Path, draw: random.Random, *, index: bool) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=index or None)
        return
    separator = "\t" if path.suffix == ".tsv" else draw.choice([",", ";"])
    text = frame.to_csv(index=index, sep=separator).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def _change_tensors(path: Path, draw: random.Random) -> str:
    tensors = load_file(path)
    change = draw.choice(["prefix", "typo", "drop", "cut", "float16", "nan", "add", "swap", "file"])
    name = draw.choice(sorted(tensors))
    value = tensors[name]
    if change == "prefix":
        prefix = draw.choice(
            ["_orig_mod.", "module.", "model.", "bert.", "0.auto_model.", "linear."]
        )
        tensors = {prefix + key: tensor for key, tensor in tensors.items()}
    elif change == "typo":
        tensors[name.replace("e", "3", 1)] = tensors.pop(name)
    elif change == "drop":
        del tensors[name]
    elif change == "cut":
        tensors[name] = value[: len(value) // 2].clone()
    elif change == "float16":
        tensors = {key: tensor.half() for key, tensor in tensors.items()}
    elif change == "nan":
        tensors[name] = torch.full_like(value, float("nan"))
    elif change == "add":
        tensors["cls.extra.weight"] = torch.ones(3)
    elif change == "swap":
        other = draw.choice([key for key in sorted(tensors) if tensors[key].shape == value.shape])
        tensors[name], tensors[other] = tensors[other].clone(), value.clone()
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})
    if change == "file":
        data = path.read_bytes()
        path.write_bytes(data[: draw.randrange(len(data))])
    return f"{change} {name}"


def _change_json(path: Path, draw: random.Random, fields: dict[str, list[Any]]) -> str:
    data = json.loads(path.read_text())
    if fields and draw.random() < 0.7:
        key = draw.choice(sorted(fields))
        data[key] = draw.choice(fields[key])
        change = f"{key} = {data[key]!r}"
    elif draw.random() < 0.15:
        text = path.read_text()
        path.write_text(text[: draw.randrange(len(text))])
        return f"{path.name} cut"
    else:
        data, change = mutate(data, draw)
    try:
        path.write_text(json.dumps(data))
    except RecursionError:  # nested too deep to be written
        path.write_text('{"a": ' * 3000 + "1" + "}" * 3000)
    return f"{path.name}: {change}"


def encode_with_transformers(folder: Path) -> np.ndarray:
    """Mean of the last hidden states of each text by transformers, one text at a time.

    Raises:
        Exception: of many classes; also if a weight that matters is missing or has another shape.
    """
    model, info = AutoModel.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, local_files_only=True
    )
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    if missing or any("pooler" not in key[0] for key in info["mismatched_keys"]):
        raise ValueError(missing)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    rows = []
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=30, return_tensors="pt")
        names = {"input_ids", "attention_mask"}
        with torch.inference_mode():
            states = model.eval()(**{k: v for k, v in inputs.items() if k in names})
        rows.append(states.last_hidden_state[0].mean(dim=0).numpy())
    return np.stack(rows)


def encode_with_sentence_transformers(folder: Path) -> np.ndarray:
    """Vectors of each text by the library, one text at a time.

    Raises:
        Exception: of many classes.
    """
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return np.concatenate([model.encode([text]) for text in TEXTS])


def check(case: Case) -> str | None:
    """Measure an input; return a message if the result is wrong."""
    arguments = ["measure", str(case.path), "--metrics", "isoscore", "--json", *case.arguments]
    result = CliRunner().invoke(app, arguments)
    if result.exit_code != 0:
        lines = result.output.strip().splitlines()
        if result.exit_code != 2 or len(lines) != 1:
            return f"{case.change}: not one sentence: {result.output[-300:]} {result.exception!r}"
        if case.expected is not None and not case.may_be_refused:
            return f"{case.change}: refused: {lines[0]}"
        return None
    (row,) = json.loads(result.stdout)["rows"]
    if case.expected is None:
        return f"{case.change}: measured: {row}"
    if np.ptp(case.expected, axis=0).max() < ROUNDING * np.abs(case.expected).max():
        return None  # a damaged model that gives one vector for all texts, and rounding errors
    score, expected = row["isoscore"], isoscore(case.expected)
    if (row["n"], row["d"]) != case.expected.shape or abs(score - expected) > TOLERANCE:
        return f"{case.change}: {row}, expected {case.expected.shape}, {expected}"
    return None


KINDS = ("tensors", "configuration", "modules", "dense", "text", "array", "table")


def campaign(n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Make n mutations, of all kinds in turn; return counts of results, and what was missed."""
    draw = random.Random(seed)
    logging.disable(logging.CRITICAL)
    counts: Counter[str] = Counter()
    missed = []
    with tempfile.TemporaryDirectory() as name:
        inputs = Inputs(Path(name))
        for i in range(n):
            kind = KINDS[i % len(KINDS)]
            case = getattr(inputs, kind)(draw)
            problem = check(case)
            counts[f"{kind}, {'damaged' if case.expected is None else 'readable'}"] += 1
            if problem is not None:
                missed.append(f"{i} {kind}: {problem}")
            if case.path.is_dir():
                shutil.rmtree(case.path)
    logging.disable(logging.NOTSET)
    return counts, missed


def main() -> int:
    """Run the campaign, and print counts and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, missed = campaign(arguments.n, arguments.seed)
    for kind, count in sorted(counts.items()):
        print(f"{kind}: {count}")
    print(f"{arguments.n} mutations of inputs, seed {arguments.seed}: {len(missed)} missed")
    for line in missed:
        print(f"  {line}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
