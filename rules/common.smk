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

from isotropy.config import load_study
from isotropy.embed.spec import EmbedSpec, LookUpSpec
from isotropy.errors import IsotropyError
from isotropy.figures.catalogue import FIGURES
from isotropy.optimize.spec import OptimizeSpec
from isotropy.prepare.spec import SentencesSpec, SupersensesSpec
from isotropy.provenance.code import code_param
from isotropy.report.page import PAPERS, PageSpec
from isotropy.sources.fetch import FetchSpec
from isotropy.tables.catalogue import TABLES, read_published

PROJECT = Path(workflow.basedir)

try:
    STUDY = load_study(config, PROJECT)
except IsotropyError as error:
    raise WorkflowError(str(error)) from None

CONFIG = STUDY.config
SOURCES = STUDY.registry.sources


wildcard_constraints:
    source="|".join(SOURCES),
    dataset="|".join(CONFIG.datasets),
    setup="|".join(CONFIG.mickus2024.setups),
    seed=r"\d+",


def alternatives(names):
    """A wildcard constraint: one of the names, or nothing that can match."""
    return "|".join(names) or "(?!)"


SENTENCES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SentencesSpec)]
SUPERSENSES = [n for n, d in CONFIG.datasets.items() if isinstance(d, SupersensesSpec)]
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


def dataset_lexicon(wildcards):
    """Lexicon of a data set of words."""
    return fetched(CONFIG.datasets[wildcards.dataset].lexicon)


def dataset_vectors(wildcards):
    """Vectors whose words a data set of words takes."""
    return fetched(CONFIG.datasets[wildcards.dataset].vectors)


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
    """Prepared data set of a setup."""
    return (
        f"results/prepare/{CONFIG.mickus2024.setups[wildcards.setup].dataset}.parquet"
    )


def setup_embeddings(wildcards):
    """Embeddings that a setup starts from."""
    setup = CONFIG.mickus2024.setups[wildcards.setup]
    return f"results/embed/{setup.dataset}/{setup.embedding}.safetensors"


def optimize_spec(wildcards):
    """Spec of one trajectory."""
    paper = CONFIG.mickus2024
    return OptimizeSpec(
        paper="mickus2024",
        setup=wildcards.setup,
        seed=int(wildcards.seed),
        updates=paper.updates,
        learning_rate=paper.learning_rate,
        schedule=paper.schedule,
        device=CONFIG.compute.device,
        **paper.setups[wildcards.setup].model_dump(),
    ).canonical()


def run_files(suffix):
    """One file of each trajectory of mickus2024: setups in the configured order, then seeds."""
    paper = CONFIG.mickus2024
    return [
        f"results/optimize/mickus2024/{s}/seed{n}.{suffix}"
        for s in paper.setups
        for n in paper.seeds
    ]


def table_spec(table):
    """Spec of a table, with the numbers that its paper prints."""
    published = PROJECT / "published" / f"{table.split('/')[0]}.csv"
    return (
        TABLES[table]
        .model_copy(update={"published": read_published(published)})
        .canonical()
    )


def table_files(*tables):
    """Parquet files of tables; of all, if none is named."""
    return [f"results/tables/{t}.parquet" for t in tables or TABLES]


def figure_spec(wildcards):
    """Spec of a figure: its entry in the catalogue."""
    return FIGURES[f"{wildcards.paper}/{wildcards.figure}"].canonical()


def figure_code(wildcards):
    """Code of a figure: the script and the module of its paper."""
    return code("draw_figure", f"isotropy.figures.{wildcards.paper}")


def figure_tables(wildcards):
    """Tables that a figure reads."""
    tables = FIGURES[f"{wildcards.paper}/{wildcards.figure}"].tables
    return table_files(*tables) if tables else []


def figure_files():
    """One file of each figure."""
    return [f"results/figures/{figure}.png" for figure in FIGURES]


def page_spec():
    """Spec of the results page."""
    return PageSpec(
        study=CONFIG.study,
        papers=PAPERS,
        figures=list(FIGURES.values()),
        tables=list(TABLES.values()),
    ).canonical()
