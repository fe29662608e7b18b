"""audit: checks and packs the finished study. Needs: all results. Gives: a report on the terminal;
results/bundle.zip. These rules make no results, and therefore have no record."""


localrules:
    audit,
    crate,


rule audit:
    """Verify every result and everything that it was made from, back to the sources."""
    input:
        "results/index.html",
    log:
        "results/logs/audit.log",
    run:
        shell(f"{AUDIT} verify --all {PLACES} 2>&1 | tee {{log:q}}")


rule crate:
    """Pack everything except third-party data into an RO-Crate, results/bundle.zip."""
    input:
        "results/index.html",
    log:
        "results/logs/crate.log",
    run:
        shell(f"{AUDIT} export {PLACES} 2>&1 | tee {{log:q}}")
