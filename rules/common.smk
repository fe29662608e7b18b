"""Helpers of all rules: the validated configuration, specs, code identities, paths. Helpers take wildcards only.

Needs: the merged configuration. Gives: nothing that writes files; a mistake ends the run here, before the first job.
"""

import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

# This checkout's package, here and in the scripts, in whatever environment they run.
sys.path.insert(0, workflow.basedir)
python_path = [workflow.basedir, *filter(None, [os.environ.get("PYTHONPATH")])]
# Only fetch asks the network, and switches the hub's clients on for itself.
os.environ.update(
    PYTHONPATH=os.pathsep.join(python_path),
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
)
# Where SLURM's partitions are described; a relative path in the profile would be lost with --directory.
os.environ.setdefault(
    "SNAKEMAKE_SLURM_PARTITIONS", f"{workflow.basedir}/profiles/slurm/partitions.yaml"
)

from isotropy.config import load_study
from isotropy.errors import IsotropyError
from isotropy.plan import Plan
from isotropy.plan.paths import shard_stems
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.provenance.code import code_param
from isotropy.provenance.ledger import append_run
from isotropy.provenance.record import find_record
from isotropy.report.spec import PAPERS

PROJECT = Path(workflow.basedir)

try:
    STUDY = load_study(config, PROJECT)
except IsotropyError as error:
    raise WorkflowError(str(error)) from None

CONFIG = STUDY.config
SOURCES = STUDY.registry.sources
PLAN = Plan(STUDY, PROJECT, Path.cwd())
TRAJECTORIES = PLAN.trajectories


def alternatives(names):
    """A wildcard constraint: one of the names, or nothing that can match."""
    return "|".join(names) or "(?!)"


SENTENCES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SentencesSpec)]
CORPORA = [n for n, d in CONFIG.datasets.items() if isinstance(d, CorpusSpec)]
WORDS = [n for n, d in CONFIG.datasets.items() if isinstance(d, WordsSpec)]
MODELS = [n for n, s in SOURCES.items() if s.kind == "model"]
VECTORS = [n for n, s in SOURCES.items() if s.kind == "vectors"]


wildcard_constraints:
    source="|".join(SOURCES),
    dataset="|".join(CONFIG.datasets),
    setup="|".join(TRAJECTORIES),
    layer=r"layer\d+|words",
    run=r"[A-Za-z0-9_-]+",  # a list of a thousand names would slow every path down
    cloud=alternatives(PLAN.clouds),
    paper="|".join(p.key for p in PAPERS),
    model=alternatives(MODELS),
    seed=r"\d+",


def spec(stem):
    """Spec of the result at a stem below results/, as a function of the wildcards in it."""
    return lambda wildcards: PLAN.spec(
        stem.format(**dict(wildcards.items()))
    ).canonical()


def inputs(stem, name=None):
    """Inputs of the result at a stem, by name, or those of one name."""

    def named(wildcards):
        found = PLAN.inputs(stem.format(**dict(wildcards.items())))
        return found if name is None else found[name]

    return named


@cache
def code(rule, *entries):
    """Identity of the code behind a rule; entries are what its script loads by name, see isotropy.provenance.code."""
    return code_param(PROJECT, rule, *entries)


def gpus():
    """GPUs that a job on embeddings asks for."""
    return 1 if CONFIG.compute.device == "cuda" else 0


def shards(wildcards):
    """Shards of token vectors. Of finished ones those that they were made from, so that another number makes nothing anew."""
    stem = f"embed/{wildcards.dataset}/tokens/{wildcards.model}"
    n = CONFIG.compute.shards
    record = find_record(Path(f"results/{stem}.record.json"))
    if record is not None:
        same_spec = record.spec == PLAN.spec(stem).recorded()
        if same_spec and record.code.param() == code("embed_tokens"):
            n = record.measurements.get("shards", 0)
    stems = shard_stems(wildcards.dataset, wildcards.model, n)
    return [f"results/{shard}" for shard in stems]


def token_gpus(wildcards):
    """GPUs for token vectors: none where shards have computed them."""
    return 0 if shards(wildcards) else gpus()


def doubles_with_attempt(first):
    """A resource that doubles with each attempt, from a number or a function of the wildcards: what ran out asks for more."""

    def of_attempt(wildcards, attempt):
        value = first(wildcards) if callable(first) else first
        return value * 2 ** (attempt - 1)

    return of_attempt


def optimize_memory(wildcards):
    """Memory of a trajectory in MB: GLUE has sets of half a million sentences."""
    return 16000 if TRAJECTORIES[wildcards.setup].group == "glue" else 3000


def finetune_memory(wildcards):
    """Memory of a fine-tuning job in MB: windows of long contexts and half a million pairs take their room."""
    small = PLAN.training(wildcards.paper, wildcards.run).n_train
    return 6000 if small is not None and small <= 20000 else 24000


def classify_memory(wildcards):
    """Memory of a classification on frozen features in MB: all token vectors of all items, several times."""
    small = CONFIG.rajaee2021.classification.n_train
    return 16000 if small is not None and small <= 10000 else 96000


def layer_memory(wildcards):
    """Memory of the geometry of a layer in MB: all token vectors of a corpus, several times."""
    corpus = CONFIG.datasets[wildcards.dataset]
    if corpus.blocks is not None:
        return 4000
    lines = [c.rows or 10**9 for c in SOURCES[corpus.source].contents.values()]
    return 8000 if max(lines) <= 5000 else 56000


def table_code(wildcards):
    """Code of a table: the script and the module of its paper."""
    return code("make_table", f"isotropy.tables.{wildcards.paper}")


def figure_code(wildcards):
    """Code of a figure: the script and the module of its paper."""
    return code("draw_figure", f"isotropy.figures.{wildcards.paper}")


def start_run():
    """Note in the ledger that a run starts, and with which configuration: the workflow's own, files given, values given."""
    atexit.register(cancel_submitted)
    given = workflow.config_settings.configfiles
    files = [f for f in workflow.configfiles if f not in given] + list(given)
    append_run(Path("results"), PROJECT, files, workflow.config_settings.config)


def cancel_submitted():
    """Cancel what this run still has on SLURM when it ends: nothing, unless it was interrupted.

    At Ctrl-C the executor cancels the jobs on its list, and the list is empty while it asks for their states.
    """
    run = getattr(getattr(workflow.scheduler, "_executor", None), "run_uuid", None)
    if run is not None:
        subprocess.run(["scancel", "--name", run], check=False)


def normalise_slurm_states(query):
    """The executor's query of states, in the words that it knows: for jobs in others it would wait for ever.

    Such are `CANCELLED by 1000`, and PREEMPTED where SLURM is told not to start jobs again.
    """

    async def asked(*args):
        states, seconds = await query(*args)
        ended = {"PREEMPTED"} if workflow.executor_settings.no_requeue else set()
        words = {job: s.partition(" ")[0] for job, s in (states or {}).items()}
        words = {job: "CANCELLED" if w in ended else w for job, w in words.items()}
        return states and words, seconds

    return asked


SLURM = sys.modules.get("snakemake_executor_plugin_slurm")
if SLURM is not None:
    SLURM.query_job_status = normalise_slurm_states(SLURM.query_job_status)


def run_audit(log, *arguments):
    """Run an audit command; its report goes to the terminal and to the log, and findings fail the rule."""
    command = [
        sys.executable,
        "-m",
        "isotropy",
        "audit",
        *arguments,
        "--project",
        str(PROJECT),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout, end="")
    Path(log).write_text(done.stdout, "utf8")
    if done.returncode != 0:
        raise WorkflowError(
            f"isotropy audit {arguments[0]}: exit code {done.returncode}, see above and {log}"
        )
