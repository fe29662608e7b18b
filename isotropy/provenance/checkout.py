"""A checkout that results are held against: its specs, its code, its lock, its environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isotropy.files import sha256_file
from isotropy.provenance.chain import stem_of
from isotropy.provenance.code import conda_packages, rule_sha256
from isotropy.provenance.compare import differences, shown
from isotropy.provenance.environment import normalized_name
from isotropy.provenance.record import Record
from isotropy.scrub import scrub

LOCK = "requirements.lock"


class Checkout:
    """What a checkout would make today.

    Args:
        project: its folder.
        spec: gives the spec of a result by its stem, and raises LookupError where the study has none; None: specs are not
            compared.
    """

    def __init__(self, project: Path, spec: Callable[[str], Any] | None = None) -> None:
        self.project, self._spec = project, spec
        self._digests: dict[str, str | None] = {}
        self._rules: dict[str, str | None] = {}
        self._declared: dict[str, list[str]] = {}
        lock = project / LOCK
        lines = lock.read_text("utf8").splitlines() if lock.is_file() else []
        pins = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
        self.locked = {normalized_name(name): version.strip() for name, version in pins}

    def spec_differs(self, name: str, record: Record) -> list[str]:
        """Fields in which a record's spec differs from what the study asks for now, with both values."""
        if self._spec is None:
            return []
        try:
            now = scrub(self._spec(stem_of(name)))
        except LookupError:
            return ["the study has no such result"]
        return [f"{field} was {shown(old)}, is {shown(new)}" for field, old, new in differences(record.spec, now)]

    def code_differs(self, record: Record) -> list[str]:
        """What differs from the code that made a result: files by name, and the rule."""
        files: dict[str, str] = record.code["files"]
        changed = [name for name, expected in files.items() if self._digest(name) != expected]
        rule = self._rule(record.rule)
        if rule is None:
            return [*changed, f"there is no rule {record.rule}"]
        return changed if rule == record.code["rule"] else [*changed, f"the text of rule {record.rule}"]

    def packages_differ(self, record: Record) -> list[str]:
        """Packages that had another version than the lock's: name, version, locked version. Builds (+cpu) do not count."""
        found = {name: version.split("+")[0] for name, version in record.environment["packages"].items()}
        return [f"{name} {v}, not {self.locked[name]}" for name, v in found.items() if self.locked.get(name, v) != v]

    def outside(self, record: Record) -> list[str]:
        """Why a job did not run in the environment that its rule declares, or in the locked one."""
        if record.environment["prefix"] == "system":
            return ["in the system's Python, neither in the rule's conda environment nor in the locked one"]
        if record.rule not in self._declared:
            self._declared[record.rule] = conda_packages(self.project, record.rule)
        lacking = [p for p in self._declared[record.rule] if p not in record.environment["packages"]]
        return [f"without {', '.join(lacking)}"] if lacking else []

    def _digest(self, name: str) -> str | None:
        if name not in self._digests:
            file = self.project / name
            self._digests[name] = sha256_file(file) if file.is_file() else None
        return self._digests[name]

    def _rule(self, rule: str) -> str | None:
        if rule not in self._rules:
            try:
                self._rules[rule] = rule_sha256(self.project, rule)
            except LookupError:
                self._rules[rule] = None
        return self._rules[rule]
