"""Fine-tunes one model, and measures performance and geometry."""

from isotropy.device import pick_device
from replication.finetune import model
from replication.finetune.analysis import Reader, measure
from replication.finetune.data import read_task_data
from replication.finetune.spec import FinetuneFacts, FinetuneSpec
from replication.finetune.train import finetune, require_precision
from replication.job import Job
from replication.parquet import write_parquet

with Job(snakemake, FinetuneSpec) as job:
    spec, training, folder = job.spec, job.spec.training, job.input["model"]
    device = pick_device(spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    job.seeds["training"] = spec.seed
    require_precision(training, device)
    tokenizer = model.load_tokenizer(folder, training.max_length)
    train = read_task_data(
        tokenizer, job.input["train_texts"], job.input["train_items"], training, seed=spec.seed
    )
    validation = read_task_data(
        tokenizer, job.input["validation_texts"], job.input["validation_items"], training
    )
    job.lineage.deviate(spec.deviations_of(train.n_items, train.n_available))
    pad, task = tokenizer.pad_token_id, train.dataset.task
    n_labels = len(train.dataset.label_names)
    network, weights = model.load_model(folder, task, n_labels, spec.seed, pad)
    clustering = model.attach_clustering(network, spec.method, spec.seed)
    work = job.work / device.type
    steps, job.measurements = finetune(spec, network, train.inputs, pad, device, work)
    job.measurements["weights"] = weights
    reader = Reader(network, pad, device, clustering, training.batch_size)
    measured = measure(reader, train.inputs, validation, spec)
    for name, table in ("layers", measured.layers), ("points", measured.points), ("steps", steps):
        with job.write(name) as path:
            write_parquet(path, table, job.mark)
    run = FinetuneFacts.of(
        spec,
        job.lineage,
        data=", and ".join(job.lineage.titles("dataset")),
        embedding=job.lineage.titles("model")[0],
        zeta=spec.measure.zeta,
        n_train=train.n_items,
        n_validation=validation.n_items,
        updates=len(steps),
        learning_rate=training.learning_rate,
        final_loss=float(steps["loss"].tail(max(1, len(steps) // 10)).mean()),
        **measured.facts,
    )
    with job.write("run") as path:
        run.write(path)
    if "model" in job.output:
        with job.write("model") as path:
            write_model = job.load("kept_model").write
            write_model(path, job, network, tokenizer, run, measured, validation)
