"""Extracts one shard of the token vectors of a data set; embed_tokens assembles the shards."""

import pandas as pd
import torch

from isotropy.device import pick_device
from isotropy.models.batches import pick_token_budget
from isotropy.models.sentence_encoder import SentenceEncoder
from replication.embed.spec import ShardSpec
from replication.embed.tokens import Extraction, extract_shard
from replication.job import Job

with Job(snakemake, ShardSpec) as job:
    spec = job.spec.tokens
    device = pick_device(spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    encoder = SentenceEncoder(job.input["model"], spec.encoder, device, getattr(torch, spec.dtype))
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    extraction = Extraction(
        encoder,
        texts,
        layers=spec.layers,
        window=spec.window,
        token_budget=pick_token_budget(spec.token_budget, device.type),
    )
    with job.write("parts") as folder:
        folder.mkdir()
        tokens = extract_shard(
            extraction,
            job.spec.shard,
            job.spec.shards,
            workers=job.threads,
            work=job.work / device.type,
            folder=folder,
        )
    job.measurements = {"device": str(device), "tokens": tokens}
