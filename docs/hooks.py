"""Hooks of MkDocs: pages from outside `docs/`, and the reference of the library.

Links are written as they work in the checkout; here they are turned to the pages of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CITATION.cff": "CITATION.cff",
    "config/README.md": "configuration.md",
}
"""File of the checkout -> file of the site."""
REFERENCE = [
    "isotropy",
    "isotropy.metrics",
    "isotropy.transforms",
    "isotropy.losses",
    "isotropy.transform_files",
]
"""Modules whose docstrings are pages; with those of `isotropy.integrations`."""
LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference to the navigation."""
    section = next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    section += [{module: _page(module)} for module in _modules()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside `docs/`, and a page for each module of the reference."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, abs_src_path=str(PROJECT / source)))
    for module in _modules():
        stub = PROJECT / module.replace(".", "/") / "__init__.pyi"
        # What a lazy package offers is in its stub, read by its import lines
        names = (
            re.findall(r"from (\S+) import \(?\s*(\w+)", stub.read_text()) if stub.exists() else []
        )
        shown = [f"::: {'.'.join(name)}" for name in names] or [
            f"::: {module}\n    options: {{show_root_heading: false, show_root_toc_entry: false}}"
        ]
        text = "\n\n".join([f"# {module}", *shown, ""])
        files.append(File.generated(config, _page(module), content=text))
    return files


def _modules() -> list[str]:
    integrations = sorted((PROJECT / "isotropy/integrations").glob("[!_]*.py"))
    return [*REFERENCE, *(f"isotropy.integrations.{path.stem}" for path in integrations)]


def _page(module: str) -> str:
    return f"reference/{module.removeprefix('isotropy.')}.md"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the checkout to links between files of the site."""
    path = page.file.src_uri
    source = {target: name for name, target in OUTSIDE.items()}.get(path, f"docs/{path}")

    def turn(match: re.Match[str]) -> str:
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        target = OUTSIDE.get(linked, linked.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(path) or '.')}{match[2] or ''})"

    return LINK.sub(turn, markdown)
