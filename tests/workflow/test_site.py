"""The results pages of the smoke study: as files, and in a real browser."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from isotropy.files import sha256_file
from replication.cli import app
from replication.palette import GROUPS
from replication.papers.registry import KEYS, papers
from replication.plan.page_spec import PageSpec
from replication.plan.pages import pages
from replication.provenance.identity import MARK
from replication.provenance.record import read_record
from replication.report.site import render
from tests.conftest import Workflow
from tests.workflow.browser import WIDTHS, Visit, accessibility_violations, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ["index.html", *(f"site/{name}.html" for name in pages())]
MOST_BYTES = 300_000
EVERY_LINEAGE_IS_FILLED = (
    "[...document.querySelectorAll('.lineage, .lineage details')]"
    ".every(one => !one.open || one.querySelector('li'))"
)
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&{{ 7 * 7 }}"


def rendered(
    smoke: Workflow, name: str, change: dict[str, Any] | None = None, **others: list[str]
) -> str:
    """Render a page again from the finished study; `change` replaces fields of its spec, `others`
    inputs by name."""
    path = smoke.folder / "results" / name
    record = read_record(path.with_suffix(".record.json"))
    spec = PageSpec.model_validate_json(json.dumps({**record.spec, **(change or {})}))
    module = import_module(f"replication.report.{spec.kind}")

    def inputs(wanted: str) -> list[Path]:
        return [Path(p) for p in others.get(wanted, record.input_names.get(wanted, []))]

    folder = path.parent.relative_to(smoke.folder)
    content = module.content(spec, inputs, folder)
    return render(spec, content, folder, MARK + record.id, getattr(module, "SCRIPTS", ()))


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_file_and_fragment(name: str, smoke: Workflow) -> None:
    path = smoke.folder / "results" / name
    check_links(path)
    assert len(ids(path)) == len(set(ids(path)))
    assert len(path.read_bytes()) < MOST_BYTES


def check_links(path: Path) -> None:
    """Check that links of a page lead to files, fragments to ids on them, or to a filter of the
    claims; links to papers lead outside."""
    text = path.read_text("utf8")
    papers_links = {paper.link for paper in papers()}
    links = set(re.findall(r'(?:href|src|data-graph)="([^"]+)"', text)) - papers_links
    assert len(links) > 8
    for link in links:
        file, _, fragment = link.partition("#")
        target = path.parent / file if file else path
        assert target.is_file(), link
        if fragment and "=" not in fragment:
            assert fragment in ids(target), link


@cache
def ids(path: Path) -> list[str]:
    return re.findall(r'\sid="([^"]+)"', path.read_text("utf8"))


def test_exported_site_is_whole(smoke_copy: Workflow, tmp_path: Path, browser: Browser) -> None:
    """A folder with files, and a page that has changed, are refused."""
    public, root = tmp_path / "public", f"--root={smoke_copy.folder}"
    assert command("site", str(public), root).exit_code == 0
    pages = sorted(public.rglob("*.html"))
    assert {p.relative_to(public).as_posix() for p in pages} == set(PAGES)
    for path in pages:
        check_links(path)
    for path in filter(Path.is_file, public.rglob("*")):
        original = smoke_copy.folder / "results" / path.relative_to(public)
        assert sha256_file(original) == sha256_file(path)
    assert not list(public.rglob("*.safetensors"))
    refused = command("site", str(public), root)
    assert (refused.exit_code, "empty folder" in refused.output) == (2, True)
    visit = Visit(browser, public)
    visit.open("index.html").get_by_role("link", name="Statements", exact=True).click()
    until(visit.page, "/[1-9]/.test(document.querySelector('#filters output')?.textContent)")
    assert visit.problems == []
    page = smoke_copy.folder / "results/site/cai2021.html"
    page.write_text(page.read_text("utf8") + " ", "utf8")
    altered = command("site", str(tmp_path / "again"), root)
    assert (altered.exit_code, "altered" in altered.output) == (1, True)


def test_report_command_makes_the_report_from_the_tables(
    smoke_copy: Workflow, tmp_path: Path
) -> None:
    """The Markdown of the page; in another folder links lead back to the results; tables that have
    changed are refused."""
    site = smoke_copy.folder / "results/site"
    report = ("report", f"--root={smoke_copy.folder}", "--paper")
    for output in (site / "again.md", tmp_path / "a.html"):
        assert command(*report, "cai2021", f"--output={output}").exit_code == 0
    assert (site / "again.md").read_bytes() == (site / "cai2021-report.md").read_bytes()
    check_links(tmp_path / "a.html")
    unknown = command(*report, "cai")
    assert (unknown.exit_code, "'cai2021'" in unknown.output) == (2, True)
    claims = smoke_copy.folder / "results/claims.parquet"
    pd.read_parquet(claims).head(9).to_parquet(claims)
    changed = command(*report, "cai2021")
    assert (changed.exit_code, "claims.parquet: altered" in changed.output) == (1, True)


def command(*arguments: str) -> Result:
    """Run a command of the project in this process."""
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_rendered_again_with_the_same_bytes(
    name: str, smoke: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(smoke.folder)
    assert rendered(smoke, name) == (smoke.folder / "results" / name).read_text("utf8")


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_errors_or_accessibility_violations_in_a_browser(
    name: str, smoke: Workflow, browser: Browser
) -> None:
    """At three widths, light and dark: no errors, no requests, no horizontal scrolling, and no
    serious violations by axe-core."""
    visit = Visit(browser, smoke.folder / "results")
    page, background = visit.page, "getComputedStyle(document.body).backgroundColor"
    for width in WIDTHS.values():
        page.set_viewport_size({"width": width, "height": 900})
        visit.open(name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert accessibility_violations(page) == []
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    visit.open(name)
    assert page.evaluate(background) != light
    assert accessibility_violations(page, rules=["color-contrast"]) == []
    assert visit.problems == []


def test_search_and_filters_narrow_the_claims(smoke: Workflow, browser: Browser) -> None:
    """The filters are stored in the URL, and the URL restores them."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/claims.html")

    def n_shown() -> int:
        return int(page.locator("#filters output").inner_text().split()[0])

    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    groups = verdicts["word"].map(GROUPS)
    attempted = verdicts[groups != "none"]
    assert n_shown() == len(attempted)
    page.get_by_label("Paper").select_option("mickus2024")
    assert n_shown() == (attempted["paper"] == "mickus2024").sum()
    page.get_by_label("Verdict").select_option("fails")
    failing = groups[attempted.index] == "fails"
    assert n_shown() == (failing & (attempted["paper"] == "mickus2024")).sum()
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Search").fill("pearson")
    n_found = n_shown()
    assert 0 < n_found < len(attempted)
    page.get_by_label("Search").fill("Figure 3")
    n_figure = n_shown()
    page.get_by_label("Search").fill("3 figure")
    assert n_figure < n_shown()
    page.get_by_label("Paper").select_option("")
    page.get_by_label("Search").fill("swiss roll")
    found = page.locator("#filters output").inner_text()
    assert re.search(r"\b[1-9]\d* more among what is not tested", found)
    page.get_by_label("Paper").select_option("mickus2024")
    page.get_by_label("Search").fill("pearson")
    filters = page.evaluate("location.hash.slice(1)")  # page.url may lag behind
    again = Visit(browser, smoke.folder / "results").open(f"site/claims.html#{filters}")
    assert again.locator("#filters output").inner_text().split()[0] == str(n_found)
    assert again.get_by_label("Search").input_value() == "pearson"
    page.get_by_label("Search").fill("no claim says this")
    assert page.get_by_text("Nothing fits").is_visible()
    page.get_by_role("button", name="Show all").click()
    until(page, "document.getElementById('nothing').hidden")
    assert n_shown() == len(attempted)
    page.get_by_label("Paper").select_option("cai2021")
    page.locator("#others").click()  # with the same filters
    others = verdicts.drop(attempted.index)
    until(page, "document.querySelector('#filters output').textContent !== ''")
    assert n_shown() == (others["paper"] == "cai2021").sum()
    page.get_by_label("Paper").select_option("")
    assert n_shown() == len(others)
    assert visit.problems == []


@pytest.mark.parametrize("name", ["index.html", *(f"site/{key}.html" for key in KEYS)])
def test_pages_print_on_few_sheets(name: str, smoke: Workflow, browser: Browser) -> None:
    """The overview on two pages of A4, a paper on six."""
    page = Visit(browser, smoke.folder / "results").open(name)
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert 1 <= len(sheets) <= (2 if name == "index.html" else 6)


def test_unfolding_a_claim_leads_to_the_digest_of_a_fetched_file(
    smoke: Workflow, browser: Browser
) -> None:
    """By clicks alone, from the URL of a claim to the digest of the model's weights."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/claims.html#mickus2024-pearson-polarity")
    claim = page.locator("#mickus2024-pearson-polarity")
    assert claim.is_visible()
    folded = claim.locator("details:not([open]) > summary")
    for _ in range(20):
        if folded.count() == 0:
            break
        folded.first.click()
        # A script fills unfolded elements after the click; the first time it loads a file.
        until(page, EVERY_LINEAGE_IS_FILLED)
    text = claim.inner_text()
    record = read_record(smoke.folder / "results/fetch/all-MiniLM-L6-v2.record.json")
    weights = next(f for f in record.outputs if f.path.endswith("model.safetensors"))
    assert f"{weights.path} {weights.sha256}" in text
    assert "results/optimize/mickus2024/supersenses" not in text  # another set-up
    assert visit.problems == []


def test_markup_in_texts_is_escaped(
    smoke: Workflow, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markup in statements, setups, data sets, titles of sources, the study's name and docs."""
    monkeypatch.chdir(smoke.folder)
    verdicts = pd.read_parquet("results/claims.parquet")
    for column in ("statement", "setup", "data", "reason", "deviations", "locator", "source_note"):
        verdicts[column] = verdicts[column] + HOSTILE
    verdicts.to_parquet(tmp_path / "claims.parquet")
    card = pd.read_parquet("results/scorecard.parquet")
    card["model_title"] += HOSTILE
    card["cases"] = [
        json.dumps([[case, setup + HOSTILE] for case, setup in json.loads(cases)])
        for cases in card["cases"]
    ]
    card.to_parquet(tmp_path / "scorecard.parquet")
    lineage = Path("results/site/run.lineage.json").read_text("utf8")
    title = json.dumps(HOSTILE)[1:-1]
    hostile = re.sub(r'("title": ?")', lambda match: match[1] + title, lineage)
    assert hostile != lineage
    (tmp_path / "run.lineage.json").write_text(hostile)
    (tmp_path / "site").mkdir()
    others = {
        "claims": [f"{tmp_path}/claims.parquet"],
        "scorecard": [f"{tmp_path}/scorecard.parquet"],
        "lineage": [f"{tmp_path}/run.lineage.json"],
    }
    visit = Visit(browser, tmp_path)
    for name in PAGES:
        change = {"study": HOSTILE}
        if name == "site/mickus2024.html":
            change["decisions"] = f"## {HOSTILE}\n\n- [x](javascript:alert(3)) {HOSTILE}\n"
        (tmp_path / name).write_text(rendered(smoke, name, change, **others))
        page = visit.open(name)
        page.wait_for_timeout(100)
        active = "document.querySelectorAll('img[src=x], a[href^=javascript]').length"
        assert page.evaluate(active) == 0
        assert "onerror=alert(1)" in page.locator("body").inner_text()
    # Pictures are not here
    assert [p for p in visit.problems if "ERR_FILE_NOT_FOUND" not in p] == []
