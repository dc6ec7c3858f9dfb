"""Contributions of all blocks as steps over all tokens."""

from functools import partial

import torch

from tests.decompose.handmade import capture_of, handmade
from thalweg.decompose.contribution_graph import contribution_graph, step_of
from thalweg.decompose.contributions import norms, proximity

WEIGHTS = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
VALUES = torch.tensor([[2.0, 0.0], [3.0, 4.0]])
STATES = torch.tensor([[0.0, 1.0], [0.0, 0.0]])


def test_step_when_nothing_contributes_then_every_token_keeps_itself_and_is_counted() -> None:
    block = handmade(WEIGHTS, VALUES, STATES)
    step, empty = step_of(capture_of(2, block), block, torch.zeros(2, 2))
    assert step.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert empty == 2


def test_step_when_there_is_a_residual_column_then_it_stays_with_its_row() -> None:
    block = handmade(WEIGHTS, VALUES, STATES, queries=slice(2, 4), keys=slice(0, 2))
    step, empty = step_of(capture_of(4, block), block, torch.tensor([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0]]))
    assert step.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0.25, 0.5, 0.25, 0], [0, 0, 0, 1]]
    assert empty == 1


def test_graph_when_blocks_are_measured_then_has_one_step_of_shares_and_the_errors_for_each() -> None:
    block = handmade(WEIGHTS, VALUES, STATES)
    graph = contribution_graph(capture_of(2, block, block), (block, block), norms)
    assert len(graph.steps) == len(graph.parity) == len(graph.errors) == 2
    torch.testing.assert_close(graph.steps[0], torch.tensor([[1 / 6, 5 / 6], [2 / 7, 5 / 7]]))
    assert graph.figures.keys() == {"parts error"}
    assert graph.figures["parts error"] < 1e-6


def test_graph_when_rows_are_empty_then_a_figure_counts_them() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.zeros(2, 2), torch.zeros(2, 2))
    graph = contribution_graph(capture_of(2, block), (block,), partial(proximity, measure="l1"))
    assert graph.figures["rows without any contribution"] == 2
