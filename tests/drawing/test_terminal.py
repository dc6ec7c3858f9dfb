"""Terminal primitives: layouts, shades and receipts."""

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from thalweg.drawing.terminal import SHADES, Fitted, fitted_table, receipt_text, shade, shown
from thalweg.receipt import Check, Receipt


def printed(layout: object, width: int) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(layout)
    return console.file.getvalue().strip()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(("width", "shown"), [(30, "a wide layout"), (8, "medium"), (5, "tiny"), (3, "tin\ny")])
def test_layouts_when_the_window_shrinks_then_the_first_that_fits_is_shown(width: int, shown: str) -> None:
    assert printed(Fitted(Text("a wide layout"), Text("medium"), Text("tiny")), width) == shown


def test_shade_when_stronger_then_is_darker_and_orange_if_negative() -> None:
    assert shade(0, False) == "dim"
    assert shade(SHADES, False) == "white on rgb(24,90,170) bold"
    assert shade(SHADES, True) == "white on rgb(214,96,10) bold"
    assert shade(1, False).startswith("black on ")


def test_receipt_when_shown_then_has_checks_figures_and_assumptions() -> None:
    receipt = Receipt({"sum_of_parts": Check((1e-7, 3e-6), 1e-4)}, {"gap": 0.25}, ("biases", "a\x1b[2J"))
    text = receipt_text(receipt, row_sum_error=2e-7).plain
    assert text == (
        "checked: sum of parts 3e-06 (allowed 1e-04), rows sum to 1 within 2e-07, gap 0.25\nassumed: biases; a\\x1b[2J"
    )


def test_receipt_when_rows_do_not_sum_to_one_then_does_not_claim_it() -> None:
    assert "rows sum" not in receipt_text(Receipt({"parity": Check((0.0,), 1e-5)}, {}, ()), 0.2).plain


def test_content_when_shown_then_only_styles_and_line_breaks_of_ours_reach_the_terminal() -> None:
    @shown
    def view(name: str) -> Text:
        return Text.assemble((f"a{name}", "bold"), "\n", name)

    stream = StringIO()
    Console(file=stream, force_terminal=True, color_system="standard", width=80).print(view("\x1b[31mx\x9b\x07\u202e"))
    assert stream.getvalue() == "\x1b[1ma\\x1b[31mx\\x9b\\u202e\x1b[0m\n\\x1b[31mx\\x9b\\u202e\n"


def test_table_when_the_window_is_narrow_then_is_one_line_per_row() -> None:
    table = fitted_table(("head", "can move", "null share"), [("1.0", "47%", Text("43%"))])
    assert printed(table, 40).split() == ["head", "can", "move", "null", "share", "1.0", "47%", "43%"]
    assert " ".join(printed(table, 24).split()) == "1.0: can move 47%, null share 43%"
