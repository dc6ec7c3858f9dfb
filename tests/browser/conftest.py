"""A real browser, started once. Every request and console message of a page is recorded; there must be none."""

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
    """An open page with the requests and messages it caused."""

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("no browser found: install chromium to run the browser tests")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # chromium's sandbox does not run as root
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open HTML from disk, wait until it is drawn, and check at the end that it fetched and logged nothing."""
    pages: list[Opened] = []

    def open_one(html: str, *, dark: bool = False, width: int = 1200, ready: str = "html[data-ready]") -> Opened:
        file = tmp_path / f"page{len(pages)}.html"
        file.write_text(html, encoding="utf-8")
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        opened = Opened(page)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("console", lambda message: opened.messages.append(message.text))
        page.on("pageerror", lambda error: opened.messages.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector(ready, state="attached")
        pages.append(opened)
        return opened

    yield open_one
    for opened in pages:
        opened.page.wait_for_timeout(50)
        fetched = [url for url in opened.requests if not url.startswith(("file:", "about:srcdoc"))]
        opened.page.close()
        assert (fetched, opened.messages) == ([], [])
        assert len(opened.requests) == 1 + sum(url == "about:srcdoc" for url in opened.requests)
