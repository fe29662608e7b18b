"""A checkout to compare results with: its specs, code, lock file and environments."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Protocol

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.provenance.chain import stem_of
from isotropy.provenance.code import conda_packages, rule_sha256
from isotropy.provenance.compare import shown, spec_differences
from isotropy.provenance.environment import normalized_name
from isotropy.provenance.record import Record
from isotropy.provenance.syntax import file_digest
from isotropy.spec import Spec

LOCK = "requirements.lock"


class ExpectedResults(Protocol):
    """The results that a configuration asks for (`isotropy.workflow.plan`). Both methods raise
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
        self._digests: dict[str, str | None] = {}
        self._byte_digests: dict[str, str | None] = {}
        self._rules: dict[str, str | None] = {}
        self._declared: dict[str, list[str]] = {}
        lock = project / LOCK
        if not lock.is_file():
            self.incomplete.append(f"packages were not compared: there is no {LOCK}")
        text = lock.read_text("utf8") if lock.is_file() else ""
        pins = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text, re.M)
        self.locked = {normalized_name(name): version for name, version in pins}

    def spec_differs(self, name: str, record: Record) -> list[str]:
        """List fields of a record's spec, with both values, and inputs that differ from what the
        study asks for now.
        """
        if self._expected is None:
            return []
        try:
            expected_spec, inputs = (
                self._expected.spec(stem_of(name)).recorded(),
                self._expected.inputs(stem_of(name)),
            )
        except LookupError:
            return ["the study does not have this result"]
        except (IsotropyError, OSError) as error:
            self.incomplete.append(f"the spec of {stem_of(name)} was not compared: {error}")
            return []
        differences = [
            f"{field} was {shown(old)}, is {shown(new)}"
            for field, old, new in spec_differences(record.spec, expected_spec)
        ]
        recorded_paths, expected_paths = (
            {p for paths in names.values() for p in paths} for names in (record.input_names, inputs)
        )
        differences += [
            f"it no longer reads {path}" for path in sorted(recorded_paths - expected_paths)[:2]
        ]
        return differences + [
            f"it would read {path}, too" for path in sorted(expected_paths - recorded_paths)[:2]
        ]

    def code_differs(self, record: Record) -> list[str]:
        """List code files that differ from those that made a result, and the rule if it differs."""
        changed = [
            name for name, expected in record.code.files.items() if self._digest(name) != expected
        ]
        rule = self._rule(record.rule)
        if rule is None:
            return [*changed, f"there is no rule {record.rule}"]
        return (
            changed if rule == record.code.rule else [*changed, f"the text of rule {record.rule}"]
        )

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
        if record.rule not in self._declared:
            self._declared[record.rule] = conda_packages(self.project, record.rule)
        missing_packages = [
            p for p in self._declared[record.rule] if p not in record.environment.packages
        ]
        return [f"without {', '.join(missing_packages)}"] if missing_packages else []

    def _digest(self, name: str) -> str | None:
        """Digest a code file without comments and layout; None if missing or not valid Python."""
        if name not in self._digests:
            file = self.project / name
            self._digests[name] = file_digest(name, file.read_bytes()) if file.is_file() else None
        return self._digests[name]

    def _sha256(self, name: str) -> str | None:
        if name not in self._byte_digests:
            file = self.project / name
            self._byte_digests[name] = sha256_file(file) if file.is_file() else None
        return self._byte_digests[name]

    def _rule(self, rule: str) -> str | None:
        if rule not in self._rules:
            try:
                self._rules[rule] = rule_sha256(self.project, rule)
            except LookupError:
                self._rules[rule] = None
        return self._rules[rule]
