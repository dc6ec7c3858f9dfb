"""Receipts: the worst error, combination, and a way through JSON."""

import json
from math import inf, isnan, nan

from thalweg.files.records import read_as
from thalweg.receipt import Check, Receipt

FIRST = Receipt({"parity": Check((0.1, 0.3), 0.5)}, {"rank": 3.0}, ("a residual of one half",))
SECOND = Receipt({"parity": Check((0.2, 0.2), 0.4)}, {"rank": 2.0}, ("a residual of one half", "no dropout"))


def test_check_when_an_error_is_nan_then_so_is_the_worst() -> None:
    assert Check((0.1, 0.3), 0.5).worst == 0.3
    assert Check((), 0.5).worst == 0
    assert isnan(Check((0.1, nan), 0.5).worst)


def test_receipts_when_combined_then_have_the_larger_errors_and_all_assumptions() -> None:
    both = FIRST.worse(SECOND)
    assert both.checks == {"parity": Check((0.2, 0.3), 0.5)}
    assert both.figures == {"rank": 3.0}
    assert both.assumed == ("a residual of one half", "no dropout")


def test_receipt_when_sent_through_json_then_is_the_same() -> None:
    assert read_as(Receipt, json.loads(json.dumps(FIRST.to_dict()))) == FIRST


def test_receipt_when_errors_are_not_finite_then_come_back_as_nan() -> None:
    broken = Receipt({"parity": Check((nan, inf, 0.1), 0.5)}, {}, ())
    written = json.dumps(broken.to_dict(), allow_nan=False)
    errors = read_as(Receipt, json.loads(written)).checks["parity"].errors
    assert [isnan(error) for error in errors] == [True, True, False]
