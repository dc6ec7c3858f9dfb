"""Witnesses of what can move: feasible in every family, and heads ranked as exact programs rank them."""

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.identifiability.heads import LONG, head_block, random_head, random_values
from tests.identifiability.orders import Exact, agreement, exact_widths, farthest_moves
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.movable import SAMPLED_ROWS, moved_mass, sampled_rows, witnesses
from thalweg.identifiability.polytope import polytope

CLEARLY = 0.6  # rank correlation; the null share's is negative on these texts
TEXTS = (
    LONG,
    "the film is too long and too loud, yet somehow the actors, all of them new to me, make this tired story of a "
    "thief and his daughter feel fresh again, at least until the last dull half hour.",
    "bad bad bad bad movie bad bad plot bad bad acting bad bad bad jokes bad bad music bad bad bad ending bad bad bad.",
)


def all_rows(queries: int) -> torch.Tensor:
    return torch.arange(queries)


def test_witness_when_two_tokens_have_the_same_value_then_one_takes_almost_all_of_the_others_weight() -> None:
    values = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    weights = torch.tensor([[[0.6, 0.1, 0.3]]], dtype=torch.float64)
    block = head_block(values, weights=weights)
    (row,) = witnesses(value_space(block), torch.tensor([0]), weights)[0]
    assert float(row[0]) < 0.01
    assert row.tolist()[1:] == pytest.approx([0.7 - float(row[0]), 0.3])


@pytest.mark.parametrize("name", ["bert", "gpt2", "gpt_oss", "gemma2", "t5", "vit"])
def test_witnesses_when_attention_is_open_then_move_mass_but_neither_output_nor_sum(name: str) -> None:
    moved_rows = 0
    for block in captured(BY_NAME[name]).blocks:
        space, weights = value_space(block), block.weights()
        queries = all_rows(weights.shape[1])
        others = witnesses(space, queries, weights)
        values, change = block.attention.values().double().cpu(), others - weights.double()
        assert float(others.min()) >= 0
        assert bool((others[:, ~space.supports] == 0).all())
        assert float((change @ values).norm(dim=-1).max()) <= 1e-5 * float(values.norm(dim=(1, 2)).max())
        if not space.sinks:
            assert float(change.sum(-1).abs().max()) < 1e-5
        assert float(others.sum(-1).max()) < 1 + 1e-5
        mass = moved_mass(weights, others)
        assert bool((mass[space.ambiguity == 0] == 0).all())
        moved_rows += int((mass > 0.01).sum())
        head, query = divmod(int(mass.argmax()), len(queries))
        assert float(mass.max()) <= polytope(space, head, query, weights[head, query]).farthest()[1] + 1e-6
    assert moved_rows


def test_witnesses_when_rounding_changes_the_output_then_are_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    block = random_head(20, 4, 4)
    space, weights = value_space(block), block.weights()
    queries = all_rows(weights.shape[1])
    assert float(moved_mass(weights, witnesses(space, queries, weights)).min()) > 0
    monkeypatch.setattr("thalweg.identifiability.movable.JITTER", 1.0)  # directions that leave the output are kept
    others = witnesses(space, queries, weights)
    assert float(((others - weights) @ space.matrix).norm(dim=-1).max()) <= space.cut


def test_witnesses_when_rows_are_split_then_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    block = head_block(random_values(2, 12, 3))
    space, weights = value_space(block), block.weights()
    whole = witnesses(space, all_rows(12), weights)
    monkeypatch.setattr("thalweg.identifiability.movable.CHUNK_ELEMENTS", 1)
    assert torch.allclose(witnesses(space, all_rows(12), weights), whole, atol=1e-9)


def test_sampled_rows_when_a_text_is_long_then_reach_from_the_first_to_the_last() -> None:
    assert sampled_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = sampled_rows(512).tolist()
    assert (len(set(rows)), rows[0], rows[-1]) == (SAMPLED_ROWS, 0, 511)


@pytest.mark.parametrize("text", TEXTS, ids=["long", "longer", "repeated"])
def test_order_when_compared_with_exact_interval_widths_then_agrees(bundled: tw.Subject, text: str) -> None:
    capture = bundled.capture_one(text)
    assert agreement([capture], exact_widths(capture, 4)) > CLEARLY


def test_order_when_compared_with_the_farthest_alternatives_then_agrees(bundled: tw.Subject) -> None:
    capture = bundled.capture_one(LONG)
    assert agreement([capture], farthest_moves(capture, 8)) > CLEARLY


@pytest.mark.parametrize("exact", [exact_widths, farthest_moves])
def test_order_when_heads_belong_to_tiny_random_models_then_agrees(exact: Exact) -> None:
    captures = [captured(BY_NAME[name]) for name in ("bert", "gpt2", "bloom", "gpt_oss")]  # heads of one hardly differ
    reference = [figure for capture in captures for figure in exact(capture, 4)]
    assert agreement(captures, reference) > CLEARLY
