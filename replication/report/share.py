"""Results that travel: the report on a paper as a file, and the pages as a folder for any host of
static files.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS, record_path
from replication.papers.registry import KEYS
from replication.plan.page_spec import PageSpec
from replication.plan.pages import REPORT
from replication.provenance.audit import require_intact
from replication.provenance.identity import MARK
from replication.provenance.record import read_record
from replication.report import report
from replication.report.site import INDEX, render

Format = Literal["html", "md"]
_LINK = re.compile(r'\s(?:href|src|content|data-[a-z-]+)="([^"#\s]{1,255})(?:#[^"]*)?"')
"""What may name a file: links, pictures, and what scripts load."""


def report_text(root: Path, key: str, kind: Format, folder: Path) -> str:
    """Make the report on a paper from the tables of a finished study.

    Args:
        root: the folder of the run.
        key: key of the paper.
        kind: HTML or Markdown.
        folder: the folder that its links start from.

    Raises:
        IsotropyError: no such paper or study.
        NotIntact: the page of the report, or what it was made from, is not what was written.
    """
    if key not in KEYS:
        raise IsotropyError(f"expected a paper, got {key!r}: {suggest(key, KEYS)}")
    folder = folder.resolve()
    with chdir(root):
        page = Path(RESULTS, f"site/{key}{REPORT}.html")
        require_intact(Path(), [page])
        if not page.is_file():
            raise IsotropyError(f"{page} is missing: run the workflow first")
        record = read_record(record_path(page))
        spec = PageSpec.model_validate(record.spec)
        content = report.content(
            spec, lambda name: [Path(path) for path in record.input_names[name]], folder
        )
        mark = MARK + record.id
        if kind == "md":
            return f"{content['files']['markdown']}\n<!-- {mark} -->\n"
        return render(spec, content, folder, mark)


def _linked(start: Path) -> set[Path]:
    """A page and all files of the results that it leads to."""
    linked, waiting = set[Path](), [start]
    while waiting:
        page = waiting.pop()
        if page in linked:
            continue
        linked.add(page)
        if page.suffix != ".html" or not page.is_file():
            continue
        for value in _LINK.findall(page.read_text("utf8", errors="replace")):  # not checked yet
            path = Path(os.path.normpath(page.parent / unquote(html.unescape(value))))
            if path.is_relative_to(RESULTS) and path.is_file():
                waiting.append(path)
    return linked


def export_site(root: Path, folder: Path) -> int:
    """Copy the pages, and all files that they link to, into a new or empty folder, if the audit
    finds these intact; return how many.

    Raises:
        IsotropyError: no results, or another folder.
        NotIntact: a file that is not what was written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise IsotropyError(f"{folder} exists: name a new or empty folder")
    with chdir(root):
        start = RESULTS / INDEX
        files = sorted(_linked(start))
        require_intact(Path(), files)
        if not start.is_file():
            raise IsotropyError(f"{start} is missing: run the workflow first")
    for file in files:
        target = folder / file.relative_to(RESULTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, target)
    return len(files)
