"""Infrastructure: modules that jobs need and that cannot change the bytes of an output.

They are no part of a job's code identity, so an edit of them makes nothing again. Records hold
their digests, and the audit names what has changed. A module belongs here only if nothing that it
returns reaches an output.
"""

from __future__ import annotations

INFRASTRUCTURE = {
    "isotropy.job": "checks, locks, logs and records what a script does; what outputs hold of it"
    " (id, lineage) is made by modules that count",
    "isotropy.errors": "names mistakes: a job that ends with an error has no outputs",
    "isotropy.locks": "waits or refuses, and changes nothing that is written",
    "isotropy.provenance.audit": "judges files; the summary of a run repeats its findings as of the"
    " time when it was made",
    "isotropy.provenance.chain": "finds records; the summary of a run repeats what they hold",
    "isotropy.provenance.checkout": "compares results with a checkout, which no job does",
    "isotropy.provenance.code": "digests code",
    "isotropy.provenance.compare": "compares records for the audit",
    "isotropy.provenance.environment": "describes the machine and the packages, for the record",
    "isotropy.provenance.format": "digests records and ledgers, which are no outputs",
    "isotropy.provenance.infrastructure": "names modules",
    "isotropy.provenance.ledger": "notes in the ledger that a record was written",
    "isotropy.provenance.record": "writes and reads records; what outputs hold of one, its id and"
    " lineage, is made by `identity` and `lineage`",
    "isotropy.provenance.syntax": "digests code",
}
"""Module -> why it cannot change the bytes of an output."""
