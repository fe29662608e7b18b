"""Extracts the token vectors of a data set: hidden states of selected layers of a model."""

import pandas as pd
import torch

from isotropy.device import pick_device
from isotropy.errors import IsotropyError
from isotropy.models.batches import pick_token_budget
from isotropy.models.sentence_encoder import SentenceEncoder
from replication.embed.deviations import precision_deviations
from replication.embed.spec import TokensSpec
from replication.embed.tokens import Extraction, extract
from replication.job import Job

with Job(snakemake, TokensSpec, shortcut_inputs=("shards",)) as job:
    spec, shards = job.spec, job.inputs("shards")
    # With shards, nothing is computed here: their parts are only assembled.
    device = torch.device("cpu") if shards else pick_device(spec.device)
    if any(record.spec["tokens"] != spec.recorded() for record in job.shortcut_records):
        raise IsotropyError(f"{shards[0].parent} contains shards of other token vectors: delete it")
    is_bitwise = device.type == "cpu" and all(
        record.determinism == "bitwise" for record in job.shortcut_records
    )
    job.determinism = "bitwise" if is_bitwise else "tolerance"
    job.lineage.deviate(precision_deviations(spec.dtype))
    encoder = SentenceEncoder(job.input["model"], spec.encoder, device, getattr(torch, spec.dtype))
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    devices = [torch.device(r.measurements["device"]) for r in job.shortcut_records] or [device]
    extraction = Extraction(
        encoder,
        texts,
        layers=spec.layers,
        window=spec.window,
        token_budget=pick_token_budget(spec.token_budget, devices[0].type),
    )
    with job.write("tokens") as folder:
        folder.mkdir()
        job.measurements = extract(
            extraction,
            workers=job.threads,
            work=job.work / device.type,
            folder=folder,
            mark=job.mark,
            shards=shards,
        )
    if shards:
        job.measurements["device"] = sorted(
            {record.measurements["device"] for record in job.shortcut_records}
        )
