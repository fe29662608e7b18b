"""Optimizes embeddings for a classification task and records scores after each update."""

from safetensors.numpy import load_file

from isotropy.device import pick_device
from replication.job import Job
from replication.optimize.descent import Items, control_items
from replication.optimize.optimize import describe_run, optimize
from replication.optimize.spec import OptimizeSpec
from replication.parquet import write_parquet
from replication.prepare.table import read_items, targets, text_rows

with Job(snakemake, OptimizeSpec) as job:
    table, dataset = read_items(job.input["dataset"])
    vectors = load_file(job.input["embeddings"])["vectors"]
    items = Items(vectors, text_rows(table), targets(table, dataset))
    n_labels = len(dataset.label_names)
    if job.spec.control is not None:
        items = control_items(items, job.spec.control, job.spec.seed)
        n_labels = job.spec.control.n_classes or n_labels
    n = job.spec.measure.sample_size or len(items.targets)
    job.lineage.deviate(job.spec.deviations_of(n, len(items.targets)))
    job.seeds["initialization"] = job.spec.seed
    device = pick_device(job.spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    rows, facts, job.measurements = optimize(
        job.spec, items, n_labels, device, job.work / device.type
    )
    with job.write("trajectory") as path:
        write_parquet(path, rows, job.mark)
    with job.write("run") as path:
        describe_run(job.spec, items, dataset, n_labels, job.lineage, facts).write(path)
