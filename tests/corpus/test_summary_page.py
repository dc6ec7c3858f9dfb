"""The page of a summary: complete, self-contained, and safe against texts that look like HTML."""

import html
import re
from pathlib import Path

import pytest

import thalweg as tw
from tests.corpus.folders import hand_made, sentences, write_folder
from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.run import run_corpus
from thalweg.corpus.summarise import summarise

ATTACK = "</script><img src=x onerror=alert(1)>"
METHODS = ["attention_rollout", "alti:layer=9", "alti"]
TITLES = [
    "Words by class",
    "The run",
    "Mixing by layer",
    "Null share against length",
    "Certificates of heads",
    "Largest sources",
    "Agreement between methods",
    "Checks",
    "Examples",
]


@pytest.fixture(autouse=True)
def duckdb() -> None:
    pytest.importorskip("duckdb")


@pytest.mark.parametrize("certificate", ["values", "full"])
def test_page_when_written_for_a_run_then_has_every_section(
    bundled: tw.Subject, tmp_path: Path, certificate: str
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join([*sentences(12), " ".join(sentences(12))]))
    run_corpus(bundled, tmp_path / "texts.txt", tmp_path / "out", METHODS, certificate=certificate)  # pyright: ignore
    summary = tw.Corpus.load(tmp_path / "out").summary()
    page = summary.to_html()
    assert re.findall(r"<h2[^>]*>([^<]*)", page) == TITLES
    for text in (summary.digest, summary.identity["weights"], "thalweg-default", *METHODS):
        assert html.escape(text) in page
    assert f"{100 * summary.verdicts['identifiable'] / sum(summary.verdicts.values()):.1f}%" in page


def test_page_when_written_then_is_self_contained() -> None:
    page = hand_made_summary().to_html()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert " style=" not in page and "innerHTML" not in page  # the page's own policy forbids both
    assert "<h1>20 texts.</h1>" in page


def test_page_when_data_looks_like_html_then_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / ATTACK.replace("/", "")
    sources = [{"position": 0, "token": f"{ATTACK}\x1b‮", "score": 1.0}]
    shares = {"own": 0.5, "not_own": 0.5, "special": 0.1, "punctuation": 0.1, "content": 0.1}
    rows = [
        hand_made(
            0,
            tokens=20,
            agreement=[{"method": ATTACK, "other": "alti", "correlation": 0.5}],
            layers=[{"method": ATTACK, "layer": 0, **shares}],
            prediction=ATTACK,
            content=ATTACK,
            words=[{"word": ATTACK, "start": 0}],
            methods=[{"method": ATTACK, "error": None, "sources": sources, "word_shares": [1.0]}],
        ),
        hand_made(1, checks=[{"method": ATTACK, "identity": ATTACK, "worst": 0.0, "allowed": 1.0}]),
        hand_made(2, error=ATTACK),
        *(
            hand_made(
                number,
                prediction=ATTACK * (number % 2),
                content=ATTACK,
                words=[{"word": ATTACK, "start": 0}],
                methods=[{"method": ATTACK, "error": None, "word_shares": [number % 2 - 0.5]}],
            )
            for number in range(3, 30)
        ),
    ]
    write_folder(folder, rows, model=ATTACK, methods=[ATTACK, "alti"], target=ATTACK)
    page = summarise(folder).to_html()
    assert page.count(html.escape(ATTACK)) > 12
    assert "<img" not in page and page.count("</script") == 1
    assert "\x1b" not in page and "‮" not in page


def test_page_when_every_text_failed_then_explains_what_is_missing(tmp_path: Path) -> None:
    rows = [hand_made(number, error=f"text {number} is bad") for number in range(3)]
    write_folder(tmp_path, rows, methods=["alti", "attention_flow"])
    page = summarise(tmp_path).to_html()
    for text in (
        "3 texts, 3 failed.",
        "No method of this run has a map for every layer of any text.",
        "No text of this run has a certificate",
        "No text has scores of any method.",
        "No text has scores of two methods.",
        "Nothing was checked",
    ):
        assert text in page
    assert "<figure" not in page
