"""A checkout to compare results with: its specs, code, lock file and environments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from isotropy.errors import IsotropyError
from replication.provenance.code import Codebase
from replication.provenance.compare import changed_names, shown, spec_differences
from replication.provenance.environment import PYPI_NAME, locked_versions, normalized_name
from replication.provenance.graph import stem_of
from replication.provenance.record import Record
from replication.spec import Spec

LOCK = "requirements.lock"


class ExpectedResults(Protocol):
    """The results that a configuration asks for (`replication.plan.plan`). Both methods raise
    LookupError for a result that is not among them.
    """

    def spec(self, stem: str) -> Spec:
        """Return the spec of a result."""

    def inputs(self, stem: str) -> dict[str, list[str]]:
        """Return the input paths of a result, by input name."""


class Checkout:
    """A checkout, compared with what records say.

    Args:
        project: folder of the checkout.
        expected: results that its configuration asks for; None: specs and inputs are not compared.
        again: results that a run would make again -> the reason (`replication.plan.status`).

    Attributes:
        incomplete: messages on what could not be compared, and why.
        changed_infrastructure: infrastructure files that have changed since results were made ->
            number of result files made before. Not a finding: they do not affect results.

    Raises:
        IsotropyError: the folder is not a checkout.
    """

    def __init__(
        self,
        project: Path,
        expected: ExpectedResults | None = None,
        again: Mapping[str, str] | None = None,
    ) -> None:
        if not (project / "rules").is_dir():
            raise IsotropyError(
                f"{project} is not a checkout, it has no rules/: give --project, or --digests-only"
            )
        self.project, self._expected, self._again = project, expected, again or {}
        self.codebase = Codebase(project)
        self.incomplete: list[str] = []
        self.changed_infrastructure: Counter[str] = Counter()
        self.locked = locked_versions(project)
        if not self.locked:
            self.incomplete.append(f"packages were not compared: there is no {LOCK}")

    def spec_differs(self, name: str, record: Record) -> list[str]:
        """List fields of a record's spec, with both values, and inputs that differ from what the
        study asks for now.
        """
        if self._expected is None:
            return []
        try:
            expected_spec = self._expected.spec(stem_of(name)).recorded()
            inputs = self._expected.inputs(stem_of(name))
        except LookupError:
            return ["the study does not have this result: remove it, or run a study that has it"]
        except (IsotropyError, OSError) as error:
            self.incomplete.append(f"the spec of {stem_of(name)} was not compared: {error}")
            return []
        differences = [
            f"{field} was {shown(old)}, is {shown(new)}"
            for field, old, new in spec_differences(record.spec, expected_spec)
        ]
        old_paths, new_paths = (
            {p for paths in names.values() for p in paths} for names in (record.input_names, inputs)
        )
        differences += [f"it no longer reads {path}" for path in sorted(old_paths - new_paths)[:2]]
        return differences + [
            f"it would read {path}, too" for path in sorted(new_paths - old_paths)[:2]
        ]

    def asks_for(self, name: str) -> bool:
        """Return whether the study has the result of a record; also if that is not known."""
        if self._expected is None:
            return True
        with suppress(LookupError):
            self._expected.spec(stem_of(name))
            return True
        return False

    def made_again(self, name: str) -> list[str]:
        """Return why a run would make a result again, by the path of its record; empty if not."""
        reason = self._again.get(stem_of(name))
        return [] if reason is None else [reason]

    def code_differs(self, record: Record) -> list[str]:
        """List code files that differ from those that made a result, and the rule if it differs;
        count the files that a job wrote for each infrastructure file that has changed.
        """
        try:
            now = self.codebase.code(record.rule, *record.code.modules)
        except (LookupError, IsotropyError) as error:
            return [str(error)]
        for name in changed_names(record.code.infrastructure, now.infrastructure):
            self.changed_infrastructure[name] += len(record.outputs)
        changed = changed_names(record.code.files, now.files)
        return changed + [f"the text of rule {record.rule}"] * (now.rule != record.code.rule)

    def packages_differ(self, record: Record) -> list[str]:
        """List packages that had another version than in the lock file: name, version, locked
        version. Build tags such as +cpu are ignored.
        """
        versions = {
            name: version.split("+")[0] for name, version in record.environment.packages.items()
        }
        return [
            f"{name} {installed}, not {self.locked[name]}"
            for name, installed in versions.items()
            if self.locked.get(name, installed) != installed
        ]

    def environment_mismatch(self, record: Record) -> list[str]:
        """List why a job ran neither in the environment of its rule nor in the locked one."""
        if record.environment.prefix == "system":
            return [
                "in the system's Python, neither in the rule's conda environment nor in the "
                "locked one"
            ]
        declared = conda_packages(self.codebase, record.rule)
        missing_packages = [p for p in declared if p not in record.environment.packages]
        return [f"without {', '.join(missing_packages)}"] if missing_packages else []


def conda_packages(codebase: Codebase, rule: str) -> list[str]:
    """Return the distributions that the conda environment of a rule declares, by their PyPI names;
    empty if there is no such rule or environment.
    """
    try:
        match = re.search(r'^\s+"\.\./(envs/\w+\.yaml)"', codebase.rule(rule)[0], re.M)
    except LookupError:
        return []
    file = codebase.project / match[1] if match else None
    text = file.read_text("utf8") if file and file.is_file() else ""
    names = re.findall(r"^\s+- ([A-Za-z0-9_.-]+)[=<>]", text, re.M)
    return [PYPI_NAME.get(n, n) for n in map(normalized_name, names) if n not in ("python", "pip")]
