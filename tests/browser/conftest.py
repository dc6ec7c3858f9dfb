"""A real browser, started once. Everything a page asks for or complains about is kept and must be nothing."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import missing


@dataclass(eq=False)
class Opened:
    """A page that is open, and what it did on the way."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("no browser: install chromium to run the tests of the page")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # chromium refuses to be root in its sandbox
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield one
        one.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open some HTML from disk, wait until it is drawn, and check at the end that it was quiet."""
    opened: list[Opened] = []

    def open_one(html: str, *, dark: bool = False, width: int = 1200, ready: str = "html[data-ready]") -> Opened:
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(html, encoding="utf-8")
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        one = Opened(page)
        page.on("request", lambda request: one.requests.append(request.url))
        page.on("console", lambda message: one.complaints.append(message.text))
        page.on("pageerror", lambda error: one.complaints.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector(ready, state="attached")
        opened.append(one)
        return one

    yield open_one
    for one in opened:
        one.page.wait_for_timeout(50)
        asked = [url for url in one.requests if not url.startswith(("file:", "about:srcdoc"))]
        one.page.close()
        assert (asked, one.complaints) == ([], [])
        assert len(one.requests) == 1 + sum(url == "about:srcdoc" for url in one.requests)
