"""Helpers of all rules: the validated configuration, specs, code identities, paths. Helpers take
wildcards only.

Needs: the merged configuration. Gives: nothing that writes files; a mistake ends the run here,
before the first job.
"""

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

from snakemake.exceptions import WorkflowError

# The checkout, also where --snakefile names it through a link or with `..`.
PROJECT = Path(workflow.basedir).resolve()
if {"{", "}"} & set(workflow.basedir):
    raise WorkflowError(
        f"the checkout lies in {workflow.basedir}: Snakemake takes what is in braces for a "
        "wildcard; move it to a folder without braces"
    )
# Its package, here and in the scripts, in whatever environment they run.
sys.path.insert(0, str(PROJECT))
python_path = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
# Only fetch asks the network, and switches the hub's clients on for itself.
os.environ.update(
    PYTHONPATH=os.pathsep.join(python_path),
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
)
# Where SLURM's partitions are described; a relative path in the profile would be lost with
# --directory.
os.environ.setdefault(
    "SNAKEMAKE_SLURM_PARTITIONS", f"{PROJECT}/profiles/slurm/partitions.yaml"
)

from isotropy import patches
from isotropy.context import shard_stems
from isotropy.errors import IsotropyError
from isotropy.papers.locations import package
from isotropy.papers.registry import KEYS
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.printable import escape_for_terminal
from isotropy.provenance.code import code_param
from isotropy.provenance.ledger import append_run
from isotropy.provenance.record import find_record
from isotropy.sources import formats
from isotropy.workflow.config import load_study
from isotropy.workflow.plan import Plan

try:
    STUDY = load_study(config, PROJECT)
    PLAN = Plan(STUDY, PROJECT, Path.cwd())
    PLAN.batches()  # reads what the papers declare
except IsotropyError as error:
    raise WorkflowError(escape_for_terminal(str(error))) from None

CONFIG = STUDY.config
SOURCES = STUDY.registry.sources


def alternatives(names):
    """A wildcard constraint: one of the names, or nothing that can match."""
    return "|".join(names) or "(?!)"


SENTENCES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SentencesSpec)]
CORPORA = [n for n, d in CONFIG.datasets.items() if isinstance(d, CorpusSpec)]
WORDS = [n for n, d in CONFIG.datasets.items() if isinstance(d, WordsSpec)]
MODELS = [n for n, s in SOURCES.items() if s.kind == "model"]
VECTORS = [n for n, s in SOURCES.items() if s.kind == "vectors"]
CONTROLS = [n for n, s in SOURCES.items() if s.random_origin is not None]
FETCHED = [n for n in SOURCES if n not in CONTROLS]

# Of what other jobs need. Embedding waits until several cores are free: jobs of this priority
# follow one another, so that cores wait once, not before each of them.
FIRST = 1


wildcard_constraints:
    source="|".join(SOURCES),
    dataset="|".join(CONFIG.datasets),
    setup=r"[A-Za-z0-9_-]+",
    layer=r"layer\d+|words",
    run=r"[A-Za-z0-9_-]+",  # a list of a thousand names would slow every path down
    cloud=r"[A-Za-z0-9_-]+",
    paper="|".join(KEYS),
    model=alternatives(MODELS),
    seed=r"\d+",
    texts=r"[A-Za-z0-9_-]+",


def filled(stem, wildcards):
    """A stem below results/ with values for the wildcards in it."""
    return stem.format(**dict(wildcards.items()))


def job_spec(stem, wildcards):
    """Spec of the result at a stem below results/, with wildcards in it."""
    return PLAN.spec(filled(stem, wildcards))


def spec(stem):
    """The parameter `spec` of a rule, a function of the wildcards in a stem below results/."""
    return lambda wildcards: job_spec(stem, wildcards).canonical()


def inputs(stem, name=None):
    """Inputs of the result at a stem, by name, or those of one name."""

    def named(wildcards):
        found = PLAN.inputs(filled(stem, wildcards))
        return found if name is None else found[name]

    return named


@cache
def code_param_once(rule_name, *modules):
    """The parameter `code` of a rule whose script loads the same modules by name in each job."""
    return code_param(PROJECT, rule_name, *modules)


def code(rule_name, *module_functions):
    """The parameter `code` of a rule, a function of the wildcards: which modules its script loads
    by name follows from them.
    """
    return lambda wildcards: code_param_once(
        rule_name,
        *(name for modules in module_functions for name in modules(wildcards)),
    )


def readers(wildcards):
    """Modules that read the sources of a job."""
    named = [
        wildcards.get("source"),
        wildcards.get("vectors"),
        wildcards.get("embedding"),
    ]
    if wildcards.get("texts") is not None:
        named = job_spec("geometry/{paper}/static/{texts}/{model}", wildcards).vectors
    elif not any(named):
        dataset = CONFIG.datasets[wildcards.dataset]
        roles = ("source", "lexicon", "vectors", "word_list")
        named = [getattr(dataset, role, None) for role in roles]
    return sorted(
        {name for one in named if one for name in formats.modules(SOURCES[one])}
    )


def batch_spec(folder):
    """The parameter `spec` of a rule that makes several results, below a folder of the results."""
    return lambda wildcards: PLAN.batch_spec(folder)


def batch_inputs(folder):
    """Files that such a rule reads."""
    return lambda wildcards: PLAN.batch_inputs(folder)


def papers_with(kind):
    """Papers of the study that have tables, or figures; `claims` stands for all together."""
    return [
        folder.split("/")[1]
        for folder in PLAN.batches()
        if folder.startswith(f"{kind}/")
    ]


def results_of(folder, suffix):
    """Files of a kind that one job makes together, below a folder of the results."""
    return [f"results/{stem}{suffix}" for stem in PLAN.batch(folder)]


def reported(folder, suffix):
    """The same as outputs that `snakemake --report` shows, with their sections and captions."""
    kind, paper = folder.split("/")
    flag = partial(report, caption="captions.rst", category=paper)
    outputs = []
    for entry in map(PLAN.spec, PLAN.batch(folder)):
        name = entry.id.split("/")[1]
        labels = {"name": name, "section": entry.section, "caption": entry.caption}
        path = f"results/{kind}/{entry.id}{suffix}"
        outputs.append(flag(path, subcategory=kind, labels=labels))
    return outputs


def package_module(paper, name):
    """The module `tables` or `figures` of a paper, which its rule's script loads by name."""
    return lambda wildcards: [f"{package(paper)}.{name}"]


def page_modules(wildcards):
    """Modules that make the pages."""
    return sorted(
        {f"isotropy.report.{PLAN.spec(stem).kind}" for stem in PLAN.batch("site")}
    )


def gpus():
    """GPUs that a job on embeddings asks for."""
    return 1 if CONFIG.compute.device == "cuda" else 0


def shards(wildcards):
    """Shards of token vectors. Of finished ones those that they were made from, so that another
    number makes nothing again.
    """
    stem = f"embed/{wildcards.dataset}/tokens/{wildcards.model}"
    n = CONFIG.compute.shards
    record = find_record(Path(f"results/{stem}.record.json"))
    if record is not None:
        same_spec = record.spec == PLAN.spec(stem).recorded()
        if same_spec and record.code.param() == code_param_once("embed_tokens"):
            n = record.measurements.get("shards", 0)
    stems = shard_stems(wildcards.dataset, wildcards.model, n)
    return [f"results/{shard}" for shard in stems]


def token_gpus(wildcards):
    """GPUs for token vectors: none where shards have computed them."""
    return 0 if shards(wildcards) else gpus()


def doubles_with_attempt(first):
    """A resource that doubles with each attempt: a job that ran out of it asks for more.

    `first` is a number, or a function of the wildcards.
    """

    def of_attempt(wildcards, attempt):
        value = first(wildcards) if callable(first) else first
        return value * 2 ** (attempt - 1)

    return of_attempt


def registered_rows(source):
    """Rows of a source, at most, as far as the registry knows."""
    return max(content.rows or 10**9 for content in SOURCES[source].contents.values())


def optimize_memory(wildcards):
    """Memory of a trajectory in MB: data sets can have half a million sentences."""
    dataset = CONFIG.datasets[
        job_spec("optimize/{paper}/{setup}/seed{seed}", wildcards).dataset
    ]
    words = dataset.kind == "words"
    return 3000 if words or registered_rows(dataset.source) <= 20000 else 16000


def finetune_memory(wildcards):
    """Memory of a fine-tuning job in MB: more for long contexts and half a million pairs."""
    n_train = job_spec("finetune/{paper}/{run}/seed{seed}", wildcards).training.n_train
    return 6000 if n_train is not None and n_train <= 20000 else 24000


def classify_memory(wildcards):
    """Memory of a classification in MB: all token vectors of all items, several times."""
    stem = "similarity/{paper}/classification/{task}/{model}"
    n_train = job_spec(stem, wildcards).n_train
    return 16000 if n_train is not None and n_train <= 10000 else 96000


def layer_memory(wildcards):
    """Memory of the geometry of a layer in MB: all token vectors of a corpus, several times."""
    corpus = CONFIG.datasets[wildcards.dataset]
    if corpus.blocks is not None:
        return 4000
    return 8000 if registered_rows(corpus.source) <= 5000 else 56000


def start_run():
    """Note in the ledger that a run starts, and how it is configured."""
    patches.apply(workflow)
    given = workflow.config_settings.configfiles
    files = [f for f in workflow.configfiles if f not in given] + list(given)
    append_run(Path("results"), PROJECT, files, workflow.config_settings.config)


def run_audit(log, *arguments):
    """Run an audit command: its report goes to the terminal and the log, findings fail the rule."""
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
