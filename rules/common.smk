"""Helpers of all rules: the validated configuration, specs, code identities, paths. Helpers take wildcards only.

Needs: the merged configuration. Gives: nothing that writes files; a mistake ends the run here, before the first job.
"""

import os
import subprocess
import sys
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

from isotropy.config import load_study
from isotropy.errors import IsotropyError
from isotropy.figures.catalogue import FIGURES
from isotropy.plan import Plan
from isotropy.prepare.spec import SentencesSpec, WordsSpec
from isotropy.provenance.code import code_param
from isotropy.provenance.ledger import append_run
from isotropy.report.spec import PAPERS
from isotropy.tables.catalogue import TABLES

PROJECT = Path(workflow.basedir)

try:
    STUDY = load_study(config, PROJECT)
except IsotropyError as error:
    raise WorkflowError(str(error)) from None

CONFIG = STUDY.config
SOURCES = STUDY.registry.sources
PLAN = Plan(STUDY, PROJECT, Path.cwd())
TRAJECTORIES = PLAN.trajectories


wildcard_constraints:
    source="|".join(SOURCES),
    dataset="|".join(CONFIG.datasets),
    setup="|".join(TRAJECTORIES),
    paper="|".join(p.key for p in PAPERS),
    seed=r"\d+",


def alternatives(names):
    """A wildcard constraint: one of the names, or nothing that can match."""
    return "|".join(names) or "(?!)"


SENTENCES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SentencesSpec)]
WORDS = [n for n, d in CONFIG.datasets.items() if isinstance(d, WordsSpec)]
MODELS = [n for n, s in SOURCES.items() if s.kind == "model"]
VECTORS = [n for n, s in SOURCES.items() if s.kind == "vectors"]


def spec(stem):
    """Spec of the result at a stem below results/, as a function of the wildcards in it."""
    return lambda wildcards: PLAN.spec(
        stem.format(**dict(wildcards.items()))
    ).canonical()


def code(rule, *modules):
    """Identity of the code behind a rule, see isotropy.provenance.code."""
    return code_param(PROJECT, rule, *modules)


def fetched(name):
    """Folder of a fetched source."""
    return f"results/fetch/{name}"


def dataset_source(wildcards):
    """Source of a data set of sentences."""
    return fetched(CONFIG.datasets[wildcards.dataset].source)


def dataset_words(wildcards):
    """Lexicon of a data set of words, the vectors whose words it takes, and the list that restricts them, if any."""
    words = CONFIG.datasets[wildcards.dataset]
    inputs = {"lexicon": fetched(words.lexicon), "vectors": fetched(words.vectors)}
    return inputs | ({"word_list": fetched(words.word_list)} if words.word_list else {})


def gpus():
    """GPUs that a job on embeddings asks for."""
    return 1 if CONFIG.compute.device == "cuda" else 0


def setup_dataset(wildcards):
    """Items of the prepared data set of a trajectory."""
    setup = TRAJECTORIES[wildcards.setup].setup
    return f"results/prepare/{setup.dataset}.items.parquet"


def setup_embeddings(wildcards):
    """Embeddings that a trajectory starts from."""
    setup = TRAJECTORIES[wildcards.setup].setup
    return f"results/embed/{setup.dataset}/{setup.embedding}.safetensors"


def optimize_memory(wildcards):
    """Memory of a trajectory in MB: GLUE has sets of half a million sentences."""
    return 16000 if TRAJECTORIES[wildcards.setup].group == "glue" else 3000


def run_files(group, suffix):
    """One file of each trajectory of a part of mickus2024: in the configured order, then seeds."""
    return [
        f"results/optimize/mickus2024/{name}/seed{seed}.{suffix}"
        for name, run in TRAJECTORIES.items()
        if run.group == group
        for seed in run.seeds
    ]


def table_code(wildcards):
    """Code of a table: the script and the module of its paper."""
    return code("make_table", f"isotropy.tables.{wildcards.paper}")


def table_inputs(wildcards):
    """Tables and trajectories that a table is made from."""
    entry = TABLES[f"{wildcards.paper}/{wildcards.table}"]
    inputs = {"tables": [table_file(t) for t in entry.tables]}
    if entry.runs is not None:
        inputs["runs"] = run_files(entry.runs, "json")
        inputs["trajectories"] = run_files(entry.runs, "parquet")
    return inputs


def table_file(table):
    """Parquet file of a table."""
    return (
        "results/claims.parquet"
        if table == "claims"
        else f"results/tables/{table}.parquet"
    )


def table_files():
    """Parquet files of all tables."""
    return [table_file(t) for t, entry in TABLES.items() if PLAN.attempted(entry)]


def figure_code(wildcards):
    """Code of a figure: the script and the module of its paper."""
    return code("draw_figure", f"isotropy.figures.{wildcards.paper}")


def figure_tables(wildcards):
    """Tables that a figure reads."""
    entry = FIGURES[f"{wildcards.paper}/{wildcards.figure}"]
    return [table_file(t) for t in entry.tables]


def figure_files():
    """One file of each figure."""
    return [
        f"results/figures/{figure}.png"
        for figure, entry in FIGURES.items()
        if PLAN.attempted(entry)
    ]


def note_run():
    """Note in the ledger that a run starts, and with which configuration: the workflow's own, files given, values given."""
    given = workflow.config_settings.configfiles
    files = [f for f in workflow.configfiles if f not in given] + list(given)
    append_run(Path("results"), PROJECT, files, workflow.config_settings.config)


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
