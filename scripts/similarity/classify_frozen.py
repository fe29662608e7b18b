"""Trains and evaluates classifiers of a task on frozen features: with each post-processing method,
transductive and inductive, an MLP and a linear control.
"""

import numpy as np
import torch

from isotropy.device import pick_device
from isotropy.models.sentence_encoder import SentenceEncoder
from replication.finetune.scores import classification_scores
from replication.job import Job
from replication.parquet import write_parquet
from replication.similarity.classify import classify, features
from replication.similarity.spec import ClassificationFacts, ClassifySpec
from replication.similarity.token_cloud import read_columns

with Job(snakemake, ClassifySpec) as job:
    spec, device = job.spec, pick_device(job.spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    job.seeds = {f"seed{s}": s for s in spec.seeds}
    columns, targets, n_all = read_columns(
        job.input["train_texts"], job.input["train_items"], spec.n_train
    )
    validation_columns, validation_targets, n_validation = read_columns(
        job.input["validation_texts"], job.input["validation_items"], None
    )
    job.lineage.deviate(spec.deviations_of(len(targets), n_all))
    encoder = SentenceEncoder(job.input["model"], spec.encoder, device, getattr(torch, spec.dtype))
    train = features(encoder, columns, targets, spec, job.threads)
    validation = features(encoder, validation_columns, validation_targets, spec, job.threads)
    classified = classify(train, validation, spec)
    for name in ("rows", "answers"):
        with job.write(name) as path:
            write_parquet(path, getattr(classified, name), job.mark)
    majority_predictions = np.full(n_validation, np.bincount(targets).argmax())
    facts = ClassificationFacts.of(
        spec,
        job.lineage,
        data=", and ".join(job.lineage.titles("dataset")),
        model=job.lineage.titles("model")[0],
        chance=classification_scores(majority_predictions, validation_targets, 2)[spec.metric],
        n_train=len(targets),
        n_train_all=n_all,
        n_validation=n_validation,
        d=encoder.dim,
    )
    with job.write("run") as path:
        facts.write(path)
