"""Helpers of all rules: the validated configuration, specs, code identities, paths. Helpers take wildcards only.

Needs: the merged configuration. Gives: nothing that writes files; a mistake ends the run here, before the first job.
"""

import os
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

from isotropy.claims.spec import ClaimsSpec, read_claims
from isotropy.config import load_study
from isotropy.embed.spec import EmbedSpec, LookUpSpec
from isotropy.errors import IsotropyError
from isotropy.figures.catalogue import FIGURES
from isotropy.optimize.spec import OptimizeSpec
from isotropy.prepare.spec import SentencesSpec, WordsSpec
from isotropy.provenance.code import code_param
from isotropy.report.page import PAPERS, PageSpec
from isotropy.sources.fetch import FetchSpec
from isotropy.tables.catalogue import TABLES, VERDICTS, read_published

PROJECT = Path(workflow.basedir)

try:
    STUDY = load_study(config, PROJECT)
except IsotropyError as error:
    raise WorkflowError(str(error)) from None

CONFIG = STUDY.config
SOURCES = STUDY.registry.sources
TRAJECTORIES = CONFIG.mickus2024.trajectories()


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


def code(rule, *modules):
    """Identity of the code behind a rule, see isotropy.provenance.code."""
    return code_param(PROJECT, rule, *modules)


def fetch_spec(wildcards):
    """Spec of fetching a source. Mirror and trust are named only where they can make a difference."""
    source, sources = SOURCES[wildcards.source], CONFIG.sources
    usable = source.usable(sources.order, mirror=sources.mirror is not None)
    mirror = sources.mirror if any(o.type == "mirror" for o in usable) else None
    return FetchSpec(
        id=wildcards.source,
        source=source,
        order=sources.order,
        mirror=None if mirror is None else os.path.relpath(PROJECT / mirror),
        trust_on_first_use=sources.trust_on_first_use
        and any(not source.pins(origin) for origin in source.origins),
    ).canonical()


def fetched(name):
    """Folder of a fetched source."""
    return f"results/fetch/{name}"


def dataset_spec(wildcards):
    """Spec of preparing a data set."""
    return CONFIG.datasets[wildcards.dataset].canonical()


def dataset_source(wildcards):
    """Source of a data set of sentences."""
    return fetched(CONFIG.datasets[wildcards.dataset].source)


def dataset_words(wildcards):
    """Lexicon of a data set of words, the vectors whose words it takes, and the list that restricts them, if any."""
    spec = CONFIG.datasets[wildcards.dataset]
    inputs = {"lexicon": fetched(spec.lexicon), "vectors": fetched(spec.vectors)}
    return inputs | ({"word_list": fetched(spec.word_list)} if spec.word_list else {})


def embed_spec(wildcards):
    """Spec of embedding sentences."""
    return EmbedSpec(
        dataset=wildcards.dataset,
        model=wildcards.model,
        encoder=SOURCES[wildcards.model].encoder,
        **CONFIG.compute.model_dump(),
    ).canonical()


def look_up_spec(wildcards):
    """Spec of looking words up in static vectors."""
    return LookUpSpec(dataset=wildcards.dataset, vectors=wildcards.vectors).canonical()


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


def optimize_spec(wildcards):
    """Spec of one trajectory."""
    run = TRAJECTORIES[wildcards.setup]
    return OptimizeSpec(
        paper="mickus2024",
        setup=wildcards.setup,
        group=run.group,
        base=run.base,
        variant=run.variant,
        seed=int(wildcards.seed),
        updates=run.updates,
        learning_rate=run.learning_rate,
        measure=run.measure,
        device=CONFIG.compute.device,
        **run.setup.model_dump(),
    ).canonical()


def run_files(group, suffix):
    """One file of each trajectory of a part of mickus2024: in the configured order, then seeds."""
    return [
        f"results/optimize/mickus2024/{name}/seed{seed}.{suffix}"
        for name, run in TRAJECTORIES.items()
        if run.group == group
        for seed in run.seeds
    ]


def table_entry(wildcards):
    """A table's entry in the catalogue."""
    return TABLES[f"{wildcards.paper}/{wildcards.table}"]


def table_spec(wildcards):
    """Spec of a table, with the numbers that its paper prints, if it shows them."""
    entry = table_entry(wildcards)
    if entry.published is None:
        return entry.canonical()
    published = read_published(PROJECT / "published" / f"{wildcards.paper}.csv")
    return entry.model_copy(update={"published": published}).canonical()


def table_code(wildcards):
    """Code of a table: the script and the module of its paper."""
    return code("make_table", f"isotropy.tables.{wildcards.paper}")


def table_inputs(wildcards):
    """Tables and trajectories that a table is made from."""
    entry = table_entry(wildcards)
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


def attempted(entry):
    """Whether the study has what a table or figure shows: parts of a paper may be left out of the configuration."""
    groups = {run.group for run in TRAJECTORIES.values()}
    return entry.needs is None or entry.needs in groups


def table_files():
    """Parquet files of all tables."""
    return [table_file(t) for t, entry in TABLES.items() if attempted(entry)]


def figure_spec(wildcards):
    """Spec of a figure: its entry in the catalogue."""
    return FIGURES[f"{wildcards.paper}/{wildcards.figure}"].canonical()


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
        if attempted(entry)
    ]


def claims_spec():
    """Spec of the verdicts: every claim of the papers, and the published numbers that they refer to."""
    return ClaimsSpec(
        study=CONFIG.study,
        claims=read_claims(PROJECT / "published"),
        attempted=[t for t, entry in TABLES.items() if attempted(entry)],
    ).canonical()


def page_spec():
    """Spec of the results page."""
    return PageSpec(
        study=CONFIG.study,
        papers=PAPERS,
        figures=[entry for entry in FIGURES.values() if attempted(entry)],
        tables=[VERDICTS, *(entry for entry in TABLES.values() if attempted(entry))],
    ).canonical()
