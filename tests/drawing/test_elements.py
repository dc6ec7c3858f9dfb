"""HTML elements as text."""

from thalweg.drawing.elements import details, el, is_cell, section, table
from thalweg.drawing.escaping import Markup


def test_element_when_written_then_escapes_children_and_attributes_but_not_markup() -> None:
    inner = el("b", "<i>")
    assert inner == "<b>&lt;i&gt;</b>"
    assert el("p", inner, " & ", title='"x"') == '<p title="&quot;x&quot;"><b>&lt;i&gt;</b> &amp; </p>'


def test_element_when_attributes_have_underscores_then_are_written_with_hyphens() -> None:
    assert el("a", class_="x", aria_label="y", href=None) == '<a class="x" aria-label="y"></a>'


def test_element_when_empty_then_closes_itself_only_if_it_may() -> None:
    assert el("rect", x=1.0) == '<rect x="1"/>'
    assert el("div") == "<div></div>"
    assert el("circle", el("title", "t")) == "<circle><title>t</title></circle>"


def test_table_when_rows_hold_cells_and_values_then_first_is_a_heading_and_cells_stay() -> None:
    cell = el("td", "own", class_="words")
    shown = table("<caption>", ("name", "a", "b"), [("row", 1, cell)])
    assert is_cell(cell)
    assert not is_cell("<td>")
    assert "&lt;caption&gt;" in shown and "<caption><span>" in shown
    assert '<tr><th scope="row">row</th><td>1</td><td class="words">own</td></tr>' in shown
    assert shown.count('<th scope="col">') == 3


def test_section_when_written_then_is_labelled_by_its_heading() -> None:
    shown = section("run", "The run", "a note", Markup("<hr>"))
    assert shown == (
        '<section id="run" aria-labelledby="run-title"><h2 id="run-title">The run</h2>'
        '<p class="note">a note</p><hr></section>'
    )


def test_details_when_written_then_are_folded_under_their_title() -> None:
    assert details("a < b", "x") == "<details><summary>a &lt; b</summary>x</details>"
