"""The metadata of a bundle: a Workflow Run RO-Crate (Provenance Run Crate 0.5) as JSON-LD."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from isotropy.files import RESULTS
from isotropy.provenance.chain import stem_of
from isotropy.provenance.code import script_of
from isotropy.provenance.record import Record
from isotropy.provenance.verify_bundle import METADATA
from isotropy.spec import canonical_json

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"},
]
"""JSON-LD context: that of RO-Crate, and the one term used of the workflow-run context."""
SNAKEMAKE = "https://snakemake.readthedocs.io"
Entity = dict[str, Any]


class Crate:
    """Builder of the metadata, entity by entity.

    Args:
        records: records by name.
        files: files of the bundle, by name in it.
        digests: SHA-256 of these files, by the same names.
        project: folder of the checkout.
        published: publication date of the crate, ISO 8601.
    """

    def __init__(
        self,
        records: Mapping[str, Record],
        files: Mapping[str, Path],
        digests: Mapping[str, str],
        project: Path,
        published: str,
    ) -> None:
        self._records, self._files = records, files
        self._digests, self._published = digests, published
        self._citation = yaml.safe_load((project / "CITATION.cff").read_text("utf8"))
        self._people = [_person(author) for author in self._citation.get("authors", [])]
        self._licence: Entity = {
            "@id": f"https://spdx.org/licenses/{self._citation['license']}",
            "@type": "CreativeWork",
            "name": self._citation["license"],
        }
        self._scripts = {
            record.rule: script_of(project, record.rule).relative_to(project.resolve()).as_posix()
            for record in records.values()
        }
        self._graph: dict[str, Entity] = {}

    def metadata(self) -> dict[str, Any]:
        """Build the whole metadata document."""
        self._add_root()
        self._add_files()
        self._add_workflow()
        for name, record in self._records.items():
            self._add_job(stem_of(name), record)
        self._add_run()
        return {"@context": CONTEXT, "@graph": list(self._graph.values())}

    def _add(self, identifier: str, kind: str | list[str], /, **properties: Any) -> None:
        self._graph[identifier] = {"@id": identifier, "@type": kind, **properties}

    def _job_ids(self, kind: str) -> list[str]:
        return [f"#{kind}/{stem_of(name)}" for name in self._records]

    def _add_root(self) -> None:
        """Add the descriptor, the root data set, its licence, authors and profiles."""
        self._add(
            METADATA,
            "CreativeWork",
            about=_ref("./"),
            conformsTo=[_ref("https://w3id.org/ro/crate/1.1"), _ref(list(PROFILES)[-1])],
        )
        self._add(
            "./",
            "Dataset",
            name=self._citation["title"],
            description="Results of a run with a record of each job. Every number can be followed "
            "to the bytes it came from.",
            datePublished=self._published,
            license=_ref(self._licence["@id"]),
            author=_refs(p["@id"] for p in self._people),
            conformsTo=_refs(PROFILES),
            hasPart=_refs(sorted(self._files)),
            mainEntity=_ref("Snakefile"),
            mentions=_refs(["#run", "#organize", *self._job_ids("job"), *self._job_ids("control")]),
        )
        for entity in [self._licence, *self._people]:
            self._graph[entity["@id"]] = entity
        for profile, name in PROFILES.items():
            self._add(profile, "CreativeWork", name=name, version=profile.rsplit("/", 1)[-1])

    def _add_files(self) -> None:
        for name, path in self._files.items():
            properties = _file_properties(name, path.stat().st_size)
            self._add(name, "File", name=name, **properties, sha256=self._digests[name])
            if not name.startswith(f"{RESULTS}/"):
                self._graph[name]["license"] = _ref(self._licence["@id"])

    def _add_workflow(self) -> None:
        """Add Snakemake, the workflow, its rules and their scripts."""
        versions = next(iter(self._records.values())).environment.packages
        self._add(
            "#snakemake",
            ["SoftwareApplication", "ComputerLanguage"],
            name="Snakemake",
            url=_ref(SNAKEMAKE),
            version=str(versions.get("snakemake", "not recorded")),
        )
        self._add(SNAKEMAKE, "WebPage", name="Snakemake")
        self._graph["Snakefile"] |= {
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "programmingLanguage": _ref("#snakemake"),
            "hasPart": _refs(sorted(set(self._scripts.values()))),
            "step": _refs(f"#step/{rule}" for rule in self._scripts),
            "creator": _refs(p["@id"] for p in self._people),
        }
        for position, (rule, script) in enumerate(self._scripts.items()):
            step = f"#step/{rule}"
            self._add(step, "HowToStep", name=rule, position=position, workExample=_ref(script))
            self._graph[script] |= {
                "@type": ["File", "SoftwareSourceCode"],
                "softwareRequirements": _ref("requirements.lock"),
            }
        self._graph["requirements.lock"]["@type"] = ["File", "SoftwareApplication"]

    def _add_job(self, stem: str, record: Record) -> None:
        spec = f"#spec/{stem}"
        text = canonical_json(record.spec)
        self._add(spec, "PropertyValue", name=f"spec of {stem}", value=text)
        inputs = [spec, *(self._file_or_absent(f.path, f.sha256) for f in record.inputs)]
        inputs += [self._add_source(s) for s in ([] if record.inputs else record.lineage.sources)]
        outputs = [self._file_or_absent(f.path, f.sha256) for f in record.outputs]
        seeds = canonical_json(record.seeds)
        self._add(
            f"#job/{stem}",
            "CreateAction",
            name=f"{record.rule}: {stem}",
            description=f"{record.lineage.status}; {record.determinism}; seeds: {seeds}",
            instrument=_ref(self._scripts[record.rule]),
            object=_refs(inputs),
            result=_refs(outputs),
            startTime=record.started,
            endTime=record.ended,
            actionStatus="http://schema.org/CompletedActionStatus",
        )
        self._add(
            f"#control/{stem}",
            "ControlAction",
            name=f"Snakemake runs {record.rule}: {stem}",
            instrument=_ref(f"#step/{record.rule}"),
            object=_ref(f"#job/{stem}"),
        )

    def _add_source(self, source: Mapping[str, Any]) -> str:
        identifier = f"#source/{source['id']}"
        self._add(
            identifier,
            "CreativeWork",
            name=source["content"]["title"],
            identifier=source["id"],
            description=source["origin"],
            license=source["licence"],
            citation=source["citation"],
        )
        return identifier

    def _file_or_absent(self, path: str, sha256: str) -> str:
        """Return the id of a file in the RO-Crate: its path, or, if the bundle leaves it out, the
        id of the entity that stands for it.
        """
        if path in self._graph:
            return path
        absent = f"#not-in-the-bundle/{path}"
        left_out = "left out of the bundle"
        self._add(absent, "CreativeWork", name=path, description=left_out, sha256=sha256)
        return absent

    def _add_run(self) -> None:
        """Add the run as a whole, from its sources to its results."""
        self._add(
            "#organize",
            "OrganizeAction",
            name="Run of the workflow by Snakemake",
            instrument=_ref("#snakemake"),
            object=_refs(self._job_ids("control")),
            result=_ref("#run"),
        )
        sources = sorted(i for i in self._graph if i.startswith("#source/"))
        prefixes = ("results/index.", "results/claims.")
        results = [
            f for f in self._files if f.startswith(prefixes) and not f.endswith(".record.json")
        ]
        self._add(
            "#run",
            "CreateAction",
            name="Run of the workflow",
            instrument=_ref("Snakefile"),
            object=_refs(sources),
            result=_refs(sorted(results)),
            startTime=min(r.started for r in self._records.values()),
            endTime=self._published,
            actionStatus="http://schema.org/CompletedActionStatus",
        )


def _ref(identifier: str) -> Entity:
    return {"@id": identifier}


def _refs(identifiers: Iterable[str]) -> list[Entity]:
    return [_ref(i) for i in identifiers]


def _person(author: Mapping[str, str]) -> Entity:
    name = (
        author.get("name")
        or f"{author.get('given-names', '')} {author.get('family-names', '')}".strip()
    )
    kind = "Organization" if "name" in author else "Person"
    return {"@id": "#" + name.replace(" ", "-"), "@type": kind, "name": name}


def _file_properties(name: str, size: int) -> Entity:
    media_types = {
        ".parquet": "application/vnd.apache.parquet",
        ".md": "text/markdown",
        ".yaml": "application/yaml",
        ".smk": "text/x-python",
        ".jsonl": "application/jsonl",
        ".safetensors": "application/octet-stream",
    }
    media_type = media_types.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "text/plain"
    return {"contentSize": str(size), "encodingFormat": media_type}
