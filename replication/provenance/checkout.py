"""A checkout to compare results with: its specs, code, lock file and environments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Protocol

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from replication.provenance.chain import cached_method, stem_of
from replication.provenance.code import conda_packages, rule_sha256
from replication.provenance.compare import shown, spec_differences
from replication.provenance.environment import locked_versions
from replication.provenance.record import Record
from replication.provenance.syntax import file_digest
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

    Attributes:
        incomplete: messages on what could not be compared, and why.
        changed_infrastructure: infrastructure files that have changed since results were made ->
            number of result files made before. Not a finding: they do not affect results.

    Raises:
        IsotropyError: the folder is not a checkout.
    """

    def __init__(self, project: Path, expected: ExpectedResults | None = None) -> None:
        if not (project / "rules").is_dir():
            raise IsotropyError(
                f"{project} is not a checkout, it has no rules/: give --project, or --digests-only"
            )
        self.project, self._expected = project, expected
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
            return ["the study does not have this result"]
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

    def code_differs(self, record: Record) -> list[str]:
        """List code files that differ from those that made a result, and the rule if it differs."""
        changed = [
            name for name, expected in record.code.files.items() if self._digest(name) != expected
        ]
        rule = self._rule(record.rule)
        if rule is None:
            changed.append(f"there is no rule {record.rule}")
        elif rule != record.code.rule:
            changed.append(f"the text of rule {record.rule}")
        return changed

    def note_infrastructure(self, record: Record) -> None:
        """Count the files that a job wrote, for each infrastructure file that has changed."""
        for name, expected in record.code.infrastructure.items():
            if self._sha256(name) != expected:
                self.changed_infrastructure[name] += len(record.outputs)

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
        declared = self._conda_packages(record.rule)
        missing_packages = [p for p in declared if p not in record.environment.packages]
        return [f"without {', '.join(missing_packages)}"] if missing_packages else []

    @cached_method
    def _conda_packages(self, rule: str) -> list[str]:
        return conda_packages(self.project, rule)

    @cached_method
    def _digest(self, name: str) -> str | None:
        """Digest a code file without comments and layout; None if missing or not valid Python."""
        file = self.project / name
        return file_digest(name, file.read_bytes()) if file.is_file() else None

    @cached_method
    def _sha256(self, name: str) -> str | None:
        file = self.project / name
        return sha256_file(file) if file.is_file() else None

    @cached_method
    def _rule(self, rule: str) -> str | None:
        try:
            return rule_sha256(self.project, rule)
        except LookupError:
            return None
