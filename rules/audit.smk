"""audit: of the finished study. Needs: everything. Gives: a report on the terminal;
results/bundle.zip. These rules make no results, and so have no record: they check, or pack, what is
there."""


localrules:
    audit,
    crate,


rule audit:
    """Check every result, back to its sources."""
    input:
        "results/index.html",
    log:
        "results/logs/audit.log",
    run:
        run_audit(log[0], "verify", "--all")


rule crate:
    """All but other people's data, as an RO-Crate: results/bundle.zip."""
    input:
        "results/index.html",
    log:
        "results/logs/crate.log",
    run:
        run_audit(log[0], "export")
