"""What several commands share: errors in one sentence, and the checkout and plan of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from isotropy.cli import print_line
from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, sha256_file
from isotropy.scrub import restore_path, scrub
from replication.provenance.format import CONFIGURATION, METADATA
from replication.resources import count_gpus

if TYPE_CHECKING:
    from replication.plan.costs import CostModel, Rates
    from replication.plan.plan import Plan
    from replication.plan.status import ResultState

Root = Annotated[Path, typer.Option(help="Folder of the run.")]


PATHS = ("mirror", "registry")
"""Keys of `sources` in the configuration whose values are paths."""


def refuse(reason: str) -> NoReturn:
    """Print a message, and exit with code 2."""
    print_line(reason, "red")
    raise typer.Exit(2)


def find_project(given: Path | None, folder: Path) -> Path:
    """Return the given checkout; or the folder of a run, if that is one; or the one that this
    package belongs to.
    """
    from replication.provenance.code import PROJECT, is_checkout

    return given or (folder if is_checkout(folder) else PROJECT)


def study_plan(project: Path, root: Path, configfiles: list[Path] | None) -> Plan:
    """Return the plan of a checkout with the given configuration files, or that of the last run."""
    from replication.plan.config import load_study, read_configuration
    from replication.plan.plan import Plan

    if configfiles is not None:
        values = read_configuration([project / "config.yaml", *configfiles], {})
    else:
        values = run_configuration(project, root)
    study = load_study(values, project, require_mirror=configfiles is not None)
    return Plan(study, project.resolve(), root.resolve())


def run_configuration(project: Path, root: Path, *, unchanged: bool = False) -> dict[str, Any]:
    """Return the configuration of the last run: of its files as they are now, or of a bundle.

    Args:
        project: the checkout.
        root: folder of the run.
        unchanged: whether its values must be those of the run.

    Raises:
        IsotropyError: a file is not there, or is not that of the run; or values are not.
    """
    from replication.plan.config import read_configuration
    from replication.provenance.ledger import last_run
    from replication.spec import digest

    if (root / METADATA).is_file() and (root / CONFIGURATION).is_file():
        return read_configuration([root / CONFIGURATION], {})
    entry = last_run(root / RESULTS)
    files, overrides = _files_of(entry, project), entry["overrides"]
    sources = overrides.get("sources")
    if isinstance(sources, dict):
        paths = {k: v for k, v in sources.items() if k in PATHS and isinstance(v, str)}
        restored = {k: restore_path(v) for k, v in paths.items()}
        overrides = overrides | {"sources": sources | restored}
    values = read_configuration(files, overrides)
    if unchanged and digest(scrub(values)) != entry.get("configuration"):
        raise IsotropyError(
            f"{', '.join(map(str, files))}: not the configuration of the last run: run the "
            "workflow again"
        )
    return values


def study_costs(
    project: Path, root: Path, configfiles: list[Path] | None, rates: Rates | None = None
) -> CostModel:
    """Return the estimates of the jobs of that plan, on this machine; by the checkout's rates,
    unless others are given.
    """
    from replication.plan.costs import CostModel, read_rates

    plan = study_plan(project, root, configfiles)
    rates = rates or read_rates(project / "config/rates.yaml")
    return CostModel(plan, rates, sees_gpu=count_gpus() > 0)


def survey_study(root: Path, costs: CostModel, project: Path) -> list[ResultState]:
    """The state of each result of a study in a folder; none if it has no results at all."""
    from replication.plan.status import expected_results, has_results, survey
    from replication.provenance.code import Codebase

    if not has_results(root):
        return []
    return survey(root, expected_results(costs), Codebase(project))


def _files_of(run: dict[str, Any], project: Path) -> list[Path]:
    """Return the paths of the configuration files of a run.

    Raises:
        IsotropyError: a file outside the checkout has changed since: a ledger of someone else
            could name any file of this machine.
    """
    files = []
    for entry in run["configfiles"]:
        file = project / restore_path(entry["path"])
        inside = file.resolve().is_relative_to(project.resolve())
        if not inside and file.is_file() and sha256_file(file) != entry["sha256"]:
            raise IsotropyError(
                f"{file} is not what configured the last run: name it with --configfile"
            )
        files.append(file)
    return files
