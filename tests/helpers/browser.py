"""A real browser that looks at a page: what it drew, complained of, and asked the network for."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Looked:
    """A page in a browser, with what went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    @property
    def fits(self) -> bool:
        """Nothing sticks out at the side."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
        )

    def hidden(self, selector: str) -> list[str]:
        """Return the texts of elements whose content is cut at the side."""
        found: list[str] = self.page.eval_on_selector_all(
            selector,
            """all => all.filter(each => each.scrollWidth > each.clientWidth + 1)
                .map(each => each.textContent.trim())""",
        )
        return found


@contextmanager
def looking(address: str, width: int = 1200, *, dark: bool = False) -> Iterator[Looked]:
    """Open a page; skips, and says why, where there is no browser."""
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: no browser looks")
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip("no chromium here: no browser looks at the page")
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            scheme = "dark" if dark else "light"
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            looked = Looked(page)
            page.set_default_timeout(180_000)  # machines are shared
            page.goto(address)
            yield looked
        finally:
            browser.close()
