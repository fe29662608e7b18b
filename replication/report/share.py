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
from urllib.parse import unquote, urljoin, urlsplit

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS, record_path, sha256_file
from replication.papers.registry import KEYS
from replication.plan.page_spec import PageSpec
from replication.plan.pages import REPORT
from replication.provenance.format import LEDGER, ledger_bytes, read_ledger
from replication.provenance.identity import MARK, digests, require_unchanged
from replication.provenance.record import Record, read_record
from replication.report import report
from replication.report.site import INDEX, render

Format = Literal["html", "md"]
README = "README.md"
DIGESTS = "files.sha256"
"""Digest and path of each exported file, as `sha256sum --check` reads them."""
_LINK = re.compile(r'\s(?:href|src|content|data-[a-z-]+)="([^"#\s]{1,255})(?:#[^"]*)?"')
"""What may name a file: links, pictures, and what scripts load."""
_PICTURE = re.compile(r'(<meta property="og:image" content=")([^"]*)(">)')


def report_text(root: Path, key: str, kind: Format, folder: Path) -> str:
    """Make the report on a paper from the tables of a finished study.

    Args:
        root: the folder of the run.
        key: key of the paper.
        kind: HTML or Markdown.
        folder: the folder that its links start from.

    Raises:
        IsotropyError: no such paper or study, or a table that has changed since its job wrote it.
    """
    if key not in KEYS:
        raise IsotropyError(f"expected a paper, got {key!r}: {suggest(key, KEYS)}")
    folder = folder.resolve()
    with chdir(root):
        record = _unchanged(Path(RESULTS, f"site/{key}{REPORT}.html"), outputs=False)
        spec = PageSpec.model_validate(record.spec)
        content = report.content(
            spec, lambda name: [Path(path) for path in record.input_names[name]], folder
        )
        mark = MARK + record.id
        if kind == "md":
            return f"{content['markdown']}\n<!-- {mark} -->\n"
        return render(spec, content, folder, mark)


def _unchanged(page: Path, *, outputs: bool) -> Record:
    """Return the record of a page whose inputs, or outputs, are as the record has them."""
    record = read_record(record_path(page))
    for path, digest in digests(record.outputs if outputs else record.inputs).items():
        require_unchanged(Path(path), digest)
    return record


def export_site(root: Path, folder: Path, base: str | None, bundle: Path | None) -> int:
    """Write the pages, and all files that they link to, into a folder; return how many.

    Args:
        root: the folder of a finished run.
        folder: a folder that is new, empty, or written by this function before; then what it wrote
            is replaced, and other files stay.
        base: the address that the folder will have. With it pages name their own address and
            that of their picture in full, as previews of links need it.
        bundle: the bundle of the same run, whose digest the README gives; None: there is none.

    Raises:
        IsotropyError: no results, a page that has changed, another folder, or no such address.
    """
    if base is not None and (
        urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).netloc
    ):
        raise IsotropyError(f"--base: expected an address such as https://example.org/, got {base}")
    results = root / RESULTS
    with chdir(root):
        pages = _linked(RESULTS / INDEX)
        for page in pages:
            if page.suffix == ".html":
                _unchanged(page, outputs=True)
        head = read_ledger(ledger_bytes(RESULTS / LEDGER))[2][-1]
    _clear(folder)
    written = {}
    for page in sorted(pages):
        name = page.relative_to(RESULTS).as_posix()
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".html" and base is not None:
            text = (root / page).read_text("utf8")
            target.write_text(_with_address(text, urljoin(base.rstrip("/") + "/", name)), "utf8")
        else:
            shutil.copyfile(results / name, target)
        written[name] = sha256_file(target)
    (folder / README).write_text(_readme(head, bundle, base), "utf8")
    written[README] = sha256_file(folder / README)
    lines = [f"{digest}  {name}\n" for name, digest in written.items()]
    (folder / DIGESTS).write_text("".join(lines), "utf8")
    return len(written) + 1


def _linked(start: Path) -> set[Path]:
    """A page and all files of the results that it leads to."""
    found, waiting = set[Path](), [start]
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        if not page.is_file():
            raise IsotropyError(f"{page} is missing: run the workflow first")
        found.add(page)
        if page.suffix != ".html":
            continue
        for value in _LINK.findall(page.read_text("utf8")):
            path = Path(os.path.normpath(page.parent / unquote(html.unescape(value))))
            if path.is_relative_to(RESULTS) and path.is_file():
                waiting.append(path)
    return found


def _clear(folder: Path) -> None:
    """Make a folder, or remove from one what was exported there before."""
    manifest = folder / DIGESTS
    if not manifest.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise IsotropyError(f"{folder} exists, and was not written by isotropy site")
        folder.mkdir(parents=True, exist_ok=True)
        return
    for line in manifest.read_text("utf8").splitlines():
        path = folder / line.partition("  ")[2]
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)
    manifest.unlink()


def _with_address(page: str, address: str) -> str:
    """A page with its own address, and that of its picture, in full."""
    url = html.escape(address)
    tag = f'<meta property="og:url" content="{url}">\n'
    page = _PICTURE.sub(lambda match: match[1] + urljoin(url, match[2]) + match[3], page)
    return page.replace('<meta property="og:type"', tag + '<meta property="og:type"', 1)


def _readme(head: str, bundle: Path | None, base: str | None) -> str:
    lines = [
        "# Results of a replication",
        "Open `index.html`, or put this folder on any host of static files: its pages ask for "
        "nothing from elsewhere. `sha256sum --check files.sha256` checks the files.",
        f"Digest of the study, the head of its ledger: `{head}`.",
    ]
    if bundle is not None:
        lines.append(
            f"All results, records and code are in `{bundle.name}`, which is not in this folder, "
            f"SHA-256 `{sha256_file(bundle)}`; `isotropy audit verify {bundle.name}` checks it."
        )
    if base is not None:
        lines.append(
            f"Pages name their address below {base}; but for that they are as the jobs wrote them."
        )
    return "\n\n".join([*lines, "How to cite: `index.html#cite`."]) + "\n"
