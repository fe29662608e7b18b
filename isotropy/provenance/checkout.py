"""A checkout that results are held against: its specs, its code, its lock, its environments."""

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
    """What a configuration asks for (`isotropy.workflow.plan`). Both raise LookupError for a result
    that it does not have.
    """

    def spec(self, stem: str) -> Spec:
        """The spec of a result."""

    def inputs(self, stem: str) -> dict[str, list[str]]:
        """The inputs of a result, by name."""


class Checkout:
    """What a checkout would make today.

    Args:
        project: its folder.
        expected: what its configuration asks for; None: specs and inputs are not compared.

    Attributes:
        incomplete: what could not be compared, and why.
        changed_infrastructure: infrastructure files that have changed since results were made ->
            how many files of results. No finding: they do not change results.

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
        self._bytes: dict[str, str | None] = {}
        self._rules: dict[str, str | None] = {}
        self._declared: dict[str, list[str]] = {}
        lock = project / LOCK
        if not lock.is_file():
            self.incomplete.append(f"packages were not compared: there is no {LOCK}")
        text = lock.read_text("utf8") if lock.is_file() else ""
        pins = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text, re.M)
        self.locked = {normalized_name(name): version for name, version in pins}

    def spec_differs(self, name: str, record: Record) -> list[str]:
        """Fields of a record's spec, and inputs, that are not what the study asks for now, with
        both values.
        """
        if self._expected is None:
            return []
        try:
            now, inputs = (
                self._expected.spec(stem_of(name)).recorded(),
                self._expected.inputs(stem_of(name)),
            )
        except LookupError:
            return ["the study has no such result"]
        except (IsotropyError, OSError) as error:
            self.incomplete.append(f"the spec of {stem_of(name)} was not compared: {error}")
            return []
        found = [
            f"{field} was {shown(old)}, is {shown(new)}"
            for field, old, new in spec_differences(record.spec, now)
        ]
        had, has = (
            {p for paths in names.values() for p in paths} for names in (record.input_names, inputs)
        )
        found += [f"it no longer reads {path}" for path in sorted(had - has)[:2]]
        return found + [f"it would read {path}, too" for path in sorted(has - had)[:2]]

    def code_differs(self, record: Record) -> list[str]:
        """Files that differ from the code that made a result, and the rule if its text does."""
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
        """Packages that had another version than the lock's: name, version, locked version. Builds
        (+cpu) do not count.
        """
        found = {
            name: version.split("+")[0] for name, version in record.environment.packages.items()
        }
        return [
            f"{name} {v}, not {self.locked[name]}"
            for name, v in found.items()
            if self.locked.get(name, v) != v
        ]

    def environment_mismatch(self, record: Record) -> list[str]:
        """Why a job did not run in the environment that its rule declares, or in the locked one."""
        if record.environment.prefix == "system":
            return [
                "in the system's Python, neither in the rule's conda environment nor in the "
                "locked one"
            ]
        if record.rule not in self._declared:
            self._declared[record.rule] = conda_packages(self.project, record.rule)
        lacking = [p for p in self._declared[record.rule] if p not in record.environment.packages]
        return [f"without {', '.join(lacking)}"] if lacking else []

    def _digest(self, name: str) -> str | None:
        """Digest of a file by what it says; None where it is not found, or is no Python."""
        if name not in self._digests:
            file = self.project / name
            self._digests[name] = file_digest(name, file.read_bytes()) if file.is_file() else None
        return self._digests[name]

    def _sha256(self, name: str) -> str | None:
        if name not in self._bytes:
            file = self.project / name
            self._bytes[name] = sha256_file(file) if file.is_file() else None
        return self._bytes[name]

    def _rule(self, rule: str) -> str | None:
        if rule not in self._rules:
            try:
                self._rules[rule] = rule_sha256(self.project, rule)
            except LookupError:
                self._rules[rule] = None
        return self._rules[rule]
