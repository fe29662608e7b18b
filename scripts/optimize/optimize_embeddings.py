"""Makes one trajectory: embeddings optimized for a classification task, measured on the way."""

from safetensors.numpy import load_file

from isotropy.device import pick_device
from isotropy.job import Job
from isotropy.optimize.optimize import describe_run, optimize
from isotropy.optimize.spec import OptimizeSpec
from isotropy.parquet import write_parquet
from isotropy.prepare.table import read_dataset, targets
from isotropy.provenance.record import Lineage

with Job(snakemake, OptimizeSpec) as job:
    dataset_table, dataset = read_dataset(job.input["dataset"])
    embeddings = load_file(job.input["embeddings"])["vectors"]
    goal = targets(dataset_table, dataset)
    if job.spec.mean_norm is not None:
        job.lineage.join(Lineage(status="stand-in", reasons=[f"vectors scaled to mean norm {job.spec.mean_norm:g}"]))
    job.seeds["initialization"] = job.spec.seed
    device = pick_device(job.spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    n_labels = len(dataset.label_names)
    rows, job.measurements = optimize(job.spec, embeddings, goal, n_labels, device, job.work / device.type)
    with job.write("trajectory") as path:
        write_parquet(path, rows)
    with job.write("run") as path:
        path.write_text(describe_run(job.spec, embeddings, goal, dataset, job.lineage).canonical() + "\n", "utf8")
