"""Speed of sentence embedding: ours and SentenceTransformer.encode, on the same model and texts.

It needs the model and sentences fetched by the workflow: run `make figures` first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

from isotropy.models.encoder import Encoder
from isotropy.models.sentence_encoder import SentenceEncoder, embed


def main() -> None:
    """Time both alternately on the same sentences; print rates, their ratio and the largest
    difference of a coordinate.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = options.results / "fetch/all-MiniLM-L6-v2"
    if not folder.is_dir():
        sys.exit(f"{folder} does not exist: run `make figures` first")
    texts = list(
        pd.read_parquet(options.results / "prepare/polarity.texts.parquet")["text"][: options.texts]
    )
    encoder = SentenceEncoder(
        folder, Encoder(pooling="mean", normalize=True, max_length=256), torch.device("cpu")
    )
    modules = [
        Transformer(str(folder), max_seq_length=256),
        Pooling(encoder.dim, pooling_mode="mean"),
        Normalize(),
    ]
    peer = SentenceTransformer(modules=modules, device="cpu")
    workers = torch.get_num_threads()

    def ours() -> np.ndarray:
        with tempfile.TemporaryDirectory() as work:
            return embed(encoder, texts, token_budget=2048, workers=workers, work=Path(work))[0]

    difference = np.abs(ours() - peer.encode(texts)).max()
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(options.rounds):
        for name, function in (("ours", ours), ("peer", lambda: peer.encode(texts))):
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    rates = {name: len(texts) / statistics.median(taken) for name, taken in times.items()}
    ratios = sorted(b / a for a, b in zip(times["ours"], times["peer"], strict=True))
    print(f"{len(texts)} sentences, {workers} threads, all-MiniLM-L6-v2, float32")
    print(
        f"ours {rates['ours']:.0f} texts/s; SentenceTransformer.encode {rates['peer']:.0f} texts/s"
    )
    print(
        f"ratio {rates['ours'] / rates['peer']:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); "
        f"largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()
