"""Open pages in Debian's Chromium through Playwright, and collect errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTHS = {"phone": 400, "tablet": 800, "desk": 1280}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; skip the test if none is installed."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        pytest.skip("no Chromium: install Debian's package chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # Root has no sandbox of its own; the pages are ours, and ask for nothing outside.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A browser page that collects problems: errors of scripts and the console, dialogs, and
    requests for anything else than local files.
    """

    def __init__(self, browser: Browser, results: Path, **options: Any) -> None:
        self.results = results
        self.problems: list[str] = []
        self.page: Page = browser.new_context(
            viewport={"width": WIDTHS["desk"], "height": 900}, **options
        ).new_page()
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._check_request(request.url))
        self.page.on("dialog", lambda dialog: self._note("error", f"dialog {dialog.message}"))

    def open(self, name: str) -> Page:
        """Open a page by its path below the results, with an optional fragment."""
        path, _, fragment = name.partition("#")
        address = (self.results / path).resolve().as_uri()
        self.page.goto("about:blank")
        self.page.goto(f"{address}#{fragment}" if fragment else address)
        return self.page

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"{kind}: {text}")

    def _check_request(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "about:")):
            self.problems.append(f"a request to {url}")


def until(page: Page, condition: str) -> None:
    """Wait until a JavaScript expression is true. Playwright's own waiting evaluates strings in the
    page, which the site's content security policy forbids."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not true after 10 s: {condition}")


def accessibility_violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """Run axe-core's rules, or some of them, on a page; return its violations of serious or
    critical impact.
    """
    from axe_playwright_python.sync_playwright import Axe

    options: dict[str, Any] = {"resultTypes": ["violations"]}
    options |= {"runOnly": rules} if rules else {}
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in Axe().run(page, options=options).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
