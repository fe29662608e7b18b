"""Sentence embeddings: token vectors of an encoder, pooled, in batches of a fixed number of tokens.

Texts are sorted by length and cut into batches of at most `token_budget` tokens, padding included:
small batches of equal length stay in the cache and waste no work. On the CPU each worker thread
encodes whole batches with one compute thread, so the bytes do not depend on how many workers there
are.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from isotropy.embed.linear import use_onednn_where_faster
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.metrics.matmul import worker_threads
from isotropy.metrics.validation import aligned
from isotropy.sources.encoder import Encoder

log = logging.getLogger(__name__)

T = TypeVar("T")

TEXTS_PER_PART = 1024  # texts between two saves; a killed job repeats at most this many


class Pieces(NamedTuple):
    """Word pieces of texts, three lists per text.

    Attributes:
        ids: number in the vocabulary.
        special: 1 for what the tokenizer has added, such as [CLS].
        words: which of the words between blanks it belongs to; -1 for none.
    """

    ids: list[list[int]]
    special: list[list[int]]
    words: list[list[int]]


class SentenceEncoder:
    """A transformer and its pooling, read from a folder of plain files: safetensors, or GGUF, which
    is dequantized.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.encoder, self.device = encoder, device
        # Loading is over before a bar could be read.
        transformers_logging.disable_progress_bar()
        gguf = next(folder.glob("*.gguf"), None)
        self._unpacked = gguf is not None
        packed: dict[str, Any] = {"local_files_only": True}
        if gguf is not None:
            packed["gguf_file"] = gguf.name
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **packed)
        self.config: Any = AutoConfig.from_pretrained(folder, **packed)
        if encoder.max_length > self.longest:
            raise IsotropyError(
                f"encoder.max_length {encoder.max_length}: the model reads at most {self.longest} "
                "tokens; correct the registry"
            )
        # The attention is the fastest that the architecture has: torch's fused one, or MPNet's own.
        self._load = partial(
            AutoModel.from_pretrained,
            folder,
            dtype=dtype,
            use_safetensors=None if gguf else True,
            **packed,
        )
        self._loading = Lock()  # batches run in threads
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The weights, loaded when they are first used."""
        with self._loading:
            if self._model is None:
                model = self._load().eval().to(self.device)
                if self._unpacked:  # by NumPy, anywhere in memory: products depend on where
                    for weight in model.parameters():
                        weight.data = aligned(weight.data)
                use_onednn_where_faster(model)
                self._model = model
        return self._model

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.config.hidden_size)

    @property
    def n_layers(self) -> int:
        """Hidden layers, the embedding layer not counted."""
        return int(self.config.num_hidden_layers)

    @property
    def longest(self) -> int:
        """Tokens that the model has positions for; a model without positions has no limit."""
        return longest_text(self.config)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Word pieces of each text, special tokens included, cut at the encoder's maximum
        length.
        """
        ids: list[list[int]] = self.tokenizer(
            list(texts), truncation=True, max_length=self.encoder.max_length
        )["input_ids"]
        return ids

    def tokenize_marked(self, texts: Sequence[str], *, cut: bool = True) -> Pieces:
        """The same, whole unless they are to be cut, and what each word piece is."""
        length = (
            {"truncation": True, "max_length": self.encoder.max_length}
            if cut
            else {"verbose": False}
        )
        found = self.tokenizer(
            list(texts), return_special_tokens_mask=True, return_offsets_mapping=True, **length
        )
        special = found["special_tokens_mask"]
        words = [_words(*row) for row in zip(texts, found["offset_mapping"], special, strict=True)]
        return Pieces(found["input_ids"], special, words)

    @torch.inference_mode()
    def encode_batch(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Vectors of a batch of tokenised texts, shape (batch, d), float32, on the CPU."""
        input_ids, mask = self._padded(ids)
        hidden: torch.Tensor = self.model(
            input_ids=input_ids, attention_mask=mask
        ).last_hidden_state.float()
        mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        pooled = mean if self.encoder.pooling == "mean" else hidden[:, 0]
        if self.encoder.normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        return pooled.cpu()

    @torch.inference_mode()
    def encode_tokens(
        self, ids: Sequence[Sequence[int]], layers: Sequence[int]
    ) -> list[torch.Tensor]:
        """Hidden states of a batch of tokenised texts, padding left out: per layer (tokens, d),
        float32, on the CPU.
        """
        input_ids, mask = self._padded(ids)
        states = self.model(
            input_ids=input_ids, attention_mask=mask, output_hidden_states=True
        ).hidden_states
        return [states[layer][mask.bool()].float().cpu() for layer in layers]

    @torch.inference_mode()
    def encode_padded(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        layer: int,
        length: int,
    ) -> torch.Tensor:
        """Hidden states of a batch of tokenised texts or pairs, padded to a length: (batch, length,
        d), float32, on the CPU.

        Args:
            ids: word pieces.
            types: the sentence of a pair that each is in; None for a model that does not ask.
            layer: hidden layer.
            length: of all rows.
        """
        input_ids, mask = self._padded(ids, length)
        optional = {} if types is None else {"token_type_ids": self._padded(types, length, 0)[0]}
        states = self.model(
            input_ids=input_ids, attention_mask=mask, output_hidden_states=True, **optional
        ).hidden_states
        return states[layer].float().cpu()  # type: ignore[no-any-return]

    def _padded(
        self, ids: Sequence[Sequence[int]], length: int | None = None, pad: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Word pieces padded on the right to a length or the longest, and the mask of what is not
        padding; (batch, length).
        """
        length = max(map(len, ids)) if length is None else length
        pad = self.tokenizer.pad_token_id or 0 if pad is None else pad
        input_ids = torch.tensor(
            [[*row, *[pad] * (length - len(row))] for row in ids], device=self.device
        )
        lengths = torch.tensor([len(row) for row in ids], device=self.device)
        return input_ids, (torch.arange(length, device=self.device) < lengths[:, None]).long()


def longest_text(config: Any) -> int:
    """Tokens that a model has positions for, special tokens included; a model without positions has
    no limit.

    Args:
        config: the model's configuration, of transformers.
    """
    most = getattr(config, "max_position_embeddings", None)
    if not isinstance(most, int):
        return 10**9
    # These number their positions from the padding's number plus one.
    shifted = config.model_type in ("mpnet", "roberta", "xlm-roberta", "camembert")
    return most - (config.pad_token_id + 1 if shifted else 0)


def _words(text: str, offsets: Sequence[tuple[int, int]], special: Sequence[int]) -> list[int]:
    """The word between blanks that holds the last character of each word piece."""
    blank = np.fromiter((c.isspace() for c in text), dtype=bool, count=len(text))
    begins = ~blank & np.concatenate([[True], blank[:-1]])[: len(text)]
    number = np.where(blank, -1, np.cumsum(begins) - 1).tolist()
    return [
        -1 if added or first == end else number[end - 1]
        for (first, end), added in zip(offsets, special, strict=True)
    ]


def batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Indices of texts in batches of at most `token_budget` tokens with padding, shortest first; at
    least one a batch.
    """
    result: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if not result or lengths[i] * (len(result[-1]) + 1) > token_budget:
            result.append([])
        result[-1].append(i)
    return result


def embed(
    encoder: SentenceEncoder, texts: Sequence[str], *, token_budget: int, workers: int, work: Path
) -> tuple[np.ndarray, dict[str, Any]]:
    """Embed texts; finished parts are kept in `work`, so that a killed run goes on where it was.

    Args:
        encoder: the model.
        texts: n strings.
        token_budget: most tokens in a batch.
        workers: threads on the CPU (a GPU is fed by one). Does not change the result.
        work: folder for finished parts.

    Returns:
        Vectors of shape (n, d), float32, in the order of `texts`; and what was measured.

    Raises:
        IsotropyError: a vector that is not finite.
    """
    started = perf_counter()
    ids = encoder.tokenize(texts)
    parts = _parts(batches([len(row) for row in ids], token_budget))
    work.mkdir(parents=True, exist_ok=True)
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    fresh = 0
    with tqdm(total=len(texts), unit="text", disable=not sys.stderr.isatty(), desc="embed") as bar:
        for number, part in enumerate(parts):
            file = work / f"part{number:05d}.safetensors"
            if not file.is_file():
                _compute_part(encoder, ids, part, workers, file)
                fresh += sum(map(len, part))
                if not sys.stderr.isatty() and number % 4 == 3:
                    done = sum(len(batch) for p in parts[: number + 1] for batch in p)
                    log.info("embedded %d of %d texts", done, len(texts))
            vectors[[i for batch in part for i in batch]] = load_file(file)["vectors"].numpy()
            bar.update(sum(map(len, part)))
    if not np.isfinite(vectors).all():
        raise IsotropyError(
            "the encoder gave vectors with NaN or infinity: check its weights and dtype"
        )
    seconds = perf_counter() - started
    return vectors, {
        "device": str(encoder.device),
        "attention": str(encoder.model.config._attn_implementation),
        "texts": len(texts),
        "tokens": sum(map(len, ids)),
        "texts_taken_up_from_a_killed_run": len(texts) - fresh,
        "texts_per_second": round(fresh / seconds, 1),
    }


def _compute_part(
    encoder: SentenceEncoder,
    ids: Sequence[Sequence[int]],
    part: list[list[int]],
    workers: int,
    file: Path,
) -> None:
    """Write the vectors of a part's texts, in the order of its batches."""
    found = map_batches(
        lambda batch: encoder.encode_batch([ids[i] for i in batch]), part, workers, encoder.device
    )
    with atomic(file) as temporary:
        save_file({"vectors": torch.cat(found)}, temporary)


def _parts(todo: list[list[int]]) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about TEXTS_PER_PART texts."""
    parts: list[list[list[int]]] = [[]]
    for batch in todo:
        if sum(map(len, parts[-1])) >= TEXTS_PER_PART:
            parts.append([])
        parts[-1].append(batch)
    return parts


def map_batches(
    function: Callable[[list[int]], T],
    part: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> list[T]:
    """Apply a function to batches, in worker threads with one compute thread each on the CPU."""
    if device.type != "cpu":
        return [function(batch) for batch in part]
    with worker_threads(workers) as pool:
        return list(pool.map(function, part))
