"""Export: results, records and code as a Workflow Run RO-Crate (Provenance Run Crate 0.5) in one
zip, with PROV-JSON.
"""

from __future__ import annotations

import json
import mimetypes
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, atomic, sha256_file
from isotropy.provenance import audit, verify_bundle
from isotropy.provenance.chain import Chain, stem_of
from isotropy.provenance.checkout import Checkout
from isotropy.provenance.code import script_of
from isotropy.provenance.record import Record
from isotropy.provenance.verify_bundle import LEDGER, METADATA, read_ledger
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
"""RO-Crate's own, and the one term of the workflow-run context that is used."""
PROV = "prov.json"
CHECKER = "verify_bundle.py"

CODE = (
    "Snakefile",
    "config.yaml",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "README.md",
    "LICENSE",
    "CITATION.cff",
)
CODE_SUFFIXES = {".py", ".pyi", ".smk", ".yaml", ".html", ".csv", ".json", ".md", ".png"}
CODE_FOLDERS = (
    "rules",
    "scripts",
    "isotropy",
    "envs",
    "config",
    "profiles",
    "schemas",
    "published",
    "docs",
)
Entity = dict[str, Any]


def export(root: Path, project: Path, bundle: Path, *, with_data: bool) -> tuple[int, int, str]:
    """Write a bundle.

    Args:
        root: the folder of a finished run.
        project: the checkout with the code that made it.
        bundle: the zip to write.
        with_data: take fetched sources, prepared data and embeddings in.

    Returns:
        Number of files, size in bytes, head of the ledger.

    Raises:
        IsotropyError: a result is not what its record says, or the checkout's code is not what made
            it, or there is none; or the bundle cannot be written there. Nothing is written.
    """
    _check_target(bundle)
    findings = audit.verify_all(root, Checkout(project))
    if bad := [f for f in findings if f.state not in audit.GOOD | {"behind", "outside"}]:
        raise IsotropyError(
            f"{len(bad)} findings, such as {bad[0].path}: {bad[0].state}; isotropy audit verify "
            "--all names all"
        )
    chain = Chain(root)
    records = {name: record for name in chain.names() if (record := chain.record(name)) is not None}
    if not records:
        raise IsotropyError(f"{root / RESULTS} holds no records: run the workflow first")
    files = _code(project) | _results(root, records, with_data)
    digests = {name: sha256_file(path) for name, path in files.items()}
    ledger = (root / RESULTS / LEDGER).read_bytes()
    texts = {PROV: _pretty(prov(records))}
    ended = max(record.ended for record in records.values())
    texts[METADATA] = _pretty(crate(records, files, digests, texts, project, ended))
    with (
        atomic(bundle) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in sorted(files.keys() | texts.keys()):
            # One date for all: the same run gives the same bundle.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, texts[name] if name in texts else files[name].read_bytes())
    return len(files) + len(texts), bundle.stat().st_size, read_ledger(ledger)[2][-1]


def crate(
    records: Mapping[str, Record],
    files: Mapping[str, Path],
    digests: Mapping[str, str],
    texts: Mapping[str, bytes],
    project: Path,
    published: str,
) -> dict[str, Any]:
    """The crate's metadata as JSON-LD.

    Args:
        records: records by name.
        files: files of the bundle, by name in it.
        digests: their sha256.
        texts: files that are made for the bundle.
        project: the checkout.
        published: date of the crate, ISO 8601.
    """
    citation = yaml.safe_load((project / "CITATION.cff").read_text("utf8"))
    people = [_person(author) for author in citation.get("authors", [])]
    licence: Entity = {
        "@id": f"https://spdx.org/licenses/{citation['license']}",
        "@type": "CreativeWork",
        "name": citation["license"],
    }
    rules = {
        record.rule: script_of(project, record.rule).relative_to(project.resolve()).as_posix()
        for record in records.values()
    }
    graph: dict[str, Entity] = {}
    add = _adder(graph)
    add(
        METADATA,
        "CreativeWork",
        about=_ref("./"),
        conformsTo=[_ref("https://w3id.org/ro/crate/1.1"), _ref(list(PROFILES)[-1])],
    )
    controls = [f"#control/{stem_of(name)}" for name in records]
    add(
        "./",
        "Dataset",
        name=citation["title"],
        description="Results of a run with a record of each job. Every number can be followed to "
        "the bytes it came from.",
        datePublished=published,
        license=_ref(licence["@id"]),
        author=_refs(p["@id"] for p in people),
        conformsTo=_refs(PROFILES),
        hasPart=_refs([*sorted(files), *sorted(texts)]),
        mainEntity=_ref("Snakefile"),
        mentions=_refs(
            ["#run", "#organize", *(f"#job/{stem_of(name)}" for name in records), *controls]
        ),
    )
    for entity in [licence, *people]:
        graph[entity["@id"]] = entity
    for profile, name in PROFILES.items():
        add(profile, "CreativeWork", name=name, version=profile.rsplit("/", 1)[-1])
    for name, path in files.items():
        add(name, "File", name=name, **_described(name, path.stat().st_size), sha256=digests[name])
        if not name.startswith(f"{RESULTS}/"):
            graph[name]["license"] = _ref(licence["@id"])
    for name, data in texts.items():
        add(
            name,
            "File",
            name=name,
            **_described(name, len(data)),
            sha256=verify_bundle.line_sha256(data),
        )
    versions = next(iter(records.values())).environment.packages
    add(
        "#snakemake",
        ["SoftwareApplication", "ComputerLanguage"],
        name="Snakemake",
        url=_ref("https://snakemake.readthedocs.io"),
        version=str(versions.get("snakemake", "not recorded")),
    )
    add("https://snakemake.readthedocs.io", "WebPage", name="Snakemake")
    graph["Snakefile"] |= {
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "programmingLanguage": _ref("#snakemake"),
        "hasPart": _refs(sorted(set(rules.values()))),
        "step": _refs(f"#step/{rule}" for rule in rules),
        "creator": _refs(p["@id"] for p in people),
    }
    for position, (rule, script) in enumerate(rules.items()):
        add(f"#step/{rule}", "HowToStep", name=rule, position=position, workExample=_ref(script))
        graph[script] |= {
            "@type": ["File", "SoftwareSourceCode"],
            "softwareRequirements": _ref("requirements.lock"),
        }
    graph["requirements.lock"]["@type"] = ["File", "SoftwareApplication"]
    for name, record in records.items():
        _add_job(graph, stem_of(name), record, rules[record.rule])
    add(
        "#organize",
        "OrganizeAction",
        name="Run of the workflow by Snakemake",
        instrument=_ref("#snakemake"),
        object=_refs(controls),
        result=_ref("#run"),
    )
    sources = sorted({i for i in graph if i.startswith("#source/")})
    ends = sorted(
        f
        for f in files
        if f.startswith(("results/index.", "results/claims.")) and not f.endswith(".record.json")
    )
    add(
        "#run",
        "CreateAction",
        name="Run of the workflow",
        instrument=_ref("Snakefile"),
        object=_refs(sources),
        result=_refs(ends),
        startTime=min(r.started for r in records.values()),
        endTime=published,
        actionStatus="http://schema.org/CompletedActionStatus",
    )
    return {"@context": CONTEXT, "@graph": list(graph.values())}


def prov(records: Mapping[str, Record]) -> dict[str, Any]:
    """The same lineage as PROV-JSON: files are entities, jobs are activities."""
    told: dict[str, dict[str, Any]] = {
        k: {} for k in ("entity", "activity", "used", "wasGeneratedBy", "wasDerivedFrom")
    }
    for name, record in records.items():
        job = f"run:{stem_of(name)}"
        told["activity"][job] = {
            "prov:startTime": record.started,
            "prov:endTime": record.ended,
            "run:rule": record.rule,
            "run:record": name,
            "run:spec": canonical_json(record.spec),
        }
        for output in record.outputs:
            entity = f"file:{output.path}"
            told["entity"][entity] = {
                "run:sha256": output.sha256,
                "run:bytes": output.bytes,
                "run:status": record.lineage.status,
            }
            told["wasGeneratedBy"][f"_:g{len(told['wasGeneratedBy'])}"] = {
                "prov:entity": entity,
                "prov:activity": job,
            }
        for read in record.inputs:
            told["used"][f"_:u{len(told['used'])}"] = {
                "prov:activity": job,
                "prov:entity": f"file:{read.path}",
            }
        for source in [] if record.inputs else record.lineage.sources:
            origin = f"source:{source['id']}"
            told["entity"][origin] = {
                "prov:label": source["content"]["title"],
                "run:origin": source["origin"],
                "run:licence": source["licence"],
            }
            for output in record.outputs:
                told["wasDerivedFrom"][f"_:d{len(told['wasDerivedFrom'])}"] = {
                    "prov:generatedEntity": f"file:{output.path}",
                    "prov:usedEntity": origin,
                }
    prefixes = {
        "run": "urn:isotropy:run:",
        "file": "urn:isotropy:file:",
        "source": "urn:isotropy:source:",
    }
    return {"prefix": prefixes, **told}


def _add_job(graph: dict[str, Entity], stem: str, record: Record, script: str) -> None:
    add = _adder(graph)
    spec, job = f"#spec/{stem}", f"#job/{stem}"
    add(spec, "PropertyValue", name=f"spec of {stem}", value=canonical_json(record.spec))
    used = [spec]
    for read in record.inputs:
        used.append(_file_or_absent(graph, read.path, read.sha256))
    for source in [] if record.inputs else record.lineage.sources:
        used.append(f"#source/{source['id']}")
        add(
            used[-1],
            "CreativeWork",
            name=source["content"]["title"],
            identifier=source["id"],
            description=source["origin"],
            license=source["licence"],
            citation=source["citation"],
        )
    made = [_file_or_absent(graph, f.path, f.sha256) for f in record.outputs]
    about = f"{record.lineage.status}; {record.determinism}; seeds: {canonical_json(record.seeds)}"
    add(
        job,
        "CreateAction",
        name=f"{record.rule}: {stem}",
        description=about,
        instrument=_ref(script),
        object=_refs(used),
        result=_refs(made),
        startTime=record.started,
        endTime=record.ended,
        actionStatus="http://schema.org/CompletedActionStatus",
    )
    add(
        f"#control/{stem}",
        "ControlAction",
        name=f"Snakemake runs {record.rule}: {stem}",
        instrument=_ref(f"#step/{record.rule}"),
        object=_ref(job),
    )


def _file_or_absent(graph: dict[str, Entity], path: str, sha256: str) -> str:
    """The id of a file: its name in the bundle, or that of a stand-in for one that was left out."""
    if path in graph:
        return path
    absent = f"#not-in-the-bundle/{path}"
    graph[absent] = {
        "@id": absent,
        "@type": "CreativeWork",
        "name": path,
        "description": "left out of the bundle",
        "sha256": sha256,
    }
    return absent


def _check_target(bundle: Path) -> None:
    if bundle.suffix != ".zip":
        raise IsotropyError(f"{bundle}: the name of a bundle ends in .zip")
    if bundle.is_dir() or not bundle.parent.is_dir():
        raise IsotropyError(f"{bundle} is a folder, or in a folder that is not there")


def _code(project: Path) -> dict[str, Path]:
    """The project's own files, by kind: what else lies in its folders stays there."""
    found = [project / name for name in CODE]
    for folder in CODE_FOLDERS:
        here = [
            p for p in (project / folder).rglob("*") if p.is_file() and p.suffix in CODE_SUFFIXES
        ]
        found += [
            p
            for p in here
            if not any(part.startswith(".") for part in p.relative_to(project).parts)
        ]
    files = {p.relative_to(project).as_posix(): p for p in found if p.is_file()}
    return files | {CHECKER: Path(verify_bundle.__file__)}


def _results(root: Path, records: Mapping[str, Record], with_data: bool) -> dict[str, Path]:
    names = [*records, (RESULTS / LEDGER).as_posix()]
    for name, record in records.items():
        if with_data or stem_of(name).split("/")[0] not in verify_bundle.DATA:
            names += [f.path for f in record.outputs]
    return {name: root / name for name in names if (root / name).is_file()}


def _adder(graph: dict[str, Entity]) -> Any:
    def add(identifier: str, kind: str | list[str], /, **properties: Any) -> None:
        graph[identifier] = {"@id": identifier, "@type": kind, **properties}

    return add


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


def _described(name: str, size: int) -> Entity:
    known = {
        ".parquet": "application/vnd.apache.parquet",
        ".md": "text/markdown",
        ".yaml": "application/yaml",
        ".smk": "text/x-python",
        ".jsonl": "application/jsonl",
        ".safetensors": "application/octet-stream",
    }
    kind = known.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "text/plain"
    return {"contentSize": str(size), "encodingFormat": kind}


def _pretty(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
