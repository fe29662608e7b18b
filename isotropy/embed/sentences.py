"""Sentence embeddings: token vectors of an encoder, pooled, in batches of a fixed number of tokens.

Texts are sorted by length and cut into batches of at most `token_budget` tokens, padding included: small batches of
equal length stay in the cache and waste no work. On the CPU each worker thread encodes whole batches with one compute
thread, so the bytes do not depend on how many workers there are.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.metrics.matrix import worker_threads
from isotropy.sources.registry import Encoder

log = logging.getLogger(__name__)

TEXTS_PER_PART = 1024  # texts between two saves; a killed job repeats at most this many


class SentenceEncoder:
    """A transformer encoder and its pooling, read from a folder of plain files."""

    def __init__(self, folder: Path, encoder: Encoder, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.encoder, self.device = encoder, device
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # loading is over before a bar could be read
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # The attention is the fastest that the architecture has: torch's fused one, or MPNet's own.
        model: Any = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, dtype=dtype)
        self.model = model.eval().to(device)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.model.config.hidden_size)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Word pieces of each text, special tokens included, cut at the encoder's maximum length."""
        ids: list[list[int]] = self.tokenizer(list(texts), truncation=True, max_length=self.encoder.max_length)["input_ids"]
        return ids

    @torch.inference_mode()
    def encode_batch(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Vectors of a batch of tokenised texts, shape (batch, d), float32, on the CPU."""
        length = max(map(len, ids))
        pad = self.tokenizer.pad_token_id or 0
        input_ids = torch.tensor([[*row, *[pad] * (length - len(row))] for row in ids], device=self.device)
        lengths = torch.tensor([len(row) for row in ids], device=self.device)
        mask = (torch.arange(length, device=self.device) < lengths[:, None]).long()
        hidden: torch.Tensor = self.model(input_ids=input_ids, attention_mask=mask).last_hidden_state.float()
        mean = (hidden * mask[:, :, None]).sum(dim=1) / lengths[:, None]
        pooled = mean if self.encoder.pooling == "mean" else hidden[:, 0]
        if self.encoder.normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        return pooled.cpu()


def batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Indices of texts in batches of at most `token_budget` tokens with padding, shortest first; at least one a batch."""
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
    todo = batches([len(row) for row in ids], token_budget)
    parts = _parts(todo)
    work.mkdir(parents=True, exist_ok=True)
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    fresh = 0
    with tqdm(total=len(texts), unit="text", disable=not sys.stderr.isatty(), desc="embed") as bar:
        for number, part in enumerate(parts):
            file = work / f"part{number:05d}.safetensors"
            if not file.is_file():
                found = _map(lambda batch: encoder.encode_batch([ids[i] for i in batch]), part, workers, encoder.device)
                with atomic(file) as temporary:
                    save_file({"vectors": torch.cat(found)}, temporary)
                fresh += sum(map(len, part))
                if not sys.stderr.isatty() and number % 4 == 3:
                    log.info("embedded %d of %d texts", sum(len(b) for p in parts[: number + 1] for b in p), len(texts))
            vectors[[i for batch in part for i in batch]] = load_file(file)["vectors"].numpy()
            bar.update(sum(map(len, part)))
    if not np.isfinite(vectors).all():
        raise IsotropyError("the encoder gave vectors with NaN or infinity: check its weights and dtype")
    seconds = perf_counter() - started
    return vectors, {
        "device": str(encoder.device),
        "attention": str(encoder.model.config._attn_implementation),
        "texts": len(texts),
        "tokens": sum(map(len, ids)),
        "texts_taken_up_from_a_killed_run": len(texts) - fresh,
        "texts_per_second": round(fresh / seconds, 1),
    }


def _parts(todo: list[list[int]]) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about TEXTS_PER_PART texts."""
    parts: list[list[list[int]]] = [[]]
    for batch in todo:
        if sum(map(len, parts[-1])) >= TEXTS_PER_PART:
            parts.append([])
        parts[-1].append(batch)
    return parts


def _map(
    function: Callable[[list[int]], torch.Tensor], part: Iterable[list[int]], workers: int, device: torch.device
) -> list[torch.Tensor]:
    """Apply a function to batches, in worker threads with one compute thread each on the CPU."""
    if device.type != "cpu":
        return [function(batch) for batch in part]
    with worker_threads(workers) as pool:
        return list(pool.map(function, part))
