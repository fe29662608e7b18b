"""Embed texts with a model: one point cloud per layer, stored in files on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from isotropy.errors import IsotropyError, first_line, format_value, is_failure
from isotropy.models.folder import DEFAULT_MAX_LENGTH, Layout, read_layout, valid_length
from isotropy.read.clouds import PointCloud, StoredArray, cloud_from_file

if TYPE_CHECKING:
    from isotropy.models.sentence_encoder import SentenceEncoder

Pooling = Literal["mean", "cls", "last", "tokens"]
OUTPUT = "output"
"""Name of the layer of the output of a sentence-transformers model, after all of its modules."""
BATCHES_AT_ONCE = 16
"""Batches whose states are in memory together, for one layer; fewer for several layers."""


class ModelOptions(NamedTuple):
    """How a model embeds texts.

    Attributes:
        layers: numbers of hidden layers, 0 is the embedding layer, -1 the last; "output"; or "all".
            None: the output of a sentence-transformers model, else the last hidden layer.
        pooling: how token vectors become the row of a text; "tokens": no pooling, a row per token
            without special ones; None: as the model's folder says, else mean.
        device: auto, cpu or cuda.
        prompt: text before each text; None: the model's own, if it has a default.
        prompt_name: name of one of the prompts of a sentence-transformers model.
        truncate_dim: number of leading dimensions of the output to keep.
    """

    layers: list[str] | None = None
    pooling: Pooling | None = None
    device: str = "auto"
    prompt: str | None = None
    prompt_name: str | None = None
    truncate_dim: int | None = None


class Embedded(NamedTuple):
    """Texts that a model has embedded.

    Attributes:
        clouds: a point cloud per layer.
        texts: for each row, the number of its text.
        types: for each row, its word piece; None where rows are whole texts.
        notes: sentences for the user.
        model: what was loaded: library, weights, prompt, pooling, longest text.
    """

    clouds: list[PointCloud]
    texts: np.ndarray
    types: np.ndarray | None
    notes: list[str]
    model: dict[str, Any]


class _Reader(Protocol):
    """A model and the texts that it reads.

    Attributes:
        layers: the layers that are read.
        widths: dimension of each.
        counts: number of rows of each text, shape (n,).
        batches: numbers of the texts of each batch.
        types: for each row, its word piece; None where rows are whole texts.
        is_given: whether the model was given as an object, whose code may not be run by several
            threads at once.
    """

    is_given: bool
    layers: list[int | str]
    widths: list[int]
    counts: np.ndarray
    batches: list[list[int]]
    types: np.ndarray | None
    device: Any

    def prepare(self, batch: list[int]) -> Any:
        """Tokenize a batch. Not called by several threads at once."""

    def encode(self, prepared: Any) -> Any:
        """Compute a tensor for each layer."""

    def rows(self, batch: list[int], layer: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the rows of each text of a batch from the computed layer."""

    def describe(self) -> dict[str, Any]:
        """Describe what was loaded."""

    def notes(self) -> list[str]:
        """Return sentences for the user."""


def embed_texts(
    title: str, model: Path | Any, texts: Sequence[str], options: ModelOptions, work: Path
) -> Embedded:
    """Embed texts into one file per layer.

    Args:
        title: what the user calls the model.
        model: its folder, or what `given_model` returns, which is run as it is, in evaluation mode.
        texts: n strings.
        options: how.
        work: folder for the files of the layers.

    Raises:
        IsotropyError: a model that cannot be read, invalid options, or a text that it cannot read.
    """
    _require_valid_unicode(texts)
    if isinstance(model, Path):
        return _embed(title, model, texts, options, work)
    from isotropy.models.loading import evaluation_mode

    with evaluation_mode(model[0] if isinstance(model, tuple) else model):
        return _embed(title, model, texts, options, work)


def given_model(title: str, model: Any, device: str) -> Any:
    """Return a `SentenceTransformer`, or the pair of a model of transformers and its tokenizer,
    without the wrapper that spreads it over devices.

    Args:
        title: name of the model in messages.
        model: one of them.
        device: auto, cpu or cuda.

    Raises:
        IsotropyError: something else, or a model on another device than is asked for.
    """
    from torch.nn import DataParallel
    from torch.nn.parallel import DistributedDataParallel

    parts = list(model) if isinstance(model, tuple | list) else [model]
    while True:  # a compiled pair stays compiled
        inner = getattr(parts[0], "_orig_mod", None)
        if isinstance(parts[0], DataParallel | DistributedDataParallel):
            parts[0] = parts[0].module
        elif inner is not None and (len(parts) == 1 or isinstance(inner, DataParallel)):
            parts[0] = inner
        else:
            break
    is_pair = len(parts) == 2 and hasattr(parts[0], "config") and hasattr(parts[1], "is_fast")
    if not is_pair and not (len(parts) == 1 and hasattr(parts[0], "truncate_embeddings")):
        got = ", ".join(type(part).__name__ for part in parts)
        raise IsotropyError(
            f"{title}: expected a SentenceTransformer, or a model of transformers and its "
            f"tokenizer: (model, tokenizer), got {got}"
        )
    kind = next((weight.device.type for weight in parts[0].parameters()), "cpu")
    if device not in ("auto", kind):
        raise IsotropyError(f"{title}: --device {device}: the model is on {kind}: move it first")
    return tuple(parts) if is_pair else parts[0]


def _open_reader(title: str, model: Any, texts: Sequence[str], options: ModelOptions) -> _Reader:
    """Open a folder, or take a model that was given."""
    if isinstance(model, tuple):
        transformer, tokenizer = model
        longest = valid_length(tokenizer.model_max_length)
        layout = Layout(None, None, None, False, longest, False, ())
        encoder = _given(title, transformer, tokenizer, layout)
        return _TransformerReader(title, encoder, layout, texts, options)
    if isinstance(model, Path):
        layout = read_layout(model)
        if layout.modules is None or options.pooling is not None:
            encoder = _load(title, layout, options.device)
            return _TransformerReader(title, encoder, layout, texts, options)
        from isotropy.device import pick_device
        from isotropy.models.sentence_models import load_sentence_model

        loaded = load_sentence_model(model, pick_device(options.device))
        return _SentenceReader(title, loaded.model, loaded.weights, texts, options)
    if options.pooling is None:
        return _SentenceReader(title, model, None, texts, options)
    from isotropy.models.sentence_models import layout_of

    layout = layout_of(model)
    if not hasattr(model[0], "model"):
        raise IsotropyError(f"{title}: it has no transformer: leave --pooling out")
    encoder = _given(title, model[0].model, model.tokenizer, layout)
    return _TransformerReader(title, encoder, layout, texts, options)


def _embed(
    title: str, model: Any, texts: Sequence[str], options: ModelOptions, work: Path
) -> Embedded:
    with _errors_in_one_sentence(f"{title}: the model cannot be read"):
        reader = _open_reader(title, model, texts, options)
    starts = np.concatenate([[0], np.cumsum(reader.counts)])
    if starts[-1] < 2:
        raise IsotropyError(f"{title}: the texts have {starts[-1]} tokens besides special ones")
    name, single = f"{len(list(work.iterdir()))}.layer", np.dtype(np.float32)
    stored = [
        StoredArray(work / f"{name}{layer}", single, 0, (int(starts[-1]), width))
        for layer, width in zip(reader.layers, reader.widths, strict=True)
    ]
    for batch, layers in _encode(title, reader):
        for array, layer in zip(stored, layers, strict=True):
            for i, rows in zip(batch, reader.rows(batch, layer), strict=True):
                if len(rows):
                    array.write(int(starts[i]), rows)
    return Embedded(
        [cloud_from_file(title, n, a) for n, a in zip(reader.layers, stored, strict=True)],
        np.repeat(np.arange(len(texts)), reader.counts),
        reader.types,
        reader.notes(),
        reader.describe(),
    )


def _require_valid_unicode(texts: Sequence[str]) -> None:
    """Raise an IsotropyError that names the first text with half of a surrogate pair."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            character = f"\\u{ord(text[error.start]):x}"
            raise IsotropyError(
                f"text {number}: {character} is half of a character (a surrogate): correct the text"
            ) from None


def _encode(title: str, reader: _Reader) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    """Yield the texts of each batch and, per layer, what the model computes for them."""
    from tqdm import tqdm

    from isotropy.models.sentence_encoder import map_batches

    workers = os.cpu_count() or 1
    step = max(workers, BATCHES_AT_ONCE // len(reader.layers))
    n, quiet = len(reader.counts), not sys.stderr.isatty()
    with tqdm(total=n, unit="text", disable=quiet, desc="embed") as bar:
        for first in range(0, len(reader.batches), step):
            chunk = reader.batches[first : first + step]
            prepared = [reader.prepare(batch) for batch in chunk]

            def encode(k: list[int], prepared: list[Any] = prepared) -> Any:
                return reader.encode(prepared[k[0]])

            numbers = [[k] for k in range(len(chunk))]
            try:
                if reader.is_given:
                    layers = [[layer.cpu() for layer in encode(k)] for k in numbers]
                else:
                    layers = map_batches(encode, numbers, workers, reader.device)
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                raise _name_text(title, reader, chunk, error) from None
            for batch, computed in zip(chunk, layers, strict=True):
                yield batch, [layer.numpy() for layer in computed]
            bar.update(sum(map(len, chunk)))


def _name_text(
    title: str, reader: _Reader, chunk: list[list[int]], error: Exception
) -> IsotropyError:
    """Find the first text that the model cannot read."""
    where = "a batch of texts"
    for i in sorted(i for batch in chunk for i in batch):
        try:
            reader.encode(reader.prepare([i]))
        except (RuntimeError, IndexError, ValueError, TypeError) as failure:
            where, error = f"text {i + 1}", failure
            break
    return IsotropyError(f"{title}: {where}: the model fails: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """Say in words what an error of a library means, also where its first line does not."""
    if isinstance(error, KeyError):
        return f"missing {error}"
    lines = str(error).strip().splitlines()
    if len(lines) > 1 and lines[0].rstrip().endswith(":"):
        return f"{lines[0].strip()} {lines[1].strip()}"
    return first_line(error).strip()


@contextmanager
def _errors_in_one_sentence(start: str) -> Iterator[None]:
    """Turn the errors of the libraries that load models, which have many classes, into one."""
    try:
        yield
    except (IsotropyError, ModuleNotFoundError):  # the latter names a package of an extra
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        raise IsotropyError(f"{start}: {_reason(error)}") from None


class _SentenceReader:
    """A model of sentence-transformers, which pools by its own modules."""

    types: np.ndarray | None = None

    def __init__(
        self,
        title: str,
        library: Any,
        weights: dict[str, Any] | None,
        texts: Sequence[str],
        options: ModelOptions,
    ) -> None:
        from isotropy.models.batches import batches, pick_token_budget
        from isotropy.models.sentence_models import SentenceModel, layout_of

        self.model = SentenceModel(
            title,
            library,
            weights,
            prompt=options.prompt,
            prompt_name=options.prompt_name,
            truncate_dim=options.truncate_dim,
        )
        self.title, self.layout = title, (layout := layout_of(library))
        self.device, self.texts, self.is_given = self.model.device, texts, self.model.is_given
        hidden = self.model.hidden
        widths = [] if hidden is None else hidden.widths
        self.layers = _parse_layers(title, options.layers or [OUTPUT], widths, has_output=True)
        numbers = [layer for layer in self.layers if isinstance(layer, int)]
        if numbers and layout.pooling is None:
            raise IsotropyError(
                f"{title}: it has no pooling: name that of hidden layers with --pooling"
            )
        self.widths = self.model.widths(self.layers)
        self.counts = np.ones(len(texts), dtype=int)
        self.lengths = self.model.lengths(texts)
        if hidden is not None:
            nothing = self.model.lengths([""])[0]
            _require_tokens(title, texts, [n - nothing for n in self.lengths])
        same_length = self.model.depends_on_padding(texts, self.layers)
        if same_length and hidden is None:  # lengths are not known
            self.batches = [[i] for i in range(len(texts))]
        else:
            budget = pick_token_budget("auto", self.device.type)
            self.batches = batches(self.lengths, budget, same_length=same_length)

    def prepare(self, batch: list[int]) -> Any:
        texts = [self.texts[i] for i in batch]
        return texts, self.model.features(texts)

    def encode(self, prepared: Any) -> Any:
        texts, features = prepared
        return self.model.encode(texts, features, self.layers)

    def rows(self, batch: list[int], layer: np.ndarray) -> Iterator[np.ndarray]:
        if self.model.hidden is None:  # tokens are not known, but their sum is
            texts = [self.texts[i] for i in batch]
            _require_tokens(self.title, texts, layer.any(axis=1).astype(int).tolist(), batch)
        return iter(layer[:, None])

    def describe(self) -> dict[str, Any]:
        return self.model.describe() | {"pooling": self.layout.pooling}

    def notes(self) -> list[str]:
        facts = self.describe()
        notes = [f"{facts['library']}: {', '.join(facts['modules'])}"]
        if self.layout.pooling is not None:
            notes[0] += f", pooled by {self.layout.pooling}"
        if self.model.prompt:
            notes.append(f"prompt before each text: {self.model.prompt!r}")
        if self.model.truncate_dim is not None:
            notes.append(f"output cut to its first {self.model.truncate_dim} dimensions")
        longest = self.model.library.max_seq_length
        if self.model.hidden is not None and longest:
            notes.append(_length_note(longest, self.lengths))
        if self.layout.extras and any(isinstance(layer, int) for layer in self.layers):
            modules = [extra for extra in self.layout.extras if extra.startswith("module ")]
            if modules:
                notes.append(f"not applied to hidden layers: {', '.join(modules)}")
        return notes + _weight_notes(self.model.weights)


class _TransformerReader:
    """A transformer, whose hidden states are pooled here, or measured token by token."""

    def __init__(
        self,
        title: str,
        encoder: SentenceEncoder,
        layout: Layout,
        texts: Sequence[str],
        options: ModelOptions,
    ) -> None:
        from isotropy.models.batches import batches, pick_token_budget

        for name in ("prompt_name", "truncate_dim"):
            if getattr(options, name) is not None:
                hint = " without --pooling" if layout.modules else ""
                raise IsotropyError(
                    f"{title}: --{name.replace('_', '-')} is for models of sentence-transformers"
                    f"{hint}"
                )
        self.mode, self.layout = options.pooling or "mean", layout
        self.encoder, self.is_given = encoder, encoder.is_given
        self.device, self.prompt = self.encoder.device, options.prompt or ""
        hidden = self.encoder.inspect()
        self.layers = _parse_layers(title, options.layers or ["-1"], hidden.widths)
        self.widths = [int(hidden.widths[int(n)] or 0) for n in self.layers]
        prompted = [f"{self.prompt}{text}" for text in texts]
        pieces = self.encoder.tokenize_pieces(
            [text.lower() for text in prompted] if layout.lower else prompted
        )
        self.ids, self.token_types = pieces.ids, pieces.types
        self.kept = [np.flatnonzero(np.array(special) == 0) for special in pieces.special]
        ends = [np.array([end for _, end in row], dtype=int) for row in pieces.offsets]
        without_prompt = [
            kept[end[kept] > len(self.prompt)] for kept, end in zip(self.kept, ends, strict=True)
        ]
        if tokens := self.mode == "tokens":  # rows are the tokens of the texts
            self.kept = without_prompt
        else:
            _require_tokens(title, texts, list(map(len, without_prompt)))
        self.counts = np.array([len(kept) if tokens else 1 for kept in self.kept])
        same_length = hidden.depend_on_padding
        lengths = [len(row) for row in self.ids]
        budget = pick_token_budget("auto", self.device.type)
        self.batches = batches(lengths, budget, same_length=same_length)
        self.types = None
        if tokens:
            ids = [np.array(row)[kept] for row, kept in zip(self.ids, self.kept, strict=True)]
            names = self.encoder.tokenizer.convert_ids_to_tokens(np.concatenate(ids).tolist())
            self.types = np.array(names)

    def prepare(self, batch: list[int]) -> Any:
        types = self.token_types
        return [self.ids[i] for i in batch], None if types is None else [types[i] for i in batch]

    def encode(self, prepared: Any) -> Any:
        ids, types = prepared
        return self.encoder.encode_tokens(ids, [int(n) for n in self.layers], types)

    def rows(self, batch: list[int], layer: np.ndarray) -> Iterator[np.ndarray]:
        ends = np.cumsum([len(self.ids[i]) for i in batch])
        for i, end in zip(batch, ends, strict=True):
            states = layer[int(end) - len(self.ids[i]) : int(end)]
            yield states[self.kept[i]] if self.mode == "tokens" else _pool(states, self.mode)

    def describe(self) -> dict[str, Any]:
        weights = dict(self.encoder.weights)
        return {
            "library": weights.pop("library"),
            "pooling": self.mode,
            "prompt": self.prompt,
            "max_length": self.encoder.encoder.max_length,
            "dtype": str(next(self.encoder.model.parameters()).dtype).removeprefix("torch."),
            "weights": weights,
        }

    def notes(self) -> list[str]:
        row_note = "one row per token" if self.mode == "tokens" else f"pooled by {self.mode}"
        longest = self.encoder.encoder.max_length
        notes = [f"{row_note}; {_length_note(longest, [len(row) for row in self.ids])}"]
        if self.prompt:
            notes.append(f"prompt before each text: {self.prompt!r}")
        if file := self.encoder.weights.get("file"):
            notes.append(f"weights of {file}, dequantized")
        if self.layout.extras or self.layout.normalize:
            normalization = ["normalization"] if self.layout.normalize else []
            notes.append(f"not applied: {', '.join([*normalization, *self.layout.extras])}")
        return notes + _weight_notes(self.encoder.weights)


def _load(title: str, layout: Layout, device: str) -> SentenceEncoder:
    """Load the transformer of a folder; texts are cut at the length that it declares."""
    import torch  # noqa: F401  heavy: only where a model is read

    from isotropy.device import pick_device
    from isotropy.models.encoder import UNPOOLED
    from isotropy.models.sentence_encoder import SentenceEncoder

    if layout.transformer is None:
        raise IsotropyError(f"{title}: it has no transformer: leave --pooling out")
    encoder = SentenceEncoder(layout.transformer, UNPOOLED, pick_device(device))
    encoder.model  # noqa: B018  loads the weights, here rather than in a thread
    return _cut_at(encoder, title, layout)


def _given(title: str, model: Any, tokenizer: Any, layout: Layout) -> SentenceEncoder:
    """Return the encoder of a given transformer; texts are cut at the length of its tokenizer."""
    from isotropy.models.encoder import UNPOOLED
    from isotropy.models.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder.given(model, tokenizer, UNPOOLED)
    return _cut_at(encoder, title, layout)


def _cut_at(encoder: SentenceEncoder, title: str, layout: Layout) -> SentenceEncoder:
    """Let an encoder cut texts at the length that its folder, tokenizer or positions declare."""
    if not encoder.tokenizer.is_fast:
        raise IsotropyError(f"{title}: needs a tokenizer.json (a fast tokenizer)")
    length = layout.max_length or (
        encoder.longest if encoder.longest < 10**9 else DEFAULT_MAX_LENGTH
    )
    max_length = min(length, encoder.longest)
    encoder.encoder = encoder.encoder.model_copy(update={"max_length": max_length})
    return encoder


def _parse_layers(
    title: str, requested: list[str], widths: Sequence[int | None], *, has_output: bool = False
) -> list[int | str]:
    """Parse the option --layers into numbers of hidden layers, and "output"."""
    n = len(widths) - 1
    expected = " or ".join([f"0 to {n}"] * bool(widths) + [OUTPUT] * has_output)
    if requested == ["all"]:
        usable = [layer for layer, width in enumerate(widths) if width is not None]
        return [*usable, *([OUTPUT] if has_output else [])]
    layers: list[int | str] = []
    for text in requested:
        if text == OUTPUT and has_output:
            layers.append(OUTPUT)
            continue
        try:
            layer = int(text)
        except ValueError:
            raise IsotropyError(
                f"{title}: --layers: expected {expected}, or all, got {text!r}"
            ) from None
        if not -n - 1 <= layer <= n:
            raise IsotropyError(f"{title}: --layers: expected {expected}, got {layer}")
        if widths[layer] is None:
            raise IsotropyError(
                f"{title}: --layers: layer {layer % (n + 1)} has not one vector per token"
            )
        layers.append(layer % (n + 1))
    return layers


def _pool(states: np.ndarray, mode: str) -> np.ndarray:
    """Pool the token vectors of a text into one vector, shape (1, d)."""
    if mode == "cls":
        return states[:1]
    if mode == "last":
        return states[-1:]
    mean: np.ndarray = states.mean(axis=0, keepdims=True)
    return mean


def _require_tokens(
    title: str, texts: Sequence[str], counts: Sequence[int], batch: Iterable[int] | None = None
) -> None:
    """Refuse a text of which the tokenizer leaves nothing. `batch`: numbers of the texts."""
    for i, text, count in zip(batch or range(len(texts)), texts, counts, strict=True):
        if count < 1:
            raise IsotropyError(
                f"{title}: text {i + 1}, {format_value(text)}, has no token: leave it out"
            )


def _length_note(longest: int, lengths: Sequence[int]) -> str:
    note = f"texts of at most {longest} tokens"
    if n_cut := sum(length >= longest for length in lengths):
        note += f", {n_cut} of {len(lengths)} reach that or are cut"
    return note


def _weight_notes(weights: dict[str, Any]) -> list[str]:
    """Say which weights of the file are not used."""
    unused = weights.get("unused")
    if not unused:
        return []
    return [f"not used: {len(unused)} weights of the file, the first is {unused[0]}"]
