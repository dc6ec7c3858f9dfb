"""The summary of a corpus in a real browser."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Open
from tests.conftest import missing
from tests.corpus.folders import by_hand, made
from thalweg.corpus.summary import summarise
from thalweg.identifiability.result import VERDICTS

ATTACK = "</script><img src=x onerror=window.pwned=1>"
METHODS = [f"alti:measure=l{n},layer={'x' * 20}" for n in range(3)] + [ATTACK]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Many heads, long names, and tokens that try to be scripts."""
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    folder = tmp_path_factory.mktemp("corpus")
    made(folder, [*(text(number) for number in range(30)), by_hand(30, error=ATTACK * 9)], methods=METHODS)
    return summarise(folder).to_html()


def text(number: int) -> dict[str, Any]:
    heads = [(layer, head) for layer in range(12) for head in range(16)]
    share = number / 30
    return by_hand(
        number,
        tokens=4 + 3 * number,
        methods=[
            {
                "method": name,
                "error": None,
                "sources": [{"position": 0, "token": f"{ATTACK}{number % 3}", "score": share - 0.5}],
                "special_share": share,
            }
            for name in METHODS
        ],
        agreement=[
            {"method": METHODS[i], "other": METHODS[j], "correlation": share * (-1) ** j}
            for i in range(4)
            for j in range(i + 1, 4)
        ],
        layers=[
            {"method": name, "layer": layer, "own": 1 / (1 + layer), "not_own": share, "special": share}
            for name in METHODS
            for layer in range(12)
        ],
        heads=[
            {"layer": layer, "head": head, "verdict": VERDICTS[(number + layer * head) % 3], "null_share": share}
            for layer, head in heads
        ],
        checks=[{"method": METHODS[0], "identity": "parity", "worst": share, "allowed": 0.5}],
    )


@pytest.mark.parametrize("width", [1200, 390])
def test_summary_when_opened_then_is_quiet_and_no_wider_than_the_window(page: str, open_page: Open, width: int) -> None:
    opened = open_page(page, width=width)
    opened.page.eval_on_selector_all("details", "all => all.forEach(details => details.open = true)")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.page.evaluate("window.pwned") is None
    assert opened.text("h1") == "31 texts, of which 1 failed."
    assert ATTACK in opened.text("#tokens")
    assert opened.page.locator("#heads svg g").count() == 12 * 16
    assert opened.page.locator("#mixing svg[role=img]").count() == 3  # nothing is known of the other two


def test_summary_when_colours_are_changed_or_printed_then_follows(page: str, open_page: Open) -> None:
    opened = open_page(page, dark=True)
    paper = "getComputedStyle(document.querySelector('section')).backgroundColor"
    dark = opened.page.evaluate(paper)
    opened.page.locator(".theme").press("Enter")
    light = opened.page.evaluate(paper)
    assert (dark, light) == ("rgb(23, 27, 34)", "rgb(255, 255, 255)")
    opened.page.locator(".theme").press("Enter")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate(paper) == light
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("details:not([open])").count() == 0


def test_summary_when_scripts_are_off_then_shows_everything(page: str, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto((tmp_path / "page.html").as_uri())
    assert shown.locator("#heads svg g").count() == 12 * 16
    assert not shown.locator(".theme").is_visible()
    context.close()
