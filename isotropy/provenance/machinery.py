"""Which modules can change the bytes of results, where that is not plain from imports.

A rule's code is its script and all that the script imports, but for the machinery: modules that
every job needs and that cannot change what it writes. They, and what only they import, are digested
apart. An edit of them makes nothing again; records hold their digests, and the audit shows what has
changed.

A module belongs in MACHINERY only if none of what it returns reaches an output. What does is taken
out of it, into a module of COUNTED_WITH_EVERY_JOB.
"""

from __future__ import annotations

OF_SUMMARIES = {
    "isotropy.provenance.audit": "says the state of files, which the summary of a run repeats as of"
    " the time when it was made",
    "isotropy.provenance.chain": "finds records; the summary of a run repeats what they say",
}
"""What only the summary of a run needs of the machinery."""

MACHINERY = {
    **OF_SUMMARIES,
    "isotropy.job": "checks, locks, logs and records what a script does; what scripts get of it"
    " and write down (id, lineage, paths in order, threads) is made by modules that count",
    "isotropy.errors": "says what is wrong: a job that ends with an error has no outputs",
    "isotropy.forkserver": "starts a script in a process that has loaded the libraries already",
    "isotropy.locks": "waits or refuses, and changes nothing that is written",
    "isotropy.provenance.code": "digests code",
    "isotropy.provenance.syntax": "digests code",
    "isotropy.provenance.slices": "digests code",
    "isotropy.provenance.ruletext": "digests rules",
    "isotropy.provenance.machinery": "names modules",
    "isotropy.provenance.environment": "describes what did the work, for the record",
    "isotropy.provenance.format": "digests records and ledgers, which are no outputs",
    "isotropy.provenance.ledger": "notes in the ledger that a record was written",
    "isotropy.provenance.record": "writes and reads records; what outputs hold of one, its id and"
    " lineage, is made by `identity` and `lineage`",
}
"""Module -> why it cannot change the bytes of an output."""

COUNTED_WITH_EVERY_JOB = {
    "isotropy.files": "lists the files of a folder, whose digests are part of the id; writes JSON",
    "isotropy.printable": "makes texts of Markdown tables safe; logs take it as well",
    "isotropy.provenance.identity": "makes the id that outputs carry",
    "isotropy.provenance.lineage": "decides what is a stand-in and what its sources are called,"
    " which outputs repeat",
    "isotropy.scrub": "cleans specs, which are part of the id, and lineages, which outputs repeat",
    "isotropy.spec": "parses specs, and writes the canonical JSON that ids digest",
    "isotropy.threads": "limits threads: sums in another order differ in their last digits",
}
"""Modules that count for every rule, though scripts reach some only through the machinery -> why.
"""
