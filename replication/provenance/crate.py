"""The metadata of a bundle: a Workflow Run RO-Crate (Provenance Run Crate 0.5) as JSON-LD."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocrate.model.computerlanguage import ComputerLanguage
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from isotropy.files import RECORD_SUFFIX, RESULTS
from replication.provenance.code import Codebase
from replication.provenance.graph import stem_of
from replication.provenance.identity import File
from replication.provenance.record import Record
from replication.spec import canonical_json
from replication.yaml_files import read_yaml

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
SNAKEMAKE = "https://snakemake.readthedocs.io"
COMPLETED = {"actionStatus": "http://schema.org/CompletedActionStatus"}
MEDIA_TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".smk": "text/x-python",
    ".jsonl": "application/jsonl",
    ".safetensors": "application/octet-stream",
}


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
        self._records = {stem_of(name): record for name, record in records.items()}
        self._paths, self._digests, self._published = files, digests, published
        self._citation = read_yaml(project / "CITATION.cff")
        codebase, root = Codebase(project), project.resolve()
        rules = {record.rule for record in records.values()}
        self._scripts = {r: codebase.rule(r)[1].relative_to(root).as_posix() for r in sorted(rules)}
        self._crate = ROCrate(version="1.1")
        self._crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"
        self._files: dict[str, Entity] = {}

    def metadata(self) -> dict[str, Any]:
        """Build the whole metadata document."""
        self._add_root()
        self._add_files()
        self._add_workflow()
        for stem, record in self._records.items():
            self._add_job(stem, record)
        self._add_run()
        self._crate.root_dataset["mentions"] = self._entities(
            "#run", "#organize", "#job/", "#control/"
        )
        document: dict[str, Any] = self._crate.metadata.generate()
        return document

    def _entities(self, *prefixes: str) -> list[Entity]:
        return [entity for entity in self._crate.get_entities() if entity.id.startswith(prefixes)]

    def _add(self, identifier: str, kind: str, /, **properties: Any) -> Entity:
        return self._crate.add_or_update_jsonld({"@id": identifier, "@type": kind} | properties)

    def _add_root(self) -> None:
        """Describe the root data set, and add its licence, authors and profiles."""
        root = self._crate.root_dataset
        root["name"] = self._citation["title"]
        root["description"] = (
            "Results of a run with a record of each job. Every number can be followed to the "
            "bytes it came from."
        )
        root["datePublished"] = self._published
        licence = self._citation["license"]
        root["license"] = self._add(
            f"https://spdx.org/licenses/{licence}", "CreativeWork", name=licence
        )
        root["author"] = [self._add_author(author) for author in self._citation["authors"]]
        root["conformsTo"] = [
            self._add(profile, "CreativeWork", name=name, version=profile.rsplit("/", 1)[-1])
            for profile, name in PROFILES.items()
        ]

    def _add_author(self, author: Mapping[str, str]) -> Entity:
        names = (author.get(key) for key in ("name", "given-names", "family-names"))
        name = " ".join(filter(None, names))
        kind = "Organization" if "name" in author else "Person"
        return self._add("#" + name.replace(" ", "-"), kind, name=name)

    def _add_files(self) -> None:
        kinds = {script: ["File", "SoftwareSourceCode"] for script in self._scripts.values()}
        kinds["requirements.lock"] = ["File", "SoftwareApplication"]
        for name, path in sorted(self._paths.items()):
            properties = {
                "@type": kinds.get(name, "File"),
                "name": name,
                "contentSize": str(path.stat().st_size),
                "encodingFormat": _media_type(name),
                "sha256": self._digests[name],
            }
            if not name.startswith(f"{RESULTS}/"):
                properties["license"] = self._crate.root_dataset["license"]
            self._files[name] = self._crate.add_file(path, name, properties=properties)

    def _add_workflow(self) -> None:
        """Add Snakemake, the workflow, its rules and their scripts."""
        versions = next(iter(self._records.values())).environment.packages
        engine = {
            "@type": ["SoftwareApplication", "ComputerLanguage"],
            "name": "Snakemake",
            "url": self._add(SNAKEMAKE, "WebPage", name="Snakemake"),
            "version": versions.get("snakemake", "not recorded"),
        }
        self._crate.add(ComputerLanguage(self._crate, "#snakemake", engine))
        for position, (rule, script) in enumerate(self._scripts.items()):
            self._files[script]["softwareRequirements"] = self._files["requirements.lock"]
            step = {"position": position, "workExample": self._files[script]}
            self._add(f"#step/{rule}", "HowToStep", name=rule, **step)
        workflow = self._files["Snakefile"].properties() | {
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "hasPart": [self._files[script] for script in sorted(set(self._scripts.values()))],
            "step": self._entities("#step/"),
            "creator": self._crate.root_dataset["author"],
        }
        self._files["Snakefile"] = self._crate.add_workflow(
            self._paths["Snakefile"],
            "Snakefile",
            properties=workflow,
            main=True,
            lang=self._crate.get("#snakemake"),
        )

    def _add_job(self, stem: str, record: Record) -> None:
        value = canonical_json(record.spec)
        spec = self._add(f"#spec/{stem}", "PropertyValue", name=f"spec of {stem}", value=value)
        sources = [] if record.inputs else map(self._add_source, record.lineage.sources)
        seeds = canonical_json(record.seeds)
        job = {
            "name": f"{record.rule}: {stem}",
            "description": f"{record.lineage.status}; {record.determinism}; seeds: {seeds}",
            "object": [spec, *map(self._file, record.inputs), *sources],
            "result": [*map(self._file, record.outputs)],
            "startTime": record.started,
            "endTime": record.ended,
        }
        script = self._files[self._scripts[record.rule]]
        action = self._crate.add_action(script, f"#job/{stem}", properties=job | COMPLETED)
        control = {"@type": "ControlAction", "name": f"Snakemake runs {job['name']}"}
        step = self._crate.get(f"#step/{record.rule}")
        self._crate.add_action(step, f"#control/{stem}", action, properties=control)

    def _add_source(self, source: Mapping[str, Any]) -> Entity:
        return self._add(
            f"#source/{source['id']}",
            "CreativeWork",
            name=source["content"]["title"],
            identifier=source["id"],
            description=source["origin"],
            license=source["licence"],
            citation=source["citation"],
        )

    def _file(self, file: File) -> Entity:
        """Return a file of the bundle, or an entity that stands for one that the bundle leaves
        out.
        """
        absent = {"description": "left out of the bundle", "sha256": file.sha256}
        return self._files.get(file.path) or self._add(
            f"#not-in-the-bundle/{file.path}", "CreativeWork", name=file.path, **absent
        )

    def _add_run(self) -> None:
        """Add the run as a whole, from its sources to its results."""
        prefixes = ("results/index.", "results/claims.")
        results = [
            entity
            for name, entity in self._files.items()
            if name.startswith(prefixes) and not name.endswith(RECORD_SUFFIX)
        ]
        properties = {
            "name": "Run of the workflow",
            "object": self._entities("#source/"),
            "result": results,
            "startTime": min(record.started for record in self._records.values()),
            "endTime": self._published,
        }
        run = self._crate.add_action(
            self._crate.mainEntity, "#run", properties=properties | COMPLETED
        )
        self._crate.add_action(
            self._crate.get("#snakemake"),
            "#organize",
            self._entities("#control/"),
            run,
            properties={"@type": "OrganizeAction", "name": "Run of the workflow by Snakemake"},
        )


def _media_type(name: str) -> str:
    suffix = Path(name).suffix
    return MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"
