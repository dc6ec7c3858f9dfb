"""The page of a summary: a header and one section per question."""

from thalweg.corpus.page.agreement_section import agreement_section
from thalweg.corpus.page.check_section import check_section
from thalweg.corpus.page.example_section import example_section
from thalweg.corpus.page.head_section import head_section
from thalweg.corpus.page.length_section import length_section
from thalweg.corpus.page.mixing_section import mixing_section
from thalweg.corpus.page.run_section import run_section
from thalweg.corpus.page.token_section import token_section
from thalweg.corpus.page.word_section import word_section
from thalweg.corpus.summary import Summary
from thalweg.drawing.elements import el
from thalweg.drawing.page import static_page

SECTIONS = (
    word_section,
    run_section,
    mixing_section,
    length_section,
    head_section,
    token_section,
    agreement_section,
    check_section,
    example_section,
)


def summary_page(summary: Summary) -> str:
    """A self-contained HTML file."""
    first, *rest = summary.sentences()
    top = el(
        "div",
        el("p", "thalweg", class_="brand"),
        el("p", f"{summary.provenance['model']} · corpus", class_="model"),
        el("button", type="button", class_="theme", hidden=""),
        class_="top",
    )
    header = el("header", top, el("h1", first), el("p", " ".join(rest), class_="lead") if rest else "")
    body = el("main", header, *(section(summary) for section in SECTIONS))
    return static_page(f"Thalweg: {first}", body)
