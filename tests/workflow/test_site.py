"""The results pages of the smoke study: as files, and in a real browser."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.files import sha256_file
from isotropy.palette import GROUPS
from isotropy.papers.registry import KEYS, papers
from isotropy.provenance.identity import MARK
from isotropy.provenance.record import read_record
from isotropy.report.site import render
from isotropy.report.verdicts import format_estimate
from isotropy.workflow.page_spec import PageSpec
from isotropy.workflow.pages import pages
from tests.conftest import Workflow
from tests.workflow.browser import WIDTHS, Visit, accessibility_violations, chromium, until
from tests.workflow.study import audit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ["index.html", *(f"site/{name}.html" for name in pages())]
MOST_BYTES = 300_000
EVERY_LINEAGE_IS_FILLED = (
    "[...document.querySelectorAll('.lineage, .lineage details')]"
    ".every(one => !one.open || one.querySelector('li'))"
)
POSITIONS = """[...document.querySelectorAll('.forest .group')].map(group => {
  const middle = one => (box => box.left + box.width / 2)(one.getBoundingClientRect());
  const dots = row => [...row.querySelectorAll(':scope > .strip circle')].map(middle);
  group.querySelectorAll('details').forEach(one => one.open = true);
  return {
    ticks: [...group.querySelectorAll('.axis text')].map(one => [one.textContent, middle(one)]),
    statements: [...group.querySelectorAll('details.statement')].flatMap(one => {
      const cases = [...one.querySelectorAll('.cases > li')].flatMap(dots);
      const own = dots(one.querySelector('summary'));
      return cases.length ? [[one.id, true, own], [one.id, true, cases]] : [[one.id, false, own]];
    }),
  };
})"""
"""Reads the ticks of each axis and the dots of each row: of a statement its id, whether the dots
are those of its cases, and where they are."""
CELLS = """[...document.querySelectorAll('table.scorecard')].flatMap(table => {
  const models = [...table.querySelectorAll('thead th')].slice(1).map(one => one.textContent);
  return [...table.querySelectorAll('tbody tr')].flatMap(row => {
    const statement = row.querySelector('th a').getAttribute('href').split('#')[1];
    return [...row.querySelectorAll('td')].flatMap((cell, i) => {
      const link = cell.querySelector('a.verdict');
      return link ? [[statement, models[i], link.getAttribute('href')]] : [];
    });
  });
})"""
"""Reads each cell of the scorecard: its statement, its model and where it leads."""
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def rendered(
    smoke: Workflow, name: str, change: dict[str, Any] | None = None, **others: Path
) -> str:
    """Render a page again from the finished study.

    Args:
        smoke: the study.
        name: path of the page below the results.
        change: fields of its spec to replace.
        others: paths that replace inputs, by the input's name.
    """
    path = smoke.folder / "results" / name
    record = read_record(path.with_suffix(".record.json"))
    spec = PageSpec.model_validate_json(json.dumps({**record.spec, **(change or {})}))
    module = import_module(f"isotropy.report.{spec.kind}")

    def inputs(wanted: str) -> list[Path]:
        replacement = others.get(wanted)
        return (
            [replacement] if replacement else [Path(p) for p in record.input_names.get(wanted, [])]
        )

    folder = path.parent.relative_to(smoke.folder)
    content = module.content(spec, inputs, folder)
    return render(spec, content, folder, MARK + record.id, getattr(module, "SCRIPTS", ()))


def read_number(text: str) -> float:
    """Read the label of a tick, such as `−0.5` or `10⁻³`."""
    text = text.replace("\N{MINUS SIGN}", "-")
    power = re.fullmatch("(-?)10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if power is None:
        return float(text)
    digits = power[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(f"{power[1]}1e{digits}")


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_file_and_fragment(name: str, smoke: Workflow) -> None:
    path = smoke.folder / "results" / name
    check_links(path)
    ids = re.findall(r' id="([^"]+)"', path.read_text("utf8"))
    assert len(ids) == len(set(ids))
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
            assert f'id="{fragment}"' in target.read_text("utf8"), link


def test_exported_site_is_whole_and_names_its_address(
    smoke_copy: Workflow, tmp_path: Path, browser: Browser
) -> None:
    """All links work, previews find title and picture, the README has the bundle's digest. Another
    export replaces what the first wrote, and nothing else; without an address pages are as the jobs
    wrote them."""
    public, root = tmp_path / "public", f"--root={smoke_copy.folder}"
    assert command("site", str(public), root, "--base", "https://example.org/x").exit_code == 0
    pages = sorted(public.rglob("*.html"))
    assert {p.relative_to(public).as_posix() for p in pages} == set(PAGES)
    for path in pages:
        check_links(path)
        meta = dict(re.findall(r'property="og:(\w+)" content="([^"]*)"', path.read_text("utf8")))
        assert meta["url"] == f"https://example.org/x/{path.relative_to(public).as_posix()}"
        assert min(map(len, (meta["title"], meta["description"]))) > 10
        assert (public / meta["image"].removeprefix("https://example.org/x/")).is_file()
    readme = (public / "README.md").read_text("utf8")
    assert sha256_file(smoke_copy.folder / "results/bundle.zip") in readme
    assert not list(public.rglob("*.safetensors"))
    (public / "CNAME").write_text("example.org")
    assert command("site", str(public), root, "--no-bundle").exit_code == 0
    assert (public / "CNAME").is_file()
    for line in (public / "files.sha256").read_text("utf8").splitlines():
        digest, name = line.split("  ")
        assert sha256_file(public / name) == digest
        original = smoke_copy.folder / "results" / name
        assert name == "README.md" or sha256_file(original) == digest
    refused = command("site", str(tmp_path), root, "--no-bundle")
    assert (refused.exit_code, "was not written by isotropy site" in refused.output) == (2, True)
    visit = Visit(browser, public)
    visit.open("index.html").get_by_role("link", name="Claims", exact=True).click()
    until(visit.page, "/[1-9]/.test(document.querySelector('#filters output')?.textContent)")
    assert visit.problems == []
    page = smoke_copy.folder / "results/site/cai2021.html"
    page.write_text(page.read_text("utf8") + " ", "utf8")
    altered = command("site", str(public), root, "--no-bundle")
    assert (altered.exit_code, "has changed since" in altered.output) == (2, True)


def test_report_command_makes_the_report_from_the_tables(
    smoke_copy: Workflow, tmp_path: Path
) -> None:
    """The Markdown of the page; in another folder links lead back to the results; tables that have
    changed are refused."""
    site = smoke_copy.folder / "results/site"
    root = f"--root={smoke_copy.folder}"
    assert command("report", "--paper", "cai2021", root, f"--output={site}/again.md").exit_code == 0
    assert (site / "again.md").read_bytes() == (site / "cai2021-report.md").read_bytes()
    assert (
        command("report", "--paper", "cai2021", root, f"--output={tmp_path}/a.html").exit_code == 0
    )
    check_links(tmp_path / "a.html")
    unknown = command("report", "--paper", "cai", root)
    assert (unknown.exit_code, "did you mean 'cai2021'" in unknown.output) == (2, True)
    claims = smoke_copy.folder / "results/claims.parquet"
    pd.read_parquet(claims).head(9).to_parquet(claims)
    changed = command("report", "--paper", "cai2021", root)
    assert (changed.exit_code, "has changed since" in changed.output) == (2, True)


def command(*arguments: str) -> Result:
    """Run a command of the project in this process."""
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_rendered_again_with_the_same_bytes(
    name: str, smoke: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(smoke.folder)
    assert rendered(smoke, name) == (smoke.folder / "results" / name).read_text("utf8")


def test_paper_page_states_stand_ins_code_and_sections(smoke: Workflow) -> None:
    text = (smoke.folder / "results/site/mickus2024.html").read_text("utf8")
    assert text.count('class="status stand-in"') >= 5
    assert "isotropy/papers/mickus2024/figures.py" in text
    assert "section 3.2" in text
    assert "Where do we deviate?" in text


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
    assert accessibility_violations(page) == []
    assert visit.problems == []


def test_search_and_filters_narrow_the_claims(smoke: Workflow, browser: Browser) -> None:
    """The filters are stored in the URL, and the URL restores them."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/claims.html")

    def n_shown() -> int:
        return int(page.locator("#filters output").inner_text().split()[0])

    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    attempted = verdicts[verdicts["word"] != "not attempted"]
    assert n_shown() == len(attempted)
    page.get_by_label("Paper").select_option("mickus2024")
    assert n_shown() == (attempted["paper"] == "mickus2024").sum()
    page.get_by_label("Verdict").select_option("fails")
    failing = attempted["word"].isin(["inconsistent", "contradicted", "deviates"])
    assert n_shown() == (failing & (attempted["paper"] == "mickus2024")).sum()
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Search").fill("pearson")
    n_found = n_shown()
    assert 0 < n_found < len(attempted)
    again = Visit(browser, smoke.folder / "results").open(
        "site/claims.html#" + page.url.split("#")[1]
    )
    assert again.locator("#filters output").inner_text().split()[0] == str(n_found)
    assert again.get_by_label("Search").input_value() == "pearson"
    page.get_by_label("Search").fill("no claim says this")
    assert page.get_by_text("No claim fits").is_visible()
    page.get_by_role("button", name="Show all claims").click()
    until(page, "document.getElementById('nothing').hidden")
    assert n_shown() == len(attempted)
    page.get_by_label("Paper").select_option("cai2021")
    page.locator("#others").click()  # with the same filters
    others_of_paper = verdicts[
        ~verdicts.index.isin(attempted.index) & (verdicts["paper"] == "cai2021")
    ]
    until(page, "document.querySelector('#filters output').textContent !== ''")
    assert n_shown() == len(others_of_paper)
    page.get_by_label("Paper").select_option("")
    assert n_shown() == len(verdicts) - len(attempted)
    assert visit.problems == []


def test_search_knows_the_minus_sign_and_opens_what_it_finds(
    smoke: Workflow, browser: Browser
) -> None:
    page = Visit(browser, smoke.folder / "results").open("site/claims.html")
    for minus in "−-":
        page.get_by_role("button", name="Clear").click()
        assert page.locator("details.statement[open]").count() == 0
        page.get_by_label("Search").fill(f"{minus}0.808")
        assert page.locator("#mickus2024-pearson-polarity").is_visible()


def test_cells_of_the_scorecard_lead_to_the_cases_of_their_model(
    smoke: Workflow, browser: Browser
) -> None:
    """One case is open, with its number; several are shown without those of other models. All cells
    with several cases, and every fourth cell."""
    results = smoke.folder / "results"
    card = pd.read_parquet(results / "scorecard.parquet").set_index(["id", "model_title"])
    visit = Visit(browser, results)
    cells = visit.open("site/scorecard.html").evaluate(CELLS)
    assert len(cells) == len(card)
    for name, model, address in [cell for cell in cells if "=" in cell[2]] + cells[::4]:
        row = card.loc[(name, model)]
        cases = json.loads(row["cases"])
        page = visit.open(f"site/{address}")
        shown = page.locator("details.statement:visible .cases > li[id]:visible")
        ids = [str(case.get_attribute("id")) for case in shown.all()]
        if len(cases) > 1:
            assert page.locator("details.statement:visible").count() == 1
            assert len(ids) == len(cases), address
            names = [case for case, _ in cases]
            assert all(any(one.startswith(case) for case in names) for one in ids), address
        else:
            target = page.locator(f"[id='{address.partition('#')[2]}']")
            assert target.locator("dl").first.is_visible(), address
            assert address.partition("#")[2].startswith(cases[0][0])
            number = format_estimate(row["obtained"], row["low"], row["high"])["obtained"]
            assert number in target.inner_text(), address
    several = card["cases"].map(json.loads).map(len) > 1
    assert several.any()
    assert not several.all()
    assert visit.problems == []


def test_phones_show_the_scorecard_without_scrolling_sideways(
    smoke: Workflow, browser: Browser
) -> None:
    """Below each statement a line per model: its name and the verdict."""
    visit = Visit(browser, smoke.folder / "results")
    visit.page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
    page = visit.open("site/scorecard.html")
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)"
    )
    cells = page.locator(".scorecard td:visible").all()
    assert cells
    for cell in cells[:40]:
        box = cell.bounding_box()
        assert box is not None
        assert (box["x"] >= 0, box["x"] + box["width"] <= WIDTHS["phone"]) == (True, True)
        name = cell.evaluate("one => getComputedStyle(one, '::before').content")
        assert name == json.dumps(cell.get_attribute("data-model"))
    assert visit.problems == []


@pytest.mark.parametrize("width", [1280, 1440])
def test_navigation_has_one_line_on_a_desk(width: int, smoke: Workflow, browser: Browser) -> None:
    """With a link to each paper and page."""
    visit = Visit(browser, smoke.folder / "results")
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open("index.html")
    boxes = [link.bounding_box() for link in page.locator("header nav > *").all()]
    assert len(boxes) == 1 + 1 + len(papers()) + 4
    assert len({round(box["y"] + box["height"] / 2, -1) for box in boxes if box}) == 1


def test_numbers_in_links_of_the_overview_are_those_shown(
    smoke: Workflow, browser: Browser
) -> None:
    visit = Visit(browser, smoke.folder / "results")
    links = visit.open("index.html").locator(".bar a, .counts a")
    targets = [(a.get_attribute("href"), a.inner_text().split()[0]) for a in links.all()]
    assert targets
    for target, n in targets:
        page = visit.open(str(target))
        until(page, "document.querySelector('#filters output').textContent !== ''")
        assert page.locator("#filters output").inner_text().split()[0] == n, target


def test_overview_answers_for_each_paper_on_its_first_screen(
    smoke: Workflow, browser: Browser
) -> None:
    """At 1280 by 800 pixels: what each paper says and what was found; the report is linked."""
    visit = Visit(browser, smoke.folder / "results")
    visit.page.set_viewport_size({"width": WIDTHS["desk"], "height": 800})
    page = visit.open("index.html")
    rows = page.locator(".answers tbody tr").all()
    assert len(rows) == len(papers())
    for row, paper in zip(rows, papers(), strict=True):
        box = row.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 800
        name, says, found = (cell.inner_text() for cell in row.locator("th, td").all())
        assert (name, says) == (paper.name, paper.says)
        answer, tested = found.split(maxsplit=1)[1].split(" Tested: ")
        assert page.locator(".card .main", has_text=answer).count()
        assert page.locator(".card p", has_text=tested).count()
    assert page.locator(".card a", has_text="Short report").count() == len(papers())


@pytest.mark.parametrize("key", KEYS)
def test_report_prints_on_one_page_and_has_all_that_is_asked(
    key: str, smoke: Workflow, browser: Browser
) -> None:
    """Its table has a row for each statement of the paper with a number, with the verdict of the
    table; our own controls are counted; the Markdown has the same sections."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open(f"site/{key}-report.html")
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1
    markdown = (smoke.folder / f"results/site/{key}-report.md").read_text("utf8")
    headings = page.locator(".report h2").all_inner_texts()
    assert headings == re.findall(r"^## (.*)", markdown, re.M)
    assert [heading.split(",")[0] for heading in headings] == [
        *("Scope of the claims", "What was done", "What was found", "What was easy"),
        *("Where do we deviate?", "Compute", "Records and citation"),
    ]
    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    heads = verdicts[verdicts["overall"] & (verdicts["paper"] == key)]
    has_number = ~heads["word"].isin(["not attempted", "not computable"])
    expected = heads.loc[has_number & ~heads["ours"], "word"]
    shown = page.locator(".report tbody tr td:first-child").all_inner_texts()
    assert sorted(cell.split()[1].strip(",") for cell in shown) == sorted(expected)
    controls = page.locator(".report a", has_text="Our own controls")
    assert controls.count() == int(heads["ours"].any())
    assert visit.problems == []


def test_text_of_figures_and_first_lines_of_addresses_can_be_read(
    smoke: Workflow, browser: Browser
) -> None:
    """At all widths, figures keep two thirds of their size, and an address is below the
    navigation."""
    visit = Visit(browser, smoke.folder / "results")
    for width in WIDTHS.values():
        visit.page.set_viewport_size({"width": width, "height": 900})
        page = visit.open("site/mickus2024.html")
        shares = page.evaluate(
            "[...document.querySelectorAll('figure img')]"
            ".map(one => one.getBoundingClientRect().width / one.getAttribute('width'))"
        )
        assert min(shares) > 0.64
        page = visit.open("site/claims.html#mickus2024-pearson-polarity")
        page.wait_for_timeout(100)
        covered = page.evaluate(
            "(one => getComputedStyle(one).position === 'sticky' ? one.offsetHeight : 0)"
            "(document.querySelector('header'))"
        )
        line = page.locator("#mickus2024-pearson-polarity").bounding_box()
        assert line is not None
        assert line["y"] >= covered


def test_filter_counts_equal_those_of_the_table(smoke: Workflow, browser: Browser) -> None:
    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    attempted = verdicts["word"] != "not attempted"
    visit = Visit(browser, smoke.folder / "results")
    for field, column in (("status", "status"), ("unit", "unit")):
        for value in sorted(set(verdicts[column]) - {""}):
            for name, on_page in (("claims", attempted), ("not-attempted", ~attempted)):
                page = visit.open(f"site/{name}.html#{field}={value}")
                if page.locator(f"#filters [name={field}]").count() == 0:
                    continue  # claims that were not attempted have no status
                shown = int(page.locator("#filters output").inner_text().split()[0])
                expected = (verdicts[column] == value) & on_page
                n_options = page.locator(f"[name={field}] option", has_text=value).count()
                assert shown == (expected.sum() if n_options else on_page.sum()), (value, name)
    assert visit.problems == []


def test_url_of_each_claim_shows_it(smoke: Workflow, browser: Browser) -> None:
    """Also of one that was not attempted; the URL stays, and unknown fragments change nothing."""
    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    not_attempted = verdicts["word"] == "not attempted"
    of_statement = verdicts["statement_id"].map(
        not_attempted[verdicts["overall"]].set_axis(
            verdicts.loc[verdicts["overall"], "statement_id"]
        )
    )
    unique = ~verdicts["id"].duplicated(keep=False) & ~verdicts["overall"]
    kinds = [
        ~not_attempted & unique,
        not_attempted & unique & ~of_statement,
        not_attempted & unique & of_statement,
    ]
    visit = Visit(browser, smoke.folder / "results")
    for ids in [verdicts.loc[kind, "id"] for kind in kinds]:
        name = ids.iloc[-1]
        page = visit.open(f"site/claims.html#{name}")
        page.wait_for_timeout(300)
        assert page.locator(f"[id='{name}']").is_visible(), name
        assert page.url.endswith(f"#{name}")
    for fragment in ("100%", "length=3", "paper=zzz", "content", "nothing"):
        page = visit.open(f"site/claims.html#{fragment}")
        shown = page.locator("#filters output").inner_text().split()[0]
        assert shown == str((~not_attempted).sum()), fragment
    page = visit.open("site/claims.html#paper=cai2021")
    before = page.locator("#filters output").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    page.wait_for_timeout(100)
    assert page.locator("#filters output").inner_text() == before
    assert visit.problems == []


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


def test_figures_enlarge_and_tables_sort(smoke: Workflow, browser: Browser) -> None:
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/mickus2024.html")
    dialog = page.locator("dialog.enlarged")
    page.locator("#figure-figure3 a.enlarge").click()
    assert dialog.is_visible()
    until(page, "document.querySelector('dialog img').naturalWidth > 0")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.locator("#table-seeds > summary").click()
    table = page.locator("#table-seeds table")
    header = table.locator("thead th").first
    header.focus()
    page.keyboard.press("Enter")  # sorted by the keyboard
    page.wait_for_selector("#table-seeds th[aria-sort=ascending]")
    cells = "[...document.querySelectorAll('#table-seeds tbody tr td:first-child')]"
    in_order = "v.every((one, i) => !i || v[i - 1].toLowerCase() <= one.toLowerCase())"
    until(page, f"(v => {in_order})({cells}.map(cell => cell.innerText))")  # rows follow
    assert visit.problems == []


@pytest.mark.parametrize("key", [paper.key for paper in papers()])
def test_forest_plots_show_numbers_where_their_axis_says(
    key: str, smoke: Workflow, browser: Browser
) -> None:
    """The dots of statements and cases lie where the labels of the common axis say, which this test
    reads off the page; of one paper also on a phone."""
    verdicts = pd.read_csv(smoke.folder / "results/claims.csv")
    attempted = verdicts[(verdicts["paper"] == key) & (verdicts["word"] != "not attempted")]
    visit = Visit(browser, smoke.folder / "results")
    n_compared = 0
    for width in ("desk", "phone") if key == "mickus2024" else ("desk",):
        visit.page.set_viewport_size({"width": WIDTHS[width], "height": 900})
        page = visit.open(f"site/{key}.html")
        for group in page.evaluate(POSITIONS):
            labels = [(read_number(text), x) for text, x in group["ticks"]]
            is_log = all(number > 0 for number, _ in labels)
            where = np.log10 if is_log else float
            places = np.array([where(number) for number, _ in labels])
            (slope, start), rest, *_ = np.polyfit(places, [x for _, x in labels], 1, full=True)
            if len(rest) and rest[0] > 4:
                continue  # neither linear nor logarithmic
            for name, cases, dots in group["statements"]:
                rows = attempted[attempted["statement_id"] == name]
                numbers = rows.loc[rows["overall"] != cases, "obtained"]
                left = min(x for _, x in labels)
                expected = [
                    start + slope * where(value) if value > 0 or not is_log else left
                    for value in numbers.dropna()
                ]
                assert np.allclose(np.maximum(expected, left), dots, atol=1.5), name
                n_compared += len(dots)
    assert n_compared > 10
    assert visit.problems == []


def test_statements_are_ordered_by_verdict_and_opened_by_keyboard(
    smoke: Workflow, browser: Browser
) -> None:
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/mickus2024.html")
    words = page.locator(".forest details.statement > summary .verdict")
    before = words.all_inner_texts()
    page.get_by_label("by verdict").check()
    groups = [
        group.locator("summary .verdict").all_inner_texts()
        for group in page.locator(".forest .group").all()
    ]
    ranks = [[list(GROUPS).index(word[2:]) for word in group] for group in groups]
    assert all(group == sorted(group) for group in ranks)
    assert [group[0] for group in ranks] == sorted(group[0] for group in ranks)
    page.get_by_label("by section").check()
    assert words.all_inner_texts() == before
    statement = page.locator("#mickus2024-pearson")
    statement.locator("summary").focus()
    page.keyboard.press("Enter")
    assert statement.locator(".cases li svg").first.is_visible()
    page.keyboard.press("Space")
    assert not statement.locator(".cases li svg").first.is_visible()
    page = visit.open("site/mickus2024.html#mickus2024-spearman")
    assert page.locator("#mickus2024-spearman .cases").is_visible()
    assert visit.problems == []


def test_statements_of_a_paper_print_on_two_pages(
    smoke: Workflow, browser: Browser, tmp_path: Path
) -> None:
    for paper in papers():
        page = Visit(browser, smoke.folder / "results").open(f"site/{paper.key}.html")
        page.evaluate(
            "document.querySelectorAll('#claims ~ section, footer').forEach(one => one.remove())"
        )
        printed = page.pdf(format="A4", margin=dict.fromkeys(("top", "bottom"), "15mm"))
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2, paper.key


def test_overview_leads_to_numbers_digests_and_code_in_three_clicks(
    smoke: Workflow, browser: Browser
) -> None:
    """From the overview to a published and an obtained number, a file's digest, the code of a
    figure, and all contradicted claims."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("index.html")
    page.locator(".card h2 a").first.click()
    page.locator("#mickus2024-pearson > summary").click()
    case = page.locator("#mickus2024-pearson .cases li").first
    assert re.search(r"published −0\.808\s+here −0\.\d+", case.inner_text())
    page = visit.open("index.html")
    page.get_by_role("link", name="Sources", exact=True).first.click()
    section = page.locator("#polarity")
    fetched = read_record(smoke.folder / "results/fetch/polarity.record.json")
    assert fetched.outputs[0].sha256 in (section.text_content() or "")
    page = visit.open("index.html")
    page.get_by_role("link", name="Rudman & Eickhoff 2024").first.click()
    page.locator("#figure-figure5 details.way > summary").click()
    assert "isotropy/papers/rudman2024/figures.py" in page.locator("#figure-figure5").inner_text()
    page = visit.open("index.html")
    link = page.get_by_role("link", name="that were contradicted")
    n = int(re.findall(r"\d+", link.inner_text())[0])
    link.click()
    until(page, "document.querySelector('output').textContent !== ''")
    assert page.locator("details.statement:not([hidden])").count() == n > 0
    assert visit.problems == []


def test_pages_are_readable_without_javascript(smoke: Workflow, browser: Browser) -> None:
    visit = Visit(browser, smoke.folder / "results", java_script_enabled=False)
    page = visit.open("site/claims.html")
    assert not page.locator("#filters").is_visible()
    statement = page.locator("#mickus2024-pearson > summary")
    statement.click()
    assert page.locator("#mickus2024-pearson .cases li").first.is_visible()
    page = visit.open("site/mickus2024.html")
    page.locator("#table-seeds > summary").click()
    assert page.locator("#table-seeds tbody tr").first.is_visible()


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
    for name in PAGES:
        change = {"study": HOSTILE}
        if name == "site/mickus2024.html":
            change["decisions"] = f"## {HOSTILE}\n\n- [x](javascript:alert(3)) {HOSTILE}\n"
        text = rendered(
            smoke,
            name,
            change,
            claims=tmp_path / "claims.parquet",
            scorecard=tmp_path / "scorecard.parquet",
            lineage=tmp_path / "run.lineage.json",
        )
        (tmp_path / name).write_text(text)
        visit = Visit(browser, tmp_path)
        page = visit.open(name)
        page.wait_for_timeout(100)
        assert (
            page.evaluate("document.querySelectorAll('img[src=x], a[href^=javascript]').length")
            == 0
        )
        assert "onerror=alert(1)" in page.locator("body").inner_text()
        missing = [p for p in visit.problems if "ERR_FILE_NOT_FOUND" not in p]  # pictures, not here
        assert missing == []


def test_snakemake_report_has_figures_tables_and_verdicts(
    smoke_copy: Workflow, tmp_path: Path
) -> None:
    """`snakemake --report` contains figures, tables and verdicts with captions, and needs no
    network."""
    no_network = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    target = tmp_path / "report.zip"
    done = smoke_copy.run("--report", str(target), env=no_network)
    assert done.returncode == 0, done.stdout
    with zipfile.ZipFile(target) as archive:
        names = {Path(name).name for name in archive.namelist()}
        index = "".join(
            archive.read(name).decode("utf8", "replace")
            for name in archive.namelist()
            if name.endswith((".html", ".js"))
        )
    assert {"figure3.svg", "correlations.csv", "claims.csv"} <= names
    assert "Silhouette against IsoScore along the same trajectories." in index


def test_rerun_reproduces_pages_but_not_run_summaries(smoke: Workflow) -> None:
    """A page is reproduced byte for byte from its inputs; files with time and place of the run
    cannot be."""
    page = audit(smoke, "rerun", "results/site/claims.html")
    assert page.returncode == 0, page.stdout
    assert "reproduced: site/claims" in page.stdout
    refused = audit(smoke, "rerun", "results/site/run.json")
    assert refused.returncode == 2
    assert "describes what happened in one run" in refused.stdout
