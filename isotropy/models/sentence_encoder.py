"""Sentence embeddings: pooled token vectors of an encoder, in batches of a fixed number of tokens.

Texts are sorted by length and grouped into batches of at most `token_budget` tokens, padding
included: small batches of texts of similar length fit in the cache and need little padding. On the
CPU each worker thread encodes whole batches with one compute thread, so that results are
byte-identical for any number of workers. A GPU is never waited for between batches: the next part
is started before the last one is saved.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from isotropy.device import HostCopy, to_device
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.metrics.matmul import worker_threads
from isotropy.metrics.validation import aligned
from isotropy.models.batches import batches, pad_rows
from isotropy.models.encoder import Encoder
from isotropy.models.loading import (
    HiddenStates,
    avoid_reading_masks,
    inspect_hidden_states,
    load_weights,
    output_options,
    text_encoder,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

TEXTS_PER_PART = 1024  # texts between two saves; a resumed job recomputes about this many at most


class Pieces(NamedTuple):
    """Word pieces of texts: three parallel lists per text.

    Attributes:
        ids: ids in the vocabulary.
        special: 1 for special tokens that the tokenizer has added, such as [CLS], else 0.
        words: index of the whitespace-separated word that each piece belongs to; -1 for none.
        types: token type ids; None if the tokenizer gives none or only zeros.
        offsets: where each piece begins and ends in the text, in characters.
    """

    ids: list[list[int]]
    special: list[list[int]]
    words: list[list[int]]
    types: list[list[int]] | None
    offsets: list[list[tuple[int, int]]]


class SentenceEncoder:
    """A transformer and its pooling, read from a folder of plain files: safetensors, or GGUF, which
    is dequantized.

    Attributes:
        is_given: whether the transformer was not read, but given as an object.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.encoder, self.device = encoder, device
        # Loading is too fast for a progress bar to be of use.
        transformers_logging.disable_progress_bar()
        self._gguf = gguf = find_gguf(folder)
        load_options: dict[str, Any] = {} if gguf is None else {"gguf_file": gguf.name}
        self.tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, **load_options
        )
        config: Any = AutoConfig.from_pretrained(folder, local_files_only=True, **load_options)
        self.config: Any = config.get_text_config()
        if encoder.max_length > self.longest:
            raise IsotropyError(
                f"encoder.max_length {encoder.max_length}: the model reads at most {self.longest} "
                "tokens; correct the registry"
            )
        # transformers takes the fastest attention of the architecture: torch's, or MPNet's own.
        self._load = partial(
            load_weights,
            AutoModel,
            folder,
            dtype=dtype,
            use_safetensors=None if gguf else True,
            **load_options,
        )
        self._loading = Lock()  # batches run in threads
        self._model: Any = None
        self.weights: dict[str, Any] = {}  # described once they are loaded
        self.is_given = False
        self._options: dict[str, int] = {}

    @classmethod
    def given(cls, model: Any, tokenizer: Any, encoder: Encoder) -> SentenceEncoder:
        """Return the encoder of a loaded transformer, which is used as it is, and its tokenizer."""
        self = cls.__new__(cls)
        self.encoder, self.tokenizer, self._gguf = encoder, tokenizer, None
        self.config = model.config.get_text_config()
        self.device = next(model.parameters()).device
        self._loading, self._model = Lock(), text_encoder(model)
        self.weights = {"library": f"transformers {transformers.__version__}"}
        self.is_given, self._options = True, {}
        if "logits_to_keep" in signature(model.forward).parameters:  # they are not read
            self._options["logits_to_keep"] = 1
        return self

    @property
    def model(self) -> Any:
        """The transformer, loaded at first use."""
        with self._loading:
            if self._model is None:
                model, self.weights = self._load()
                model = text_encoder(model).eval().to(self.device)
                if self._gguf is not None:  # unaligned NumPy memory: products depend on alignment
                    self.weights = self.weights | {"file": self._gguf.name}
                    for weight in model.parameters():
                        weight.data = aligned(weight.data)
                if self.device.type != "cpu":
                    avoid_reading_masks(model)
                self._model = model
        return self._model

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(self.config.hidden_size)

    @property
    def n_layers(self) -> int:
        """Number of hidden layers, without the embedding layer."""
        return int(self.config.num_hidden_layers)

    @property
    def longest(self) -> int:
        """Maximum number of input tokens; 10**9 for a model without position embeddings."""
        return max_input_tokens(self.config)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of the word pieces of each text, special tokens included, truncated to the
        encoder's maximum length.
        """
        ids: list[list[int]] = self.tokenizer(
            list(texts), truncation=True, max_length=self.encoder.max_length
        )["input_ids"]
        self._require_known(ids)
        return ids

    def tokenize_pieces(self, texts: Sequence[str], *, cut: bool = True) -> Pieces:
        """Tokenize texts and return, for each word piece, also whether it is a special token and
        which word it belongs to.

        Args:
            texts: n strings.
            cut: truncate texts to the encoder's maximum length.
        """
        truncation = (
            {"truncation": True, "max_length": self.encoder.max_length}
            if cut
            else {"verbose": False}
        )
        encoded = self.tokenizer(
            list(texts), return_special_tokens_mask=True, return_offsets_mapping=True, **truncation
        )
        self._require_known(encoded["input_ids"])
        special = encoded["special_tokens_mask"]
        words = [
            _word_indices(*row)
            for row in zip(texts, encoded["offset_mapping"], special, strict=True)
        ]
        types = encoded.get("token_type_ids")
        return Pieces(
            encoded["input_ids"],
            special,
            words,
            types if any(map(any, types or [])) else None,
            encoded["offset_mapping"],
        )

    @torch.inference_mode()
    def encode_batch(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return pooled vectors of a batch of tokenized texts: (batch, d), float32, on the model's
        device.
        """
        input_ids, mask = self._pad(ids)
        hidden: torch.Tensor = self.model(
            input_ids=to_device(input_ids, self.device), attention_mask=self._mask_input(mask)
        ).last_hidden_state.float()
        is_token = to_device(mask, self.device)
        mean = (hidden * is_token[:, :, None]).sum(dim=1) / is_token.sum(dim=1, keepdim=True)
        pooled = mean if self.encoder.pooling == "mean" else hidden[:, 0]
        if self.encoder.normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        return pooled

    @torch.inference_mode()
    def encode_tokens(
        self,
        ids: Sequence[Sequence[int]],
        layers: Sequence[int],
        types: Sequence[Sequence[int]] | None = None,
    ) -> list[torch.Tensor]:
        """Return the hidden states of a batch of tokenized texts without padding: for each layer
        (tokens, d), float32, on the model's device. `types` are token type ids.
        """
        input_ids, mask = self._pad(ids)
        optional = {}
        if types is not None:
            optional["token_type_ids"] = to_device(pad_rows(types, 0)[0], self.device)
        states = self._hidden_states(input_ids, mask, **optional)
        tokens = to_device(np.flatnonzero(mask), self.device)
        return [states[layer].flatten(0, 1).index_select(0, tokens).float() for layer in layers]

    @torch.inference_mode()
    def encode_padded(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        layer: int,
        length: int,
    ) -> torch.Tensor:
        """Return the hidden states of a batch of tokenized texts or pairs, padding included:
        (batch, length, d), float32, on the model's device.

        Args:
            ids: word pieces.
            types: token type ids (0 or 1: the sentence of a pair that each piece is in); None for
                a model without token types.
            layer: hidden layer.
            length: length to which all rows are padded.
        """
        input_ids, mask = self._pad(ids, length)
        optional = {}
        if types is not None:
            optional["token_type_ids"] = to_device(pad_rows(types, 0, length)[0], self.device)
        return self._hidden_states(input_ids, mask, **optional)[layer].float()

    @torch.inference_mode()
    def inspect(self) -> HiddenStates:
        """Find out by two short texts what the hidden layers are, and whether padding changes
        them.
        """
        short = self.tokenize(["a"])[0] or [0]
        return inspect_hidden_states(lambda ids: self._hidden_states(*self._pad(ids)), short)

    def _hidden_states(
        self, input_ids: np.ndarray, mask: np.ndarray, **options: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Compute the states of all layers of padded texts, shape (texts, tokens, d) each."""
        outputs = self.model(
            input_ids=to_device(input_ids, self.device),
            attention_mask=self._mask_input(mask),
            **output_options(self.model.config),
            **options,
            **self._options,
        )
        states: tuple[torch.Tensor, ...] | None = getattr(outputs, "hidden_states", None)
        if states is None:
            raise IsotropyError(
                f"a {self.config.model_type} gives no hidden states for texts: embed with it "
                "yourself and measure the vectors, saved by numpy.save"
            )
        return states

    def _pad(
        self, ids: Sequence[Sequence[int]], length: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pad rows of ids by the padding token, as `pad_rows` does."""
        pad = self.tokenizer.pad_token_id or 0
        # The mask hides padding: any id serves if the model has no embedding for the tokenizer's.
        return pad_rows(ids, pad if pad < self._n_embeddings else 0, length)

    @property
    def _n_embeddings(self) -> int:
        return int(self.config.vocab_size)

    def _require_known(self, ids: list[list[int]]) -> None:
        """Raise an IsotropyError if a token has no embedding in the model."""
        for number, row in enumerate(ids):
            if row and (largest := max(row)) >= self._n_embeddings:
                token = self.tokenizer.convert_ids_to_tokens(largest)
                raise IsotropyError(
                    f"text {number + 1}: token {token!r} has id {largest}, and the model has "
                    f"{self._n_embeddings} embeddings: the tokenizer is not the model's"
                )

    def _mask_input(self, mask: np.ndarray) -> torch.Tensor | None:
        """Return the attention mask for the model; on a GPU None if nothing is padding, which
        allows faster attention.
        """
        if self.device.type != "cpu" and mask.all():
            return None
        return to_device(mask, self.device)


def find_gguf(folder: Path) -> Path | None:
    """Return the GGUF file of a model's folder; None if it has other weights."""
    if any(folder.glob("*.safetensors")):
        return None
    return next(folder.glob("*.gguf"), None)


POSITIONS_START_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "longformer",
    "luke",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
"""Types of models that number positions from the id of the padding token plus one."""


def max_input_tokens(config: Any) -> int:
    """Return the maximum number of input tokens of a model, special tokens included; 10**9 for a
    model without position embeddings.

    Args:
        config: the model's configuration in transformers.
    """
    text = config.get_text_config()
    n_positions = getattr(text, "max_position_embeddings", None)
    if not isinstance(n_positions, int) or n_positions < 1:
        return 10**9
    if text.model_type in POSITIONS_START_AFTER_PADDING:
        # MPNet's position of padding is 1, whatever its configuration says
        n_positions -= (1 if text.model_type == "mpnet" else text.pad_token_id) + 1
    return n_positions


def _word_indices(
    text: str, offsets: Sequence[tuple[int, int]], special: Sequence[int]
) -> list[int]:
    """Return, for each word piece, the index of the whitespace-separated word that holds its last
    character; -1 for special tokens and whitespace.
    """
    is_space = np.fromiter((c.isspace() for c in text), dtype=bool, count=len(text))
    starts_word = ~is_space & np.concatenate([[True], is_space[:-1]])[: len(text)]
    word_of_character = np.where(is_space, -1, np.cumsum(starts_word) - 1).tolist()
    return [
        -1 if is_special or start == end else word_of_character[end - 1]
        for (start, end), is_special in zip(offsets, special, strict=True)
    ]


def embed(
    encoder: SentenceEncoder, texts: Sequence[str], *, token_budget: int, workers: int, work: Path
) -> tuple[np.ndarray, dict[str, Any]]:
    """Embed texts.

    Args:
        encoder: the model.
        texts: n strings.
        token_budget: maximum number of tokens in a batch, padding included.
        workers: threads on the CPU (on a GPU there is only one); does not change the result.
        work: folder for finished parts, from which a killed run is resumed.

    Returns:
        Vectors of shape (n, d), float32, in the order of `texts`; and measurements of the run.

    Raises:
        IsotropyError: a vector has NaN or infinity.
    """
    started = perf_counter()
    ids = encoder.tokenize(texts)
    parts = _group_into_parts(batches([len(row) for row in ids], token_budget))
    files = [work / f"part{number:05d}.safetensors" for number in range(len(parts))]
    work.mkdir(parents=True, exist_ok=True)
    n_computed, quiet = 0, not sys.stderr.isatty()
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)

    def start(i: int) -> Callable[[], list[torch.Tensor]] | None:
        return None if files[i].is_file() else _start_part(encoder, ids, parts[i], workers)

    with tqdm(total=len(texts), unit="text", disable=quiet, desc="embed") as bar:
        for number, results in start_ahead(start, range(len(parts)), encoder.device):
            part, file = parts[number], files[number]
            if results is not None:
                with atomic(file) as temporary:
                    save_file({"vectors": torch.cat(results())}, temporary)
                n_computed += sum(map(len, part))
                if quiet and number % 4 == 3:
                    log.info("embedded part %d of %d", number + 1, len(parts))
            vectors[[i for batch in part for i in batch]] = load_file(file)["vectors"].numpy()
            bar.update(sum(map(len, part)))
    require_finite_vectors(vectors)
    return vectors, {
        "device": str(encoder.device),
        "attention": str(encoder.model.config._attn_implementation),
        "weights": encoder.weights,
        "texts": len(texts),
        "tokens": sum(map(len, ids)),
        "texts_taken_up_from_a_killed_run": len(texts) - n_computed,
        "texts_per_second": round(n_computed / (perf_counter() - started), 1),
    }


def require_finite_vectors(vectors: np.ndarray) -> None:
    """Raise an IsotropyError if a vector of an encoder has NaN or infinity."""
    if not np.isfinite(vectors).all():
        raise IsotropyError(
            "the encoder gave vectors with NaN or infinity: check its weights and dtype"
        )


def _start_part(
    encoder: SentenceEncoder, ids: Sequence[Sequence[int]], part: list[list[int]], workers: int
) -> Callable[[], list[torch.Tensor]]:
    return start_batches(
        lambda batch: encoder.encode_batch([ids[i] for i in batch]), part, workers, encoder.device
    )


def _group_into_parts(batch_list: list[list[int]]) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about TEXTS_PER_PART texts."""
    parts: list[list[list[int]]] = [[]]
    for batch in batch_list:
        if sum(map(len, parts[-1])) >= TEXTS_PER_PART:
            parts.append([])
        parts[-1].append(batch)
    return parts


def map_batches(
    function: Callable[[list[int]], T],
    batch_list: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> list[T]:
    """Apply a function, which returns tensors, to batches; on the CPU in worker threads with one
    compute thread each. The results are on the CPU.
    """
    return start_batches(function, batch_list, workers, device)()


def start_batches(
    function: Callable[[list[int]], T],
    batch_list: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> Callable[[], list[T]]:
    """Start what `map_batches` does, and return a function that waits for the results. On the CPU
    they are complete when this returns.
    """
    if device.type == "cpu":
        with worker_threads(workers) as pool:
            complete = list(pool.map(function, batch_list))
        return lambda: complete
    copies = [HostCopy(function(batch)) for batch in batch_list]
    return lambda: [copy.wait() for copy in copies]


def start_ahead(
    start: Callable[[int], T], numbers: Iterable[int], device: torch.device
) -> Iterator[tuple[int, T]]:
    """Start numbered pieces of work and yield what `start` returns for each; on a GPU, the next
    piece is started before the result of one is used.
    """
    started: list[tuple[int, T]] = []
    for number in numbers:
        started.append((number, start(number)))
        if device.type == "cpu" or len(started) > 1:
            yield started.pop(0)
    yield from started
