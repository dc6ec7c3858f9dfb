"""Renew the pictures in docs/images (needs chromium).

    python -m scripts.screenshots ../shared/data/sst2_sentences/dev.tsv

The file has the texts of the corpus summary.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import thalweg as tw

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TEXT = "a gorgeous, witty, seductive movie that never quite manages to make its characters as real as its places."
WIDTH = 1180
COLOURS = 256  # of a picture, which keeps the files small


def capture(page: Page, name: str, first: str, last: str, height: int | None = None) -> None:
    """Save the part of a page between two elements, 13 pixels around it included."""
    boxes = [page.locator(selector).bounding_box() for selector in (first, last)]
    assert boxes[0] is not None and boxes[1] is not None
    top = max(0.0, boxes[0]["y"] - 13)
    bottom = boxes[1]["y"] + boxes[1]["height"] + 13
    clip = {"x": 0, "y": top, "width": WIDTH, "height": min(bottom - top, height or bottom)}
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)  # pyright: ignore[reportArgumentType]
    with Image.open(IMAGES / name) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(IMAGES / name, optimize=True)


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        path, summary = Path(folder) / "report.html", Path(folder) / "summary.html"
        subject = tw.load()
        tw.report(subject, TEXT, intervals=True).save(path)
        rows = tw.run_corpus(subject, sys.argv[1], Path(folder) / "rows", ["attention_rollout", "alti"])
        rows.summary().save(summary)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme=scheme)
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            if scheme == "light":
                capture(page, "report.png", "header", "#river")
                capture(page, "report_methods.png", "#methods", "#methods")
            else:
                capture(page, "report_heads.png", "#heads", "#heads", 842)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(summary.as_uri())
        capture(page, "corpus.png", "header", "#words")
        browser.close()


if __name__ == "__main__":
    main()
