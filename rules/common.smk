"""Shared helpers of the rules: the validated configuration, specs, code identities and paths.
Input, params and resource functions depend on wildcards only.

Needs: the merged configuration. Gives: no files; mistakes in the configuration end the run here,
before the first job.
"""

import os
import subprocess
import sys
import time
from functools import cache, partial
from math import ceil
from pathlib import Path

from snakemake.exceptions import WorkflowError

# The folder above this file, also where another workflow uses this one as a module. Resolved, since
# --snakefile may contain a link or `..`.
PROJECT = Path(str(workflow.current_basedir)).resolve().parent
if {"{", "}"} & set(str(PROJECT)):
    raise WorkflowError(
        f"the path of the checkout, {PROJECT}, contains braces, which Snakemake "
        "interprets as wildcards; move it to a folder without braces"
    )
sys.path.insert(0, str(PROJECT))

from replication import patches

if patches.lacks_package(workflow, PROJECT):
    # Make the package importable in scripts, whatever environment these run in.
    python_path = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update(PYTHONPATH=os.pathsep.join(python_path))

if not patches.is_module(workflow):
    # Only fetch uses the network, and its script enables the hub's clients itself.
    os.environ.update(
        HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1"
    )
    # File that describes SLURM's partitions; a relative path in the profile would break with
    # --directory.
    os.environ.setdefault(
        "SNAKEMAKE_SLURM_PARTITIONS", f"{PROJECT}/profiles/slurm/partitions.yaml"
    )

from replication.context import shard_stems
from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX
from replication.gpus import count_gpus
from replication.job import JOB_OUTPUT
from replication.papers.locations import package
from replication.papers.registry import KEYS
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.printable import escape_for_terminal
from replication.provenance.code import code_param
from replication.provenance.ledger import append_run
from replication.provenance.record import find_record
from replication.sources import formats
from replication.plan.config import load_study
from replication.plan.costs import CostModel, read_rates
from replication.plan.plan import Plan
from replication.plan.progress import WorkProgress
from replication.plan.summary import summarize

# Another workflow that uses this one as a module may put a prefix before all paths.
RESULTS = Path(patches.module_prefix(workflow)) / "results"

try:
    STUDY = load_study(config, PROJECT)
    PLAN = Plan(STUDY, PROJECT, RESULTS.parent.absolute())
    COSTS = CostModel(
        PLAN, read_rates(PROJECT / "config/rates.yaml"), sees_gpu=count_gpus() > 0
    )
    PLAN.batches()  # to find mistakes in the declarations of tables and figures
except IsotropyError as error:
    raise WorkflowError(escape_for_terminal(str(error))) from None

CONFIG = STUDY.config
if CONFIG.compute.container:

    container: CONFIG.compute.container


SOURCES = STUDY.registry.sources


def alternatives(names):
    """Return a wildcard constraint: one of the names, or a pattern without a match if there are
    none.
    """
    return "|".join(names) or "(?!)"


SENTENCES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SentencesSpec)]
CORPORA = [n for n, d in CONFIG.datasets.items() if isinstance(d, CorpusSpec)]
WORDS = [n for n, d in CONFIG.datasets.items() if isinstance(d, WordsSpec)]
MODELS = [n for n, s in SOURCES.items() if s.kind == "model"]
VECTORS = [n for n, s in SOURCES.items() if s.kind == "vectors"]
CONTROLS = [n for n, s in SOURCES.items() if s.random_origin is not None]
FETCHED = [n for n in SOURCES if n not in CONTROLS]
KEPT = sorted({stem.removeprefix("finetune/").rpartition("/")[0] for stem in PLAN.kept})

# Priority of jobs that others depend on. Embedding needs several free cores: with this priority its
# jobs run one after another, so that cores are idle once rather than before each of them.
UPSTREAM_PRIORITY = 1


wildcard_constraints:
    source="|".join(SOURCES),
    dataset="|".join(CONFIG.datasets),
    setup=r"[A-Za-z0-9_-]+",
    layer=r"layer\d+|words",
    run=r"[A-Za-z0-9_-]+",  # a list of a thousand names would slow down the matching of every path
    kept=alternatives(KEPT),
    cloud=r"[A-Za-z0-9_-]+",
    paper="|".join(KEYS),
    model=alternatives(MODELS),
    seed=r"\d+",
    texts=r"[A-Za-z0-9_-]+",


def fill_wildcards(stem, wildcards):
    """Fill in the wildcards of a stem below results/."""
    return stem.format(**dict(wildcards.items()))


def job_spec(stem, wildcards):
    """Return the spec of the result at a stem below results/ that contains wildcards."""
    return PLAN.spec(fill_wildcards(stem, wildcards))


def spec(stem):
    """Return the params function `spec` of a rule for a stem below results/ with wildcards."""
    return lambda wildcards: job_spec(stem, wildcards).canonical()


def inputs(stem, name=None):
    """Return an input function for the result at a stem: all its inputs by name, or those of one
    name.
    """

    def get_inputs(wildcards):
        files = PLAN.inputs(fill_wildcards(stem, wildcards))
        return files if name is None else files[name]

    return get_inputs


@cache
def code_param_once(rule_name, *modules):
    """Return the parameter `code` of a rule whose script dynamically imports the given modules."""
    return code_param(PROJECT, rule_name, *modules)


def code(rule_name, *module_functions):
    """Return the params function `code` of a rule. The functions given return, for the wildcards of
    a job, the modules that its script imports dynamically.
    """
    return lambda wildcards: code_param_once(
        rule_name,
        *(name for modules in module_functions for name in modules(wildcards)),
    )


def readers(wildcards):
    """Return the modules that read the formats of the sources of a job."""
    sources = [
        wildcards.get("source"),
        wildcards.get("vectors"),
        wildcards.get("embedding"),
    ]
    if wildcards.get("texts") is not None:
        sources = job_spec("geometry/{paper}/static/{texts}/{model}", wildcards).vectors
    elif not any(sources):
        dataset = CONFIG.datasets[wildcards.dataset]
        roles = ("source", "lexicon", "vectors", "word_list")
        sources = [getattr(dataset, role, None) for role in roles]
    return sorted(
        {
            name
            for source in sources
            if source
            for name in formats.modules(SOURCES[source])
        }
    )


def batch_spec(folder):
    """Return the params function `spec` of a rule that makes all results in a folder of the
    results.
    """
    return lambda wildcards: PLAN.batch_spec(folder)


def batch_inputs(folder):
    """Return the input function of a rule that makes all results in a folder of the results."""
    return lambda wildcards: PLAN.batch_inputs(folder)


def papers_with(kind):
    """List the papers of the study with results of a kind (tables or figures); includes `claims`,
    which covers all papers.
    """
    return [
        folder.split("/")[1]
        for folder in PLAN.batches()
        if folder.startswith(f"{kind}/")
    ]


def result_files(folder, suffix):
    """List the files with a suffix that one job makes in a folder of the results."""
    return [f"results/{stem}{suffix}" for stem in PLAN.batch(folder)]


def text_files(folder):
    """Return the notes on the figures in a folder, and the scripts with the values of those that
    readers can explore, by the names of these outputs.
    """
    explored = [s for s in PLAN.batch(folder) if PLAN.spec(s).interactive]
    values = [f"results/{stem}.js" for stem in explored]
    return {"note": result_files(folder, ".txt"), "values": values}


def report_files(suffix):
    """List the files with a suffix of the papers' reports."""
    reports = [s for s in PLAN.batch("site") if PLAN.spec(s).kind == "report"]
    return [f"results/{stem}{suffix}" for stem in reports]


def report_outputs(folder, suffix):
    """Return these files as outputs for `snakemake --report`, with their sections and captions."""
    kind, paper = folder.split("/")
    flag = partial(report, caption="captions.rst", category=paper)
    outputs = []
    for entry in map(PLAN.spec, PLAN.batch(folder)):
        name = entry.id.split("/")[1]
        labels = {"name": name, "section": entry.section, "caption": entry.caption}
        path = f"results/{kind}/{entry.id}{suffix}"
        outputs.append(flag(path, subcategory=kind, labels=labels))
    return outputs


def model_writer(wildcards):
    """Return the module that writes the folder of a kept model."""
    return ["replication.finetune.kept_model"]


def package_module(paper, name):
    """Return a function for `code`: the script imports the module `tables` or `figures` of a
    paper.
    """
    return lambda wildcards: [f"{package(paper)}.{name}"]


def page_modules(wildcards):
    """Return the modules that render the pages, and those with the figures that pages show the
    source of.
    """
    kinds = {PLAN.spec(stem).kind for stem in PLAN.batch("site")}
    return sorted(
        [f"replication.report.{kind}" for kind in kinds]
        + [f"{package(key)}.figures" for key in KEYS]
    )


def gpus(wildcards=None):
    """Return the number of GPUs that a job requests: with `auto`, one if this machine has some."""
    device = CONFIG.compute.device
    return 1 if device == "cuda" or (device == "auto" and count_gpus()) else 0


def shards(wildcards):
    """Return the shards of token vectors. For finished and unchanged token vectors, these are the
    shards that they were made from, so that another `compute.shards` does not trigger a rerun.
    """
    stem = f"embed/{wildcards.dataset}/tokens/{wildcards.model}"
    n = CONFIG.compute.shards
    record = find_record(RESULTS / f"{stem}.record.json")
    if record is not None:
        same_spec = record.spec == PLAN.spec(stem).recorded()
        if same_spec and record.code.param() == code_param_once("embed_tokens"):
            n = record.measurements.get("shards", 0)
    stems = shard_stems(wildcards.dataset, wildcards.model, n)
    return [f"results/{shard}" for shard in stems]


def token_gpus(wildcards):
    """Return the number of GPUs for token vectors: none if shards compute them."""
    return 0 if shards(wildcards) else gpus()


def doubles_with_attempt(initial):
    """Return a resource function that doubles a value with each attempt of a job.

    `initial` is a number, or a function of the wildcards.
    """

    def resource(wildcards, attempt):
        value = initial(wildcards) if callable(initial) else initial
        return value * 2 ** (attempt - 1)

    return resource


@cache
def estimated_cost(stem):
    """Return the cost of the job of a result as `isotropy plan` estimates it."""
    return COSTS.cost(stem)


def with_margin(estimate):
    """Return the memory in MB to request for an estimate in bytes: half as much again, and 1 GB."""
    return 500 * ceil((1.5 * estimate / 10**6 + 1000) / 500)


def memory_for(stem):
    """Return the resource function `mem_mb` for a stem with wildcards: the estimate with a margin;
    doubled with each attempt.
    """

    def memory(wildcards):
        return with_margin(estimated_cost(fill_wildcards(stem, wildcards)).memory)

    return doubles_with_attempt(memory)


def minutes_for(stem):
    """Return the resource function `runtime` for a stem with wildcards, in minutes: three times the
    estimate, but no more than half a day unless that is needed; doubled with each attempt.
    """

    def minutes(wildcards):
        estimate = estimated_cost(fill_wildcards(stem, wildcards)).seconds / 60
        return ceil(max(30, estimate, min(3 * estimate, 720)))

    return doubles_with_attempt(minutes)


def start_run():
    """Record the start of a run and its configuration in the ledger."""
    patches.apply(workflow)
    limit_gpu_jobs()
    given = list(workflow.config_settings.configfiles)  # by --configfile
    files = [f for f in workflow.configfiles if f not in given] + given
    try:
        append_run(RESULTS, PROJECT, files, workflow.config_settings.config)
    except IsotropyError as error:
        raise WorkflowError(escape_for_terminal(str(error))) from None
    show_progress()


def limit_gpu_jobs():
    """Limit the jobs that share the GPUs of this machine."""
    # torch may see a GPU that has no file in /dev, as on Windows' Linux
    patches.limit_gpu_jobs(
        workflow, max(count_gpus(), gpus()) * CONFIG.compute.jobs_per_gpu
    )


def planned_stems():
    """List the results that the run is about to make."""
    return [
        path.removeprefix(f"{RESULTS}/").removesuffix(RECORD_SUFFIX)
        for path in patches.planned_outputs(workflow)
        if path.endswith(RECORD_SUFFIX)
    ]


def show_progress():
    """Show work in place of numbers of jobs, where the run has the logger `rich`. What jobs print
    would break its lines: it goes to their logs only.
    """
    # As a module it leaves the display and the variables of the other workflow as they are.
    display = (
        None if patches.is_module(workflow) else patches.progress_display(workflow)
    )
    if display is not None:
        os.environ[JOB_OUTPUT] = "log"
        root, summary = RESULTS.parent.absolute(), summarize(COSTS)
        now = int(time.time())  # records have whole seconds
        progress = WorkProgress(
            display, root, PROJECT, summary, planned_stems(), since=now
        )
        progress.start()


def run_audit(log, *arguments):
    """Run an audit command; print and log its report, and fail the rule if it reports findings."""
    command = [
        sys.executable,
        "-m",
        "isotropy",
        "audit",
        *arguments,
        "--root",
        str(RESULTS.parent),
        "--project",
        str(PROJECT),
    ]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(result.stdout, end="")
    Path(log).write_text(result.stdout, "utf8")
    if result.returncode != 0:
        raise WorkflowError(
            f"isotropy audit {arguments[0]}: exit code {result.returncode}, see above and {log}"
        )
