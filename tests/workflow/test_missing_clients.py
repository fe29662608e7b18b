"""Tests that need a package client or a registry, on a machine that lacks it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Workflow, copy_checkout


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [("npm", "npm is not on PATH"), ("registry", "registry is not reached")],
)
def test_what_needs_a_missing_client_or_registry_is_skipped(
    lacking: str, reason: str, session_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Brown corpus is a package of npm."""
    if lacking == "npm":
        monkeypatch.setenv("PATH", str(programs_without_npm(session_folder / "bin")))
    else:
        monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    study = Workflow(copy_checkout(session_folder / "checkout"))
    with pytest.raises(pytest.skip.Exception, match=f"source brown: .*{reason}"):
        study.done("--", "results/fetch/brown")


def programs_without_npm(folder: Path) -> Path:
    """Fill a folder with links to all programs on the PATH but npm, and return it."""
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.glob("*"):
            link = folder / program.name
            if program.name != "npm" and not link.is_symlink():
                link.symlink_to(program)
    return folder
