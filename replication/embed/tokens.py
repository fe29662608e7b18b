"""Token vectors: hidden states of selected layers, streamed to disk in the format that is described
in `replication.embed.layers`.

The model encodes each text by itself, or windows of a stream: all texts, each with its special
tokens, are concatenated and cut into windows of equal length regardless of text boundaries; the
shorter remainder is dropped (Cai et al. 2021). Texts or windows are processed in parts of about
PART_TOKENS tokens, of which only one is in memory at a time. Finished parts are saved until all are
complete, so that a killed run can be resumed and several jobs (shards) can divide the parts among
them. Parts, and so all output bytes, do not depend on the number of shards.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tqdm import tqdm

from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.models.batches import batches
from isotropy.models.sentence_encoder import (
    Pieces,
    SentenceEncoder,
    require_finite_vectors,
    start_ahead,
    start_batches,
)
from replication.embed.layers import TOKENS, create_layer, layer_file, token_rows
from replication.parquet import write_parquet
from replication.spec import digest

log = logging.getLogger(__name__)

PART_TOKENS = 8192  # tokens between two saves, at least one batch; what a killed job can lose


class Extraction:
    """The tokenized input of an extraction, divided into parts. Parts are the same however they are
    distributed over jobs.

    Attributes:
        encoder, layers: the model, and the hidden layers to extract.
        tokens: the table of tokens.
        parts: for each part, the indices of its texts or windows, batch by batch.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        texts: Sequence[str],
        *,
        layers: Sequence[int],
        window: int | None,
        token_budget: int,
    ) -> None:
        """Tokenize texts and divide them into parts.

        Args:
            encoder: the model.
            texts: n strings.
            layers: hidden layers to extract.
            window: length of a window in tokens; None: each text is encoded by itself.
            token_budget: maximum number of tokens in a batch, padding included.

        Raises:
            IsotropyError: a layer does not exist, the window is longer than the model's maximum
                input or than all texts together, or there are no tokens.
        """
        _require_readable(encoder, layers, window)
        pieces = encoder.tokenize_pieces(texts, cut=window is None)
        n_pieces = sum(map(len, pieces.ids))
        self._inputs, tokens = _build_sequences(pieces, window)
        if not len(tokens):
            too_few = f"{n_pieces} tokens are fewer than one window of {window}"
            raise IsotropyError("no tokens" if window is None else too_few)
        self.encoder, self.layers = encoder, layers
        self.tokens = tokens.assign(**_vocabulary_columns(encoder, tokens["id"].to_numpy()))
        lengths = np.array([len(row) for row in self._inputs])
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])
        non_empty = np.flatnonzero(lengths)  # texts without tokens are skipped
        batch_list = [
            non_empty[batch].tolist()
            for batch in batches(lengths[non_empty].tolist(), token_budget)
        ]
        self.parts = _group_into_parts(batch_list, lengths)
        n_full_length = int((lengths >= encoder.encoder.max_length).sum())
        self.counts = {
            "texts": len(texts),
            "texts_as_long_as_the_encoder_reads": 0 if window else n_full_length,
            "windows": len(self._inputs) if window else 0,
            "tokens": len(tokens),
            "tokens_after_the_last_window": n_pieces - len(tokens),
        }

    def rows(self, number: int) -> np.ndarray:
        """Return the rows of the table of tokens whose vectors a part contains."""
        return token_rows(self._offsets, [i for batch in self.parts[number] for i in batch])

    def start(self, number: int, workers: int) -> Callable[[Path], None]:
        """Start the computation of a part, and return a function that waits for it and saves it:
        one array per layer, and the digest of its input.
        """
        states_by_batch = start_batches(
            lambda batch: self.encoder.encode_tokens([self._inputs[i] for i in batch], self.layers),
            self.parts[number],
            workers,
            self.encoder.device,
        )
        return lambda file: self._save(number, states_by_batch(), file)

    def _save(self, number: int, states_by_batch: list[list[torch.Tensor]], file: Path) -> None:
        with atomic(file) as temporary:
            states_by_layer = zip(self.layers, zip(*states_by_batch, strict=True), strict=True)
            arrays = {_array_name(layer): torch.cat(states) for layer, states in states_by_layer}
            save_file(arrays, temporary, metadata={"of": self._identity(number)})

    def load(self, number: int, file: Path) -> dict[str, np.ndarray]:
        """Load a saved part: arrays of shape (tokens, d), by the stem of their layer's file name.

        Raises:
            IsotropyError: the file is not this part, or a vector has NaN or infinity.
        """
        with safe_open(file, framework="pt") as stream:
            identity = (stream.metadata() or {}).get("of")
            names = list(stream.keys())
            arrays = {name: stream.get_tensor(name) for name in names}
        shape = (len(self.rows(number)), self.encoder.dim)
        expected = {_array_name(layer) for layer in self.layers}
        matches = identity == self._identity(number) and set(arrays) == expected
        if not matches or any(
            a.shape != shape or a.dtype != torch.float32 for a in arrays.values()
        ):
            raise IsotropyError(
                f"{file} is not part {number} of these tokens: delete it and run again"
            )
        for array in arrays.values():
            require_finite_vectors(array.numpy())
        return {name: a.numpy() for name, a in arrays.items()}

    def _identity(self, number: int) -> str:
        """Return the digest of the input of a part: its word pieces, batch by batch."""
        return digest([[self._inputs[i] for i in batch] for batch in self.parts[number]])


def part_file(folder: Path, number: int) -> Path:
    """Return the path of a part in a folder."""
    return folder / f"part{number:06d}.safetensors"


def extract_shard(
    extraction: Extraction, shard: int, shards: int, *, workers: int, work: Path, folder: Path
) -> int:
    """Compute the parts of one shard: every n-th part, where n is the number of shards.

    Args:
        extraction: the tokenized input and its parts.
        shard: number of this shard, counted from 1.
        shards: number of shards.
        workers: threads on the CPU.
        work: folder for finished parts, kept if the job is killed.
        folder: output folder, which must exist; the parts are moved there at the end.

    Returns:
        Number of tokens in the parts of the shard.
    """
    work.mkdir(parents=True, exist_ok=True)
    numbers = range(shard - 1, len(extraction.parts), shards)
    missing = [number for number in numbers if not part_file(work, number).is_file()]
    device = extraction.encoder.device
    for number, save in start_ahead(lambda n: extraction.start(n, workers), missing, device):
        save(part_file(work, number))
    for number in numbers:
        part_file(work, number).rename(part_file(folder, number))
    return sum(len(extraction.rows(number)) for number in numbers)


def extract(
    extraction: Extraction,
    *,
    workers: int,
    work: Path,
    folder: Path,
    mark: str,
    shards: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write the token vectors of texts, from saved parts where they exist; compute the others.

    Args:
        extraction: the tokenized input and its parts.
        workers: threads on the CPU (on a GPU there is only one); does not change the result.
        work: folder for finished parts.
        folder: output folder, which must exist.
        mark: identifier of the job's record, stored in the output files.
        shards: folders of parts that other jobs have computed.

    Returns:
        Measurements of the run: counts, device and speed.

    Raises:
        IsotropyError: a saved part does not belong to this input, or a vector has NaN or infinity.
    """
    started = perf_counter()
    encoder, tokens = extraction.encoder, extraction.tokens
    write_parquet(folder / TOKENS, tokens, mark)
    shape = (len(tokens), encoder.dim)
    files = {
        _array_name(layer): create_layer(folder / layer_file(layer), shape, mark)
        for layer in extraction.layers
    }
    work.mkdir(parents=True, exist_ok=True)
    n_computed = _fill_layers(files, extraction, workers, work, shards)
    for array in files.values():
        array.flush()
    seconds = perf_counter() - started
    # The model is loaded only if a part had to be computed.
    loaded = {}
    if n_computed:
        attention = str(encoder.model.config._attn_implementation)
        loaded = {"attention": attention, "weights": encoder.weights}
    return extraction.counts | {
        "device": str(encoder.device),
        **loaded,
        "shards": len(shards),
        "tokens_found_computed": len(tokens) - n_computed,
        "tokens_per_second": round(n_computed / seconds, 1),
    }


def _fill_layers(
    arrays: Mapping[str, np.ndarray],
    extraction: Extraction,
    workers: int,
    work: Path,
    shards: Sequence[Path],
) -> int:
    """Copy the vectors of all parts into the arrays of the layers; parts that are not saved yet are
    computed and saved in `work`.

    Returns:
        Number of tokens in the parts that were computed.
    """
    n_computed, total = 0, len(extraction.tokens)
    quiet = not sys.stderr.isatty()
    files = [_find_part(number, work, shards) for number in range(len(extraction.parts))]

    def start(number: int) -> Callable[[Path], None] | None:
        return None if files[number].is_file() else extraction.start(number, workers)

    with tqdm(total=total, unit="token", disable=quiet, desc="tokens") as bar:
        device = extraction.encoder.device
        for number, save in start_ahead(start, range(len(files)), device):
            rows = extraction.rows(number)
            if save is not None:
                save(files[number])
                n_computed += len(rows)
                if quiet and number % 16 == 15:
                    log.info("part %d of %d", number + 1, len(extraction.parts))
            for name, vectors in extraction.load(number, files[number]).items():
                arrays[name][rows] = vectors
            bar.update(len(rows))
    return n_computed


def _require_readable(encoder: SentenceEncoder, layers: Sequence[int], window: int | None) -> None:
    """Raise an IsotropyError if a layer does not exist or a window exceeds the model's maximum
    input.
    """
    if layers[-1] > encoder.n_layers:
        raise IsotropyError(
            f"layer {layers[-1]}: the model has hidden layers 0 to {encoder.n_layers}"
        )
    if window is not None and window > encoder.longest:
        raise IsotropyError(f"window {window}: the model reads at most {encoder.longest} tokens")


def _find_part(number: int, work: Path, shards: Sequence[Path]) -> Path:
    """Return the file of a part: in the folder of the shard that has computed it, else in `work`,
    where it may not exist yet.

    Raises:
        IsotropyError: shards are given, but the part is neither in them nor in `work`.
    """
    file = part_file(work, number)
    for shard in shards:
        if part_file(shard, number).is_file():
            return part_file(shard, number)
    if shards and not file.is_file():
        raise IsotropyError(f"no shard has {file.name}: delete {shards[0].parent} and start again")
    return file


def _array_name(layer: int) -> str:
    """Return the name of the array of a layer in a saved part."""
    return layer_file(layer).split(".")[0]


class _Sequences(NamedTuple):
    """Inputs of the model (texts or windows) and the table of their tokens, in the same order."""

    ids: list[list[int]]
    tokens: pd.DataFrame


def _build_sequences(pieces: Pieces, window: int | None) -> _Sequences:
    """Build the inputs of the model and the table of their tokens from tokenized texts."""
    lengths = [len(row) for row in pieces.ids]
    total = sum(lengths)
    flat = {
        name: np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=total)
        for name, rows in {
            "id": pieces.ids,
            "word": pieces.words,
            "special": pieces.special,
        }.items()
    }
    tokens = pd.DataFrame(
        {
            "text": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
            "position": np.fromiter(
                chain.from_iterable(map(range, lengths)), dtype=np.int32, count=total
            ),
            "word": flat["word"],
            "id": flat["id"],
            "special": flat["special"].astype(bool),
        }
    )
    if window is None:
        return _Sequences(pieces.ids, tokens)
    n_used = total // window * window
    return _Sequences(flat["id"][:n_used].reshape(-1, window).tolist(), tokens.iloc[:n_used])


def _vocabulary_columns(encoder: SentenceEncoder, ids: np.ndarray) -> dict[str, Any]:
    """Return the columns `piece` and `symbol` of the table of tokens: the string of each token in
    the vocabulary, and whether it has neither letter nor digit.
    """
    distinct_ids, inverse = np.unique(ids, return_inverse=True)
    names: Any = encoder.tokenizer.convert_ids_to_tokens(distinct_ids.tolist())
    decoded = [encoder.tokenizer.decode([i]) for i in distinct_ids.tolist()]
    symbols = np.array([not any(c.isalnum() for c in text) for text in decoded])
    pieces = pd.Categorical.from_codes(
        inverse.tolist(), categories=pd.Index(_number_duplicates(names))
    )
    return {"piece": pieces, "symbol": symbols[inverse]}


def _number_duplicates(pieces: list[str]) -> list[str]:
    """Make the names of vocabulary entries unique: append a number to repeated ones."""
    occurrences: dict[str, int] = {}
    result = []
    for piece in pieces:
        occurrences[piece] = occurrences.get(piece, 0) + 1
        result.append(piece if occurrences[piece] == 1 else f"{piece}#{occurrences[piece]}")
    return result


def _group_into_parts(batch_list: list[list[int]], lengths: np.ndarray) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about PART_TOKENS tokens."""
    parts: list[list[list[int]]] = []
    tokens_left = 0
    for batch in batch_list:
        if tokens_left <= 0:
            parts.append([])
            tokens_left = PART_TOKENS
        parts[-1].append(batch)
        tokens_left -= int(lengths[batch].sum())
    return parts
