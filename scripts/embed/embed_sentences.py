"""Embeds the sentences of a data set with an encoder."""

import pandas as pd
import torch
from safetensors.numpy import save_file

from isotropy.device import pick_device
from isotropy.models.batches import pick_token_budget
from isotropy.models.sentence_encoder import SentenceEncoder, embed
from replication.embed.deviations import encoder_deviations, precision_deviations
from replication.embed.spec import EmbedSpec
from replication.job import Job

with Job(snakemake, EmbedSpec) as job:
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    dtype = getattr(torch, job.spec.dtype)
    device = pick_device(job.spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    encoder = SentenceEncoder(job.input["model"], job.spec.encoder, device, dtype)
    vectors, job.measurements = embed(
        encoder,
        texts,
        token_budget=pick_token_budget(job.spec.token_budget, device.type),
        workers=job.threads,
        work=job.work / device.type,
    )
    deviations = precision_deviations(job.spec.dtype)
    job.lineage.deviate(deviations + encoder_deviations(job.spec.model, job.spec.encoder))
    with job.write("vectors") as path:
        save_file({"vectors": vectors}, path, metadata={"record": job.mark})
