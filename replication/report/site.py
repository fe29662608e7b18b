"""Layout, style and navigation of all pages of the results, and their content security policy: no
requests to other sites, no scripts but the site's own.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from replication.palette import OURS, SIGNS, STATUS, VERDICTS, WORDS
from replication.papers.locations import figure_file
from replication.plan.page_spec import PageSpec

FOLDER = Path(__file__).parent
SCRIPTS = ("site.js",)
"""Scripts of every page."""
SORTABLE = ("site.sortable.js", "site.sortable.a11y.js")
"""Scripts of pages with tables: sortable-tablesort 4.1.7 by Jonas Earendel, in the public domain
(Unlicense)."""
INDEX = "index.html"


def render(
    spec: PageSpec,
    content: dict[str, Any],
    folder: Path,
    mark: str,
    scripts: tuple[str, ...] = (),
) -> str:
    """Render a page as HTML; all values are escaped.

    Args:
        spec: the spec of the page; its template is `<kind>.html`.
        content: variables of the template, by name.
        folder: folder of the page, relative to the folder of the run.
        mark: the mark of the page's record.
        scripts: scripts of this page, besides SCRIPTS.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"signs": SIGNS, "word_of": {g: w[0] for g, w in WORDS.items()}}
    code = [(FOLDER / name).read_text("utf8") for name in (*SCRIPTS, *scripts)]
    up = os.path.relpath("results", folder) + "/"
    return environment.get_template(f"{spec.kind}.html").render(
        spec=spec,
        mark=mark,
        up="" if up == "./" else up,
        navigation=_navigation(spec),
        policy=_policy(code, allow_files=spec.kind in ("claims", "paper")),
        style=Markup((FOLDER / "site.css").read_text("utf8")),  # noqa: S704 - our own files
        code=[Markup(text) for text in code],  # noqa: S704
        colours={**STATUS, **VERDICTS, "ours": OURS, "control": OURS},
        share_picture=_share_picture(spec, folder),
        **content,
    )


def _share_picture(spec: PageSpec, folder: Path) -> str | None:
    """The picture beside a link to the page: that of its paper, else that of the first paper."""
    leads = {paper.key: paper.lead for paper in spec.papers if paper.lead}
    lead = leads.get(spec.paper or "", next(iter(leads.values()), None))
    return lead and os.path.relpath(figure_file(lead), folder)


def _navigation(spec: PageSpec) -> list[tuple[str, str, bool]]:
    """Links of the navigation: path below the results, name, and whether it is this page. All fit
    one line of a desktop's screen: papers are called by their authors, with the year where several
    have the same.
    """
    authors = {paper.key: re.sub(r" \d{4}$", "", paper.name) for paper in spec.papers}
    counts = Counter(authors.values())
    papers = [
        (
            f"site/{paper.key}.html",
            authors[paper.key] if counts[authors[paper.key]] == 1 else paper.name,
            spec.paper == paper.key,
        )
        for paper in spec.papers
    ]
    pages = [
        (f"site/{kind}.html", name, spec.kind == kind)
        for kind, name in (
            ("claims", "Statements"),
            ("scorecard", "Scorecard"),
            ("sources", "Sources"),
            ("provenance", "Provenance"),
        )
    ]
    return [(INDEX, "Overview", spec.kind == "overview"), *papers, *pages]


def _policy(code: list[str], *, allow_files: bool) -> str:
    """Content security policy of a page: pictures beside it, its own style, and these scripts;
    with `allow_files` also script files beside it.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code)
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    file_sources = " 'self' file:" if allow_files else ""
    return (
        f"default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'; "
        f"script-src {scripts}{file_sources}; base-uri 'none'; form-action 'none'"
    )


PIXELS_PER_CSS_PIXEL = 2
"""Figures have twice the resolution of a usual screen."""


def size(png: Path) -> tuple[int, int]:
    """Width and height of a PNG on a page, from its header (PNG specification, 11.2.1). They keep
    the layout fixed while pictures load.
    """
    with png.open("rb") as stream:
        width, height = struct.unpack(">II", stream.read(24)[16:])
    return width // PIXELS_PER_CSS_PIXEL, height // PIXELS_PER_CSS_PIXEL
