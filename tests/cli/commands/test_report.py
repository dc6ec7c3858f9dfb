"""`thalweg report`: one page about one text."""

from pathlib import Path

from tests.command import Run
from tests.tiny import SENTENCE


def test_report_when_run_then_writes_page_and_figure_and_names_them(run: Run, model: str, tmp_path: Path) -> None:
    html, png = tmp_path / "page.html", tmp_path / "page.png"
    done = run(
        "report", SENTENCE, "--model", model, "--html", str(html), "--png", str(png), "--methods", "alti", "--words"
    )
    assert (done.code, done.err) == (0, f"wrote {html}\nwrote {png}\n")
    assert "alti" in done.out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")
