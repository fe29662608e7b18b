"""Interactive figures of the smoke study in a browser, beside the tables they are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from isotropy.papers.registry import papers
from tests.conftest import Workflow
from tests.workflow.browser import Visit, accessibility_violations, chromium, until
from tests.workflow.test_site import MOST_BYTES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def opened(page: Page, name: str) -> Locator:
    """Press the button of a figure, by the keyboard; return the figure."""
    figure = page.locator(f"#figure-{name}")
    figure.locator("button.explore").focus()
    page.keyboard.press("Enter")
    until(page, f"!!document.querySelector('#figure-{name} .charts canvas')")
    return figure


def told(figure: Locator) -> dict[str, str]:
    """What is said of a point, by the names of its columns."""
    parts = figure.locator("output").inner_text().split(" · ")
    return {name: value for name, _, value in (part.rpartition(" ") for part in parts)}


def hover(page: Page, figure: Locator, across: float, down: float) -> dict[str, str]:
    chart = figure.locator(".u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    return told(figure)


def trajectory_rows(smoke: Workflow, said: dict[str, str], *scores: str) -> pd.DataFrame:
    """Rows of the table, as its CSV has them, with the seed, step and rounded scores of a point."""
    rows = pd.read_csv(smoke.folder / "results/tables/mickus2024/trajectories.csv")
    rows = rows[(rows["setup"] == said["setup"]) & (rows["seed"] == int(said["seed"]))]
    rows = rows[rows["step"] == int(said["update"])]
    for score in scores:
        value = float(said[{"isoscore": "IsoScore"}.get(score, score)].replace("−", "-"))
        rows = rows[(rows[score] - value).abs() <= 5e-4 * abs(value)]
    return rows


def test_values_read_by_hovering_are_those_of_the_table(smoke: Workflow, browser: Browser) -> None:
    """Setup, seed, step and both scores of a trajectory, by pointing and by the keyboard."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/mickus2024.html")
    figure = opened(page, "figure3")
    for across, down in ((0.1, 0.2), (0.5, 0.5), (0.9, 0.9)):
        said = hover(page, figure, across, down)
        assert len(trajectory_rows(smoke, said, "isoscore", "silhouette")) == 1, said
    figure.locator(".charts").focus()
    page.keyboard.press("ArrowRight")
    walked = told(figure)
    assert walked != said
    assert len(trajectory_rows(smoke, walked, "isoscore", "silhouette")) == 1, walked
    assert visit.problems == []


def test_switches_hide_setups_and_seeds(smoke: Workflow, browser: Browser) -> None:
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/mickus2024.html")
    opened(page, "figure3")
    figure = opened(page, "figure2")
    assert figure.locator("canvas").count() == 3  # a chart for each score
    names = figure.locator("fieldset").first.locator("label").all_inner_texts()
    for kept in names:
        for name in names:
            figure.get_by_label(name, exact=True).set_checked(name == kept)
        places = ((0.2, 0.2), (0.5, 0.5), (0.8, 0.8))
        assert {hover(page, figure, *place)["setup"] for place in places} == {kept.strip()}
    figure.get_by_label(kept, exact=True).press(" ")
    assert figure.locator("output").inner_text() == "Nothing is switched on."
    assert figure.locator("canvas").count() == 0
    assert accessibility_violations(page, "#figure-figure3") == []
    assert visit.problems == []


@pytest.mark.parametrize("paper", [paper.key for paper in papers()])
def test_each_figure_opens_and_asks_for_files_only(
    paper: str, smoke: Workflow, browser: Browser
) -> None:
    """Nothing is loaded before a button is pressed, the library once; page and values are small."""
    results = smoke.folder / "results"
    visit = Visit(browser, results)
    scripts: list[str] = []
    visit.page.on("request", lambda asked: scripts.append(asked.url.rpartition("/")[2]))
    page = visit.open(f"site/{paper}.html")
    assert not [name for name in scripts if name.endswith(".js")]
    names = [str(item.get_attribute("data-figure")) for item in page.locator(".explore").all()]
    assert names
    for name in names:
        figure = opened(page, name.split("/")[1])
        said = hover(page, figure, 0.4, 0.5)
        values = (results / f"figures/{name}.js").read_text("utf8")
        data = json.loads(values[values.index("{", values.index("=", 50)) : -2])
        assert data["labels"].get(data["x"], data["x"]) in said, (name, said)
        assert figure.locator("img").is_visible()
    assert scripts.count("index.explore.js") == 1
    sizes = [(results / f"figures/{name}.js").stat().st_size for name in names]
    assert sum(sizes) + (results / f"site/{paper}.html").stat().st_size < MOST_BYTES
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert visit.problems == []


def test_pages_have_pictures_and_sources_without_javascript(
    smoke: Workflow, browser: Browser, project: Path
) -> None:
    visit = Visit(browser, smoke.folder / "results", java_script_enabled=False)
    page = visit.open("site/rudman2024.html")
    assert page.locator("button.explore:visible, .values:visible").count() == 0
    figure = page.locator("#figure-figure5")
    assert figure.locator("img").is_visible()
    figure.get_by_text("Source of the figure").click()
    text = figure.locator("pre").inner_text()
    assert text.startswith('@figure(\n    "figure5",')
    assert text in (project / "isotropy/papers/rudman2024/figures.py").read_text("utf8")
