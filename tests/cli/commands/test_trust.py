"""`thalweg trust`: certificates of all heads, of one head, and by length."""

import json
import re
from pathlib import Path

from tests.command import Run
from tests.payloads import decode, payload_of

LONG = "the keys to the cabinet are on the old table, and the man sees it: a very good film is not a bad movie!"


def test_trust_when_run_then_shows_every_head(run: Run, model: str) -> None:
    done = run("trust", LONG, "--model", model)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    assert re.search(r"\d+ of 12 heads", flat)
    assert "effective output" in flat
    assert done.out.count("○") + done.out.count("◐") + done.out.count("●") >= 12 + 3


def test_trust_when_a_head_is_chosen_then_shows_intervals_and_alternatives(run: Run, model: str) -> None:
    done = run("trust", LONG, "--layer", "0", "--head", "1", "--target", "cabinet", "--model", model)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    assert len(re.findall(r"cabinet \S+ 0\.\d+ 0\.\d+ to 0\.\d+", flat)) == 8
    for words in ("queries and keys free", "the same output", "random change"):
        assert words in flat
    assert "NOT PROVED" not in flat


def test_trust_when_a_head_is_drawn_then_its_page_and_figure_are_written(run: Run, model: str, tmp_path: Path) -> None:
    page, figure = tmp_path / "head.html", tmp_path / "head.png"
    options = ("--layer", "0", "--head", "1", "--html", str(page), "--png", str(figure))
    assert run("trust", LONG, *options, "--model", model).code == 0
    assert decode(payload_of(page.read_text(encoding="utf-8")))[0]["alternatives"]["head"] == 1
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_trust_when_written_as_json_then_holds_every_head(run: Run, model: str) -> None:
    certificate = json.loads(run("trust", LONG, "--model", model, "--json", "-").out)
    assert len(certificate["heads"]) == 12
    assert set(certificate["receipt"]["checks"]) == {"parity", "sum_of_parts", "chain", "effective_output"}
    report = json.loads(run("trust", LONG, "--layer", "1", "--head", "0", "--model", model, "--json", "-").out)
    assert len(report["intervals"]["intervals"]) == 8
    assert report["alternatives"]["polytope"]["moved"] <= report["alternatives"]["polytope"]["allowed"]


def test_trust_when_there_are_lengths_then_shows_a_row_for_each(run: Run, model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(f"\ufeff{LONG}\n\n{LONG}\n", encoding="utf-8")
    done = run("trust", "--by-length", "--file", str(file), "--model", model)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines() if line.split()[0].isdigit()] == ["8", "16", "32"]
