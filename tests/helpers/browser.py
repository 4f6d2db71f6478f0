"""A page in a real browser, with its complaints and its network requests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserPage:
    """A page in a browser, with its complaints and requests."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on(
            "console", lambda message: self.complaints.append(f"{message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    @property
    def fits(self) -> bool:
        """Return whether nothing exceeds the width of the page."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
        )

    def hidden(self, selector: str) -> list[str]:
        """Return the texts of elements whose content is cut at the side."""
        texts: list[str] = self.page.eval_on_selector_all(
            selector,
            """all => all.filter(each => each.scrollWidth > each.clientWidth + 1)
                .map(each => each.textContent.trim())""",
        )
        return texts


@contextmanager
def open_page(address: str, width: int = 1200, *, dark: bool = False) -> Iterator[BrowserPage]:
    """Open a page, or skip the test with a reason if there is no browser."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = next((path for path in map(shutil.which, NAMES) if path), None)
    if executable is None:
        pytest.skip("no chromium is installed")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            scheme = "dark" if dark else "light"
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            opened = BrowserPage(page)
            page.set_default_timeout(180_000)  # machines are shared
            page.goto(address)
            yield opened
        finally:
            browser.close()
