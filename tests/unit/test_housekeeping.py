"""What stands around the code: the workflow catalog, GitHub's files, a release's metadata, each
checked by its own linter.
"""

from __future__ import annotations

from pathlib import Path

import yaml


def test_workflow_catalog_lists_the_workflow(project: Path) -> None:
    """By the fields and conditions of the catalog's documentation and of the script that makes it
    (`scripts/generate-catalog.py` of snakemake/snakemake-workflow-catalog); it has no schema.
    """
    settings = yaml.safe_load((project / ".snakemake-workflow-catalog.yml").read_text("utf8"))
    assert settings.keys() == {"usage"}
    usage = settings["usage"]
    assert usage.keys() <= {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["software-stack-deployment"].keys() <= {"conda", "apptainer", "apptainer+conda"}
    readme = (project / "README.md").read_text("utf8").lower()
    assert "snakemake" in readme
    assert "workflow" in readme
    assert (project / "Snakefile").exists()
    assert any((project / "rules").glob("*.smk"))
    assert (project / "config/README.md").exists()
