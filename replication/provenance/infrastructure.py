"""Infrastructure: modules that jobs need and that cannot change the bytes of an output.

They are not part of a job's code identity, so that editing them does not rerun jobs. Records
contain their digests, and the audit lists those that have changed. A module belongs here only if
nothing that it returns reaches an output.
"""

from __future__ import annotations

INFRASTRUCTURE = {
    "replication.job": "checks, locks, logs and records what a script does; what outputs contain"
    " of it (id, lineage) is made by modules that are part of the code identity",
    "isotropy.errors": "formats error messages: a job that ends with an error has no outputs",
    "replication.locks": "waits or refuses, and does not change what is written",
    "replication.provenance.audit": "judges files; the summary of a run repeats its findings as of"
    " the time of the summary",
    "replication.provenance.chain": "finds records; the summary of a run repeats their content",
    "replication.provenance.checkout": "compares results with a checkout, which no job does",
    "replication.provenance.code": "digests code",
    "replication.provenance.compare": "compares records for the audit",
    "replication.provenance.environment": "describes the machine and the packages, for the record",
    "replication.provenance.format": "digests records and ledgers, which are not outputs",
    "replication.provenance.infrastructure": "lists modules",
    "replication.provenance.ledger": "writes to the ledger, which is not an output",
    "replication.provenance.record": "writes and reads records; what outputs contain of one (id, "
    "lineage) is made by `identity` and `lineage`",
    "replication.provenance.syntax": "digests code",
}
"""Module -> why it cannot change the bytes of an output."""
