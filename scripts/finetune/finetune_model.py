"""Fine-tunes one model, and measures its performance and the geometry of each layer."""

from isotropy.device import pick_device
from isotropy.finetune.data import read_task_data
from isotropy.finetune.facts import describe_run
from isotropy.finetune.measure import Reader, measure
from isotropy.finetune.model import load_model, load_tokenizer
from isotropy.finetune.spec import FinetuneSpec
from isotropy.finetune.train import finetune, require_precision
from isotropy.job import Job
from isotropy.parquet import write_parquet

with Job(snakemake, FinetuneSpec) as job:
    spec, folder = job.spec, job.input["model"]
    device = pick_device(spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    job.seeds["training"] = spec.seed
    require_precision(spec.training, device)
    tokenizer = load_tokenizer(folder, spec.training.max_length)
    train = read_task_data(
        tokenizer, job.input["train_texts"], job.input["train_items"], spec.training, seed=spec.seed
    )
    validation = read_task_data(
        tokenizer, job.input["validation_texts"], job.input["validation_items"], spec.training
    )
    job.lineage.deviate(spec.departures(train.n_items, train.n_available))
    pad = tokenizer.pad_token_id
    n_labels = len(train.dataset.label_names)
    model, weights = load_model(folder, train.dataset.task, n_labels, spec.seed, pad)
    clustering = None
    if spec.method.kind == "cluster":
        from isotropy.finetune.batch_enhancement import BatchClustering  # loads scikit-learn

        clustering = BatchClustering(spec.method, spec.seed)
        clustering.attach(model)
    steps, job.measurements = finetune(
        spec, model, train.inputs, pad, device, job.work / device.type
    )
    job.measurements["weights"] = weights
    measured = measure(
        Reader(model, pad, device, clustering, spec.training.batch_size),
        train.inputs,
        validation,
        spec,
    )
    for name in ("layers", "points"):
        with job.write(name) as path:
            write_parquet(path, getattr(measured, name), job.mark)
    with job.write("steps") as path:
        write_parquet(path, steps, job.mark)
    with job.write("run") as path:
        run = describe_run(
            spec, measured.facts, steps, job.lineage, train.n_items, validation.n_items
        )
        path.write_text(run.canonical() + "\n", "utf8")
    if "model" in job.output:
        with job.write("model") as path:
            job.load("kept_model").write(path, job, model, tokenizer, run, measured, validation)
