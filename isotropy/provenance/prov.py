"""The lineage of a run as PROV-JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotropy.provenance.chain import stem_of
from isotropy.provenance.record import Record
from isotropy.spec import canonical_json

PREFIXES = {
    "run": "urn:isotropy:run:",
    "file": "urn:isotropy:file:",
    "source": "urn:isotropy:source:",
}
Relations = dict[str, dict[str, Any]]


def prov(records: Mapping[str, Record]) -> dict[str, Any]:
    """The lineage as PROV-JSON: files are entities, jobs are activities."""
    kinds = ("entity", "activity", "used", "wasGeneratedBy", "wasDerivedFrom")
    found: Relations = {kind: {} for kind in kinds}
    for name, record in records.items():
        _add_job(found, name, record)
        for source in [] if record.inputs else record.lineage.sources:
            _add_source(found, record, source)
    return {"prefix": PREFIXES, **found}


def _add_job(found: Relations, name: str, record: Record) -> None:
    job = f"run:{stem_of(name)}"
    found["activity"][job] = {
        "prov:startTime": record.started,
        "prov:endTime": record.ended,
        "run:rule": record.rule,
        "run:record": name,
        "run:spec": canonical_json(record.spec),
    }
    for output in record.outputs:
        entity = f"file:{output.path}"
        found["entity"][entity] = {
            "run:sha256": output.sha256,
            "run:bytes": output.bytes,
            "run:status": record.lineage.status,
        }
        generated = {"prov:entity": entity, "prov:activity": job}
        found["wasGeneratedBy"][f"_:g{len(found['wasGeneratedBy'])}"] = generated
    for read in record.inputs:
        used = {"prov:activity": job, "prov:entity": f"file:{read.path}"}
        found["used"][f"_:u{len(found['used'])}"] = used


def _add_source(found: Relations, record: Record, source: dict[str, Any]) -> None:
    origin = f"source:{source['id']}"
    found["entity"][origin] = {
        "prov:label": source["content"]["title"],
        "run:origin": source["origin"],
        "run:licence": source["licence"],
    }
    for output in record.outputs:
        derived = {"prov:generatedEntity": f"file:{output.path}", "prov:usedEntity": origin}
        found["wasDerivedFrom"][f"_:d{len(found['wasDerivedFrom'])}"] = derived
