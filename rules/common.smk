"""Shared helpers of the rules: the validated configuration, specs, code identities and paths.
Input, params and resource functions depend on wildcards only.

Needs: the merged configuration. Gives: no files; mistakes in the configuration end the run here,
before the first job.
"""

import os
import shlex
import sys
from functools import cache, partial
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

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX
from isotropy.printable import escape_for_terminal
from replication.context import shard_stems
from replication.resources import count_gpus
from replication.papers.registry import KEYS
from replication.plan.config import load_study
from replication.plan.costs import CostModel, longest_runtime, read_rates
from replication.plan.plan import Plan
from replication.plan.progress import show_progress
from replication.plan.status import (
    expected_results,
    has_results,
    survey,
    to_be_made,
)
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from replication.provenance.code import Codebase
from replication.provenance.ledger import append_run
from replication.provenance.record import find_record, spec_digest
from replication.yaml_files import read_yaml

# Another workflow that uses this one as a module may put a prefix before all paths.
RESULTS = Path(patches.module_prefix(workflow)) / "results"

try:
    # Snakemake keeps the last of two equal keys without a word
    for file in (*workflow.configfiles, *workflow.config_settings.configfiles):
        read_yaml(Path(file))
    STUDY = load_study(config, PROJECT)
    PLAN = Plan(STUDY, PROJECT, RESULTS.parent.absolute())
    COSTS = CostModel(
        PLAN, read_rates(PROJECT / "config/rates.yaml"), sees_gpu=count_gpus() > 0
    )
except IsotropyError as error:
    raise WorkflowError(escape_for_terminal(str(error))) from None

CONFIG = STUDY.config
# Configuration that another workflow gives, whose files may hold anything besides
MODULE_CONFIG = config if patches.is_module(workflow) else None
CODEBASE = Codebase(PROJECT)
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

# The audit as a command, for rules that make no results
AUDIT = shlex.join([sys.executable, "-m", "isotropy", "audit"])
PLACES = shlex.join(["--root", str(RESULTS.parent), "--project", str(PROJECT)])

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


def code(rule_name, stem=None):
    """Return the params function `code` of a rule; `stem`, with wildcards, if the script loads
    modules by name: those of the result, or of the results in a folder.
    """

    def get_code(wildcards):
        modules = PLAN.modules(fill_wildcards(stem, wildcards)) if stem else []
        return CODEBASE.code(rule_name, *modules).param()

    return get_code


def batch_spec(folder):
    """Return the params function `spec` of a rule that makes all results in a folder of the
    results.
    """
    return lambda wildcards: PLAN.batch_spec(folder)


def batch_inputs(folder):
    """Return the input function of a rule that makes all results in a folder of the results."""
    return lambda wildcards: PLAN.batch_inputs(folder)


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
    if record is not None and CODEBASE.is_current(
        record.summary(), spec_digest(PLAN.spec(stem))
    ):
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


def memory_for(stem):
    """Return the resource function `mem_mb` for a stem with wildcards: the estimate with a margin;
    doubled with each attempt.
    """
    return doubles_with_attempt(
        lambda wildcards: estimated_cost(fill_wildcards(stem, wildcards)).mem_mb
    )


def minutes_for(stem):
    """Return the resource function `runtime` for a stem with wildcards, in minutes: the estimate
    with a margin; doubled with each attempt, up to the longest that a partition gives.
    """

    def resource(wildcards, attempt):
        cost = estimated_cost(fill_wildcards(stem, wildcards))
        return min(cost.minutes * 2 ** (attempt - 1), longest_runtime(gpu=cost.gpu))

    return resource


def places(stem):
    """Return the resource function `places` of a rule for a stem with wildcards. It names where
    the job finds files of this machine; as a parameter it would make a moved study again.
    """
    return lambda wildcards: job_spec(stem, wildcards).places()


def results_to_make():
    """Return the records of results that must be made, by the records that there are."""
    if not has_results(RESULTS.parent):
        return []
    try:
        results = survey(RESULTS.parent, expected_results(COSTS), CODEBASE)
    except IsotropyError as error:
        raise WorkflowError(escape_for_terminal(str(error))) from None
    return [f"{RESULTS}/{name}{RECORD_SUFFIX}" for name in to_be_made(results)]


def note_run():
    """Record a run and its configuration in the ledger."""
    given = list(workflow.config_settings.configfiles)  # by --configfile
    files = [f for f in workflow.configfiles if f not in given] + given
    values = workflow.config_settings.config
    if MODULE_CONFIG is not None:
        files, values = [], MODULE_CONFIG
    try:
        append_run(RESULTS, PROJECT, files, values, config)
    except IsotropyError as error:
        raise WorkflowError(escape_for_terminal(str(error))) from None


def start_run():
    """Prepare Snakemake for jobs, and show their progress."""
    patches.apply(workflow)
    # torch may see a GPU that has no file in /dev, as on Windows' Linux
    n_gpus = max(count_gpus(), gpus())
    patches.limit_gpu_jobs(workflow, n_gpus * CONFIG.compute.jobs_per_gpu)
    show_progress(workflow, COSTS, RESULTS, CODEBASE)
