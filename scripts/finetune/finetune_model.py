"""Fine-tunes one model, or one for each seed of a run, and measures performance and geometry."""

from functools import lru_cache

from isotropy.device import pick_device
from isotropy.finetune import data, model
from isotropy.finetune.facts import describe_run
from isotropy.finetune.measure import Reader, measure
from isotropy.finetune.spec import FinetuneSpec
from isotropy.finetune.train import finetune, require_precision
from isotropy.job import Job, jobs
from isotropy.parquet import write_parquet

load_tokenizer = lru_cache(maxsize=1)(model.load_tokenizer)
read_task_data = lru_cache(maxsize=2)(data.read_task_data)  # training and validation data


def finetune_and_measure(job: Job[FinetuneSpec]) -> None:
    """Make one result. All that takes memory on the device goes when this returns."""
    spec, training, folder = job.spec, job.spec.training, job.input["model"]
    device = pick_device(spec.device)
    is_exact = device.type == "cpu" and not training.compile
    job.determinism = "bitwise" if is_exact else "tolerance"
    job.seeds["training"] = spec.seed
    require_precision(training, device)
    tokenizer = load_tokenizer(folder, training.max_length)
    # A sample differs between seeds; all items are the same for all of them.
    seed = 0 if training.n_train is None else spec.seed
    train = read_task_data(
        tokenizer, job.input["train_texts"], job.input["train_items"], training, seed=seed
    )
    validation = read_task_data(
        tokenizer, job.input["validation_texts"], job.input["validation_items"], training
    )
    job.lineage.deviate(spec.departures(train.n_items, train.n_available))
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
    run = describe_run(spec, measured.facts, steps, job.lineage, train.n_items, validation.n_items)
    with job.write("run") as path:
        path.write_text(run.canonical() + "\n", "utf8")
    if "model" in job.output:
        with job.write("model") as path:
            write_model = job.load("kept_model").write
            write_model(path, job, network, tokenizer, run, measured, validation)


for job in jobs(snakemake, FinetuneSpec):
    with job:
        finetune_and_measure(job)
