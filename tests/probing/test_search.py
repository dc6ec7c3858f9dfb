"""The nearest candidate: fractional ties, lenient at least strict, search in chunks."""

import torch
from hypothesis import given as examples
from hypothesis import strategies as st
from torch import Tensor

from thalweg.probing.search import Nearest, similarity, take

EYE = torch.eye(4, dtype=torch.bool)


def test_ties_when_three_candidates_are_equal_then_each_has_a_third() -> None:
    candidates = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    near, slack = similarity("cosine", candidates, candidates)
    strict = Nearest.of(near, slack, EYE).hits
    lenient = Nearest.of(near, slack, torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).bool())
    torch.testing.assert_close(strict, torch.tensor([1 / 3, 1 / 3, 1 / 3, 1.0]))
    torch.testing.assert_close(lenient.hits, torch.tensor([2 / 3, 2 / 3, 1 / 3, 1.0]))


def test_similarity_when_compared_with_distances_then_has_the_same_order() -> None:
    generator = torch.Generator().manual_seed(0)
    estimates, candidates = torch.randn(5, 3, generator=generator), torch.randn(9, 3, generator=generator)
    near, _ = similarity("l2", estimates, candidates)
    expected = (estimates[:, None] - candidates[None]).square().sum(-1)
    assert torch.equal(near.argsort(1, descending=True), expected.argsort(1))
    near, _ = similarity("cosine", estimates, candidates)
    torch.testing.assert_close(near, torch.cosine_similarity(estimates[:, None], candidates[None], dim=-1))


def test_norm_when_compared_by_cosine_then_all_are_tied() -> None:
    lengths = take("norm", torch.tensor([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]))
    near, slack = similarity("cosine", lengths, lengths)
    torch.testing.assert_close(Nearest.of(near, slack, EYE).hits, torch.full((4,), 0.25))


@examples(st.integers(0, 10_000), st.integers(1, 11))
def test_candidates_when_searched_in_chunks_then_hits_are_those_of_one_search(seed: int, step: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    near = torch.randint(0, 4, (6, 12), generator=generator).double()  # many ties
    right = torch.rand(6, 12, generator=generator) < 0.3
    slack = torch.full((6, 1), 1e-9, dtype=torch.float64)
    at_once = Nearest.of(near, slack, right)
    merged: Nearest | None = None
    for start in range(0, 12, step):
        chunk = Nearest.of(near[:, start : start + step], slack, right[:, start : start + step], start)
        merged = chunk if merged is None else merged.merged(chunk, slack)
    assert merged is not None
    torch.testing.assert_close(merged.hits, at_once.hits)
    assert_among_best(near, merged.first)


@examples(st.integers(0, 10_000))
def test_lenient_when_more_candidates_are_right_then_is_not_less_than_strict(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randint(-2, 3, (8, 3), generator=generator).double()
    ids = torch.randint(0, 4, (8,), generator=generator)
    near, slack = similarity("l2", states, states.roll(1, 0))
    strict = Nearest.of(near, slack, torch.eye(8, dtype=torch.bool)).hits
    lenient = Nearest.of(near, slack, ids[:, None] == ids[None]).hits
    assert bool((lenient >= strict).all())


def assert_among_best(near: Tensor, first: Tensor) -> None:
    torch.testing.assert_close(near.gather(1, first[:, None])[:, 0], near.amax(1))


def test_lengths_when_they_differ_in_the_last_digits_then_are_distinguished() -> None:
    lengths = (10 + torch.linspace(0, 1e-2, 100))[:, None]
    near, slack = similarity("l2", lengths, lengths)
    assert float(Nearest.of(near, slack, torch.eye(100, dtype=torch.bool)).hits.min()) == 1.0
