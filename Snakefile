"""Replication of papers on the geometry of embedding spaces: see `README.md` and `docs/`."""

from snakemake.utils import min_version

min_version("9.27")


configfile: f"{workflow.current_basedir}/config.yaml"


include: "rules/common.smk"
include: "rules/fetch.smk"
include: "rules/prepare.smk"
include: "rules/embed.smk"
include: "rules/optimize.smk"
include: "rules/finetune.smk"
include: "rules/geometry.smk"
include: "rules/similarity.smk"
include: "rules/tables.smk"
include: "rules/claims.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/audit.smk"


patches.extend_dag(workflow, results_to_make, note_run)
patches.call_at_start(workflow, start_run)


# On a cluster these run on the machine of Snakemake: they need the network or are very short.
localrules:
    all,
    figures,
    tables,
    fetch_source,


rule all:
    """Everything: figures, tables, the web pages that present them, and models that are kept."""
    default_target: True
    input:
        "results/index.html",
        [f"results/{stem}.model" for stem in sorted(PLAN.kept)],


rule figures:
    """All figures."""
    input:
        PLAN.figure_files(),


rule tables:
    """All tables, and the verdicts."""
    input:
        PLAN.table_files(),
        "results/claims.csv",
