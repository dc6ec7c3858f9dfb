"""Checks of blocks by hand."""

from dataclasses import replace

import torch

from tests.decompose.handmade import handmade
from thalweg.capture.checks import block_checks
from thalweg.receipt import Check

BLOCK = handmade(torch.eye(2), torch.ones(2, 3), torch.ones(2, 3))
BLOCKS = [
    replace(BLOCK, parity=1e-7, sum_error=2e-7, tolerance=1e-5),
    replace(BLOCK, parity=3e-7, sum_error=0.0, tolerance=2e-5),
]


def test_checks_when_made_of_blocks_then_hold_all_errors_and_the_largest_tolerance() -> None:
    assert block_checks(BLOCKS) == {
        "parity": Check((1e-7, 3e-7), 4e-5),
        "sum_of_parts": Check((2e-7, 0.0), 2e-5),
    }


def test_parity_when_other_rows_were_read_then_is_theirs() -> None:
    assert block_checks(BLOCKS, (5e-7,))["parity"] == Check((5e-7,), 4e-5)
