"""Token vectors: hidden states of chosen layers, streamed to disk (`isotropy.embed.layers` says in
which form).

A model reads one text at a time, or windows of a stream: all texts one after the other, each with
its special tokens, cut into pieces of equal length whatever begins or ends there, the last short
one left out (Cai et al. 2021). Memory holds one part, not the whole: texts or windows are read in
parts of PART_TOKENS tokens, each of which is kept until all are there, so that a killed run goes on
where it was, and so that several jobs (shards) can share them out. Parts, and with them every byte,
do not depend on the number of shards.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
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

from isotropy.embed.layers import TOKENS, create_layer, layer_file, token_rows
from isotropy.embed.sentence_encoder import Pieces, SentenceEncoder, batches, map_batches
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.parquet import write_parquet
from isotropy.spec import digest

log = logging.getLogger(__name__)

PART_TOKENS = 8192  # tokens between two saves, one batch at least; a killed job repeats no more


class Extraction:
    """What a model reads, and the parts that it is divided into; what is read does not depend on
    how parts are shared out.

    Attributes:
        encoder, layers: the model, and its hidden layers.
        tokens: the table of tokens.
        parts: of each part, the numbers of its texts or windows, batch by batch.
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
        """Tokenize texts.

        Args:
            encoder: the model.
            texts: n strings.
            layers: hidden layers.
            window: tokens of a window; None: each text by itself.
            token_budget: most tokens in a batch.

        Raises:
            IsotropyError: a layer that the model does not have, or a window longer than it reads or
                than all texts.
        """
        _require_readable(encoder, layers, window)
        pieces = encoder.tokenize_marked(texts, cut=window is None)
        n_pieces = sum(map(len, pieces.ids))
        self._read, tokens = _sequences(pieces, window)
        if not len(tokens):
            too_few = f"{n_pieces} tokens are fewer than one window of {window}"
            raise IsotropyError("no tokens" if window is None else too_few)
        self.encoder, self.layers = encoder, layers
        self.tokens = tokens.assign(**_vocabulary(encoder, tokens["id"].to_numpy()))
        lengths = np.array([len(row) for row in self._read])
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])
        there = np.flatnonzero(lengths)  # a text may have no tokens
        todo = [there[batch].tolist() for batch in batches(lengths[there].tolist(), token_budget)]
        self.parts = _parts(todo, lengths)
        longest = int((lengths >= encoder.encoder.max_length).sum())
        self.about = {
            "texts": len(texts),
            "texts_as_long_as_the_encoder_reads": 0 if window else longest,
            "windows": len(self._read) if window else 0,
            "tokens": len(tokens),
            "tokens_after_the_last_window": n_pieces - len(tokens),
        }

    def rows(self, number: int) -> np.ndarray:
        """Rows of the table of tokens that a part holds."""
        return token_rows(self._offsets, [i for batch in self.parts[number] for i in batch])

    def compute(self, number: int, file: Path, workers: int) -> None:
        """Write a part: an array per layer, and what it is made from."""
        found = map_batches(
            lambda batch: self.encoder.encode_tokens([self._read[i] for i in batch], self.layers),
            self.parts[number],
            workers,
            self.encoder.device,
        )
        with atomic(file) as temporary:
            of_layers = zip(self.layers, zip(*found, strict=True), strict=True)
            arrays = {_stem(layer): torch.cat(states) for layer, states in of_layers}
            save_file(arrays, temporary, metadata={"of": self._identity(number)})

    def load(self, number: int, file: Path) -> dict[str, np.ndarray]:
        """The arrays of a part, shapes (tokens, d), by the stem of their layer's file.

        Raises:
            IsotropyError: it is not this part, or holds a vector that is not finite.
        """
        with safe_open(file, framework="pt") as stream:
            made_from = (stream.metadata() or {}).get("of")
            names = list(stream.keys())
            arrays = {name: stream.get_tensor(name) for name in names}
        shape = (len(self.rows(number)), self.encoder.dim)
        asked = {_stem(layer) for layer in self.layers}
        fits = made_from == self._identity(number) and set(arrays) == asked
        if not fits or any(a.shape != shape or a.dtype != torch.float32 for a in arrays.values()):
            raise IsotropyError(
                f"{file} is not part {number} of these tokens: delete it, so that it is made again"
            )
        if not all(bool(torch.isfinite(a).all()) for a in arrays.values()):
            raise IsotropyError(
                "the encoder gave vectors with NaN or infinity: check its weights and dtype"
            )
        return {name: a.numpy() for name, a in arrays.items()}

    def _identity(self, number: int) -> str:
        """What a part is made from: word pieces, in batches."""
        return digest([[self._read[i] for i in batch] for batch in self.parts[number]])


def part_file(folder: Path, number: int) -> Path:
    """File of a part."""
    return folder / f"part{number:06d}.safetensors"


def extract_shard(
    extraction: Extraction, shard: int, shards: int, *, workers: int, work: Path, folder: Path
) -> int:
    """Compute every so many-th part.

    Args:
        extraction: all parts.
        shard: which of the shards, from 1.
        shards: how many there are.
        workers: threads on the CPU.
        work: folder for finished parts, which outlives a killed job.
        folder: where they go in the end; it is there.

    Returns:
        Tokens of these parts.
    """
    work.mkdir(parents=True, exist_ok=True)
    numbers = range(shard - 1, len(extraction.parts), shards)
    for number in numbers:
        if not part_file(work, number).is_file():
            extraction.compute(number, part_file(work, number), workers)
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
    """Write the token vectors of texts, from parts that are there, and from those that have to be
    computed.

    Args:
        extraction: all parts.
        workers: threads on the CPU (a GPU is fed by one). Does not change the result.
        work: folder for finished parts.
        folder: where to write; it is there.
        mark: of the job's record, for the files.
        shards: folders of parts that other jobs have computed.

    Returns:
        What was measured.

    Raises:
        IsotropyError: a part that does not fit, or a vector that is not finite.
    """
    started = perf_counter()
    encoder, tokens = extraction.encoder, extraction.tokens
    write_parquet(folder / TOKENS, tokens, mark)
    shape = (len(tokens), encoder.dim)
    files = {
        _stem(layer): create_layer(folder / layer_file(layer), shape, mark)
        for layer in extraction.layers
    }
    work.mkdir(parents=True, exist_ok=True)
    fresh = _fill(files, extraction, workers, work, shards)
    for array in files.values():
        array.flush()
    seconds = perf_counter() - started
    # Parts that others have computed do not load the model.
    loaded = {"attention": str(encoder.model.config._attn_implementation)} if fresh else {}
    return extraction.about | {
        "device": str(encoder.device),
        **loaded,
        "shards": len(shards),
        "tokens_found_computed": len(tokens) - fresh,
        "tokens_per_second": round(fresh / seconds, 1),
    }


def _fill(
    arrays: Mapping[str, np.ndarray],
    extraction: Extraction,
    workers: int,
    work: Path,
    shards: Sequence[Path],
) -> int:
    """Write the vectors of all parts, part by part, into the layers' arrays; compute the parts that
    are not there, and keep them in `work`.

    Returns:
        Tokens of the parts that were computed.
    """
    fresh, total = 0, len(extraction.tokens)
    quiet = not sys.stderr.isatty()
    with tqdm(total=total, unit="token", disable=quiet, desc="tokens") as bar:
        for number in range(len(extraction.parts)):
            file = _find_part(number, work, shards)
            rows = extraction.rows(number)
            if not file.is_file():
                extraction.compute(number, file, workers)
                fresh += len(rows)
                if quiet and number % 16 == 15:
                    log.info("part %d of %d", number + 1, len(extraction.parts))
            for name, vectors in extraction.load(number, file).items():
                arrays[name][rows] = vectors
            bar.update(len(rows))
    return fresh


def _require_readable(encoder: SentenceEncoder, layers: Sequence[int], window: int | None) -> None:
    """Raise an IsotropyError for layers that the model does not have, and for a window longer than
    it reads.
    """
    if layers[-1] > encoder.n_layers:
        raise IsotropyError(
            f"layer {layers[-1]}: the model has hidden layers 0 to {encoder.n_layers}"
        )
    if window is not None and window > encoder.longest:
        raise IsotropyError(f"window {window}: the model reads at most {encoder.longest} tokens")


def _find_part(number: int, work: Path, shards: Sequence[Path]) -> Path:
    """File of a part: that of the shard which has it; without shards the one in `work`, which need
    not be there yet.

    Raises:
        IsotropyError: there are shards, and neither they nor `work` have it.
    """
    file = part_file(work, number)
    for shard in shards:
        if part_file(shard, number).is_file():
            return part_file(shard, number)
    if shards and not file.is_file():
        raise IsotropyError(f"no shard has {file.name}: delete {shards[0].parent} and start again")
    return file


def _stem(layer: int) -> str:
    """Name of a layer's array in a part."""
    return layer_file(layer).split(".")[0]


class _Sequences(NamedTuple):
    """What the model reads at once, and a row for each token of it, in the same order."""

    ids: list[list[int]]
    tokens: pd.DataFrame


def _sequences(pieces: Pieces, window: int | None) -> _Sequences:
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
    whole = total // window * window
    return _Sequences(flat["id"][:whole].reshape(-1, window).tolist(), tokens.iloc[:whole])


def _vocabulary(encoder: SentenceEncoder, ids: np.ndarray) -> dict[str, Any]:
    """The entry of the vocabulary that each token is, and whether it is a symbol."""
    seen, inverse = np.unique(ids, return_inverse=True)
    names: Any = encoder.tokenizer.convert_ids_to_tokens(seen.tolist())
    read = [encoder.tokenizer.decode([i]) for i in seen.tolist()]
    symbols = np.array([not any(c.isalnum() for c in text) for text in read])
    pieces = pd.Categorical.from_codes(inverse.tolist(), categories=pd.Index(_distinct(names)))
    return {"piece": pieces, "symbol": symbols[inverse]}


def _distinct(pieces: list[str]) -> list[str]:
    """Names of vocabulary entries; one that two entries share gets a number."""
    seen: dict[str, int] = {}
    result = []
    for piece in pieces:
        seen[piece] = seen.get(piece, 0) + 1
        result.append(piece if seen[piece] == 1 else f"{piece}#{seen[piece]}")
    return result


def _parts(todo: list[list[int]], lengths: np.ndarray) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about PART_TOKENS tokens."""
    parts: list[list[list[int]]] = []
    room = 0
    for batch in todo:
        if room <= 0:
            parts.append([])
            room = PART_TOKENS
        parts[-1].append(batch)
        room -= int(lengths[batch].sum())
    return parts
