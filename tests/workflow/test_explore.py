"""Interactive figures of the smoke study in a browser, beside the tables they are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
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
    """What is said of a point of the figure's first view, by the names of its columns."""
    parts = figure.locator("output").first.inner_text().split(" · ")
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


def test_points_of_a_seed_are_not_found_while_it_is_switched_off(
    smoke: Workflow, browser: Browser
) -> None:
    """Neither by pointing nor by the arrow keys; switched on again, all are where they were."""
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/mickus2024.html")
    figure = opened(page, "figure3")
    seeds = figure.locator("fieldset").nth(1)
    assert seeds.locator("legend").inner_text() == "seed"

    def found() -> list[dict[str, str]]:
        """Points below a grid of places."""
        shares = np.linspace(0.05, 0.95, 7)
        return [hover(page, figure, x, y) for x in shares for y in shares]

    def walked() -> set[str]:
        """Seeds of all curves, by the keyboard."""
        figure.locator(".charts").focus()
        said = set()
        for _ in range(40):
            page.keyboard.press("ArrowDown")
            said.add(told(figure)["seed"])
        return said

    before = found()
    every = walked()
    assert {"0", "1"} <= {said["seed"] for said in before} <= every
    box = seeds.locator("input").first  # that of seed 0
    box.uncheck()
    rest = found()
    assert "0" not in {said["seed"] for said in rest}
    assert walked() == every - {"0"}
    kept = [(a, b) for a, b in zip(before, rest, strict=True) if a["seed"] != "0"]
    assert all(a == b for a, b in kept)
    assert kept
    box.check()
    assert found() == before
    assert walked() == every
    assert visit.problems == []


def test_published_curves_have_a_switch_and_the_published_values(
    smoke: Workflow, browser: Browser
) -> None:
    table = pd.read_csv(smoke.folder / "results/tables/ethayarajh2019/published_layers.csv")
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/ethayarajh2019.html")
    for name, quantity, label in (
        ("figure1", "baseline_cosine", "mean cosine"),
        ("figure2", "self_similarity_adjusted", "cosine"),
        ("figure3", "intra_adjusted", "cosine"),
    ):
        figure = opened(page, name)
        quantities = figure.locator("fieldset").first
        for line in quantities.locator("label").all():
            line.locator("input").set_checked(line.inner_text().strip() == "published")
        models = set()
        for across, down in ((0.1, 0.1), (0.3, 0.6), (0.6, 0.3), (0.9, 0.9)):
            said = hover(page, figure, across, down)
            assert said["quantity"] == "published"
            text = figure.locator("output").inner_text()
            model = text.partition("setup ")[2].partition(", published")[0]
            rows = table[(table["quantity"] == quantity) & (table["model"] == model)]
            (value,) = rows.loc[rows["layer"] == int(said["layer"]), "value"]
            assert float(said[label].replace("−", "-")) == pytest.approx(value, rel=5e-4)
            models.add(model)
        assert len(models) > 1
        quantities.get_by_label("published", exact=True).uncheck()
        assert figure.locator("output").inner_text() == "Nothing is switched on."
    assert visit.problems == []


def test_both_panels_of_a_figure_have_views(smoke: Workflow, browser: Browser) -> None:
    """Points by shrinkage above those by size of the sample, each a row of the table."""
    table = pd.read_csv(smoke.folder / "results/tables/rudman2024/stability.csv")
    visit = Visit(browser, smoke.folder / "results")
    page = visit.open("site/rudman2024.html")
    figure = opened(page, "figure4")
    views = figure.locator(".values > div")
    titles = [view.locator("b").first.inner_text() for view in views.all()]
    assert titles == ["by shrinkage", "by size of the sample"]
    for view in views.all():
        view.locator(".charts").focus()
        page.keyboard.press("ArrowRight")
        said = told(view)
        numbers = {
            "n": int(said["points in the sample, n"]),
            "zeta": float(said.get("shrinkage ζ") or said["ζ"]),
            "setup": said["cloud"],
            "repeat": int(said["sample"]),
        }
        rows = table[(table[list(numbers)] == pd.Series(numbers)).all(axis=1)]
        assert len(rows) == 1
        assert float(said["IsoScore*"]) == pytest.approx(rows["isoscore_star"].iloc[0], rel=5e-4)
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
        views = json.loads(values[values.index("] = ") + 4 : -2])
        assert figure.locator(".charts").count() == len(views)
        assert views[0]["labels"].get(views[0]["x"], views[0]["x"]) in said, (name, said)
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
