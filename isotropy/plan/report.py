"""tables, figures, claims, index: what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotropy.claims.spec import ClaimsSpec, read_claims
from isotropy.figures.catalogue import FIGURES
from isotropy.files import RESULTS
from isotropy.plan.paths import table_file
from isotropy.plan.similarity import is_tuned, tuning_stem
from isotropy.report.spec import PAPERS, PageSpec
from isotropy.tables.catalogue import TABLES, VERDICTS, TableSpec, read_published

if TYPE_CHECKING:
    from isotropy.plan import Plan
    from isotropy.spec import Spec


def spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a table, a figure, the verdicts or the page."""
    match path:
        case ["tables", paper, table]:
            return _table(plan, f"{paper}/{table}")
        case ["figures", paper, figure]:
            return FIGURES[f"{paper}/{figure}"]
        case ["claims"]:
            return ClaimsSpec(
                study=plan.study.config.study,
                claims=read_claims(plan.project / "published"),
                attempted=[name for name, entry in TABLES.items() if plan.attempted(entry)],
            )
        case ["index"]:
            return PageSpec(
                study=plan.study.config.study,
                papers=PAPERS,
                figures=[entry for entry in FIGURES.values() if plan.attempted(entry)],
                tables=[VERDICTS, *(entry for entry in TABLES.values() if plan.attempted(entry))],
            )
    return None


def inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["tables", paper, table]:
            return _table_inputs(plan, TABLES[f"{paper}/{table}"])
        case ["figures", paper, figure]:
            return {"tables": [table_file(t) for t in FIGURES[f"{paper}/{figure}"].tables]}
        case ["claims"]:
            return {"tables": plan.table_files()}
        case ["index"]:
            return {"results": [*plan.figure_files(), table_file("claims"), *plan.table_files()]}
    return None


def _table(plan: Plan, name: str) -> TableSpec:
    """With the numbers that its paper prints, if it shows them."""
    entry = TABLES[name]
    if entry.published is None:
        return entry
    published = read_published(plan.project / "published" / f"{name.split('/')[0]}.csv")
    return entry.model_copy(update={"published": published})


def _table_inputs(plan: Plan, entry: TableSpec) -> dict[str, list[str]]:
    """Tables, and runs: in the configured order, then seeds."""
    inputs = {"tables": [table_file(name) for name in entry.tables]}
    if entry.runs is not None:
        stems = _runs(plan, entry.runs)
        inputs["runs"] = [f"{stem}.json" for stem in stems]
        inputs["rows"] = [
            f"{stem}.{entry.part}.parquet" if entry.part else f"{stem}.parquet" for stem in stems
        ]
    return inputs


def _runs(plan: Plan, group: str) -> list[str]:
    """Results of a part of a paper, without suffixes."""
    if group in ("finetune", "clustered"):
        paper = "rudman2024" if group == "finetune" else "rajaee2021"
        seeds = plan.fine_tuning(paper).seeds
        return [
            f"{RESULTS}/finetune/{paper}/{name}/seed{s}"
            for p, name in plan.fine_tuned
            if p == paper
            for s in seeds
        ]
    if group == "shown":
        return [
            f"{RESULTS}/finetune/rudman2024/{n}/seed{min(plan.rudman2024.seeds)}"
            for n in plan.rudman2024.shown()
        ]
    if group == "tuning":
        return list(
            dict.fromkeys(
                tuning_stem(plan, one) for one in plan.measured.values() if is_tuned(plan, one)
            )
        )
    if group == "classification":
        assert plan.rajaee2021.classification is not None
        pairs = [
            (t, e)
            for t in plan.rajaee2021.classification.attempt
            for e in plan.rajaee2021.classification.embeddings
        ]
        return [
            f"{RESULTS}/similarity/rajaee2021/classification/{task}/{embedding}"
            for task, embedding in pairs
        ]
    if group == "similarity":
        return [f"{RESULTS}/similarity/rajaee2021/{stem}" for stem in plan.measured]
    if group == "pictured":
        return [
            f"{RESULTS}/similarity/rajaee2021/{stem}"
            for stem, one in plan.measured.items()
            if one.pictured
        ]
    if group == "layers":
        return [
            f"{RESULTS}/geometry/cai2021/{d}/{model}/layer{n}"
            for d, model, n in plan.cai2021.measured()
        ]
    if group == "vectors":
        return [f"{RESULTS}/geometry/cai2021/vectors/{name}" for name in plan.cai2021.vectors]
    if group == "stability":
        return [
            f"{RESULTS}/geometry/rudman2024/{name}" for name in plan.rudman2024.stability.clouds
        ]
    return [
        f"{RESULTS}/optimize/mickus2024/{name}/seed{seed}"
        for name, run in plan.trajectories.items()
        if run.group == group
        for seed in run.seeds
    ]
