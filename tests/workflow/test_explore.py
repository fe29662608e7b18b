"""Interactive figures of the smoke study in a browser, beside the tables they are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tests.conftest import Workflow
from tests.workflow.browser import Visit, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

LABELS = {"isoscore": "IsoScore (0 a line, 1 isotropic)", "silhouette": "Silhouette (−1 to 1)"}


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
        value = float(said[LABELS[score]].replace("−", "-"))
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
