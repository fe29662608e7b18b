"""Infrastructure: modules that jobs need and that cannot change the bytes of an output.

They are not part of a job's code identity, so that editing them does not rerun jobs. Records
contain their digests, and the audit lists those that have changed. A module belongs here only if
nothing that it returns reaches an output.
"""

from __future__ import annotations

INFRASTRUCTURE = {
    "isotropy.job": "checks, locks, logs and records what a script does; what outputs contain of it"
    " (id, lineage) is made by modules that are part of the code identity",
    "isotropy.errors": "formats error messages: a job that ends with an error has no outputs",
    "isotropy.locks": "waits or refuses, and does not change what is written",
    "isotropy.provenance.audit": "judges files; the summary of a run repeats its findings as of the"
    " time of the summary",
    "isotropy.provenance.chain": "finds records; the summary of a run repeats their content",
    "isotropy.provenance.checkout": "compares results with a checkout, which no job does",
    "isotropy.provenance.code": "digests code",
    "isotropy.provenance.compare": "compares records for the audit",
    "isotropy.provenance.environment": "describes the machine and the packages, for the record",
    "isotropy.provenance.format": "digests records and ledgers, which are not outputs",
    "isotropy.provenance.infrastructure": "lists modules",
    "isotropy.provenance.ledger": "writes to the ledger, which is not an output",
    "isotropy.provenance.record": "writes and reads records; what outputs contain of one (id, "
    "lineage) is made by `identity` and `lineage`",
    "isotropy.provenance.syntax": "digests code",
}
"""Module -> why it cannot change the bytes of an output."""
