"""Max flow on the attention of a real encoder."""

import numpy as np
import pytest

from tests.real.models import minilm
from thalweg.aggregate.max_flow import flow_of_pair, max_flow
from thalweg.capture.record import Capture

pytestmark = pytest.mark.real

TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, and what is the use of a book, thought Alice, without "
    "pictures or conversations? "
)


def attention(count: int) -> np.ndarray:
    """Residual-augmented attention of a trained 6-layer encoder, [layer query key]."""
    subject = minilm()
    assert subject.tokenizer is not None
    capture = subject.capture(subject.tokenizer(TEXT * 4)["input_ids"][:count])
    assert isinstance(capture, Capture)
    weights = np.stack([block.weights().double().mean(0).numpy() for block in capture.blocks])
    return 0.5 * weights + 0.5 * np.eye(count)


@pytest.mark.parametrize("n", [12, 24])
def test_real_attention_when_solved_then_scipy_bounds_hold_the_value(n: int) -> None:
    maps = attention(n)
    exact, rounded = max_flow(maps), max_flow(maps, solver="scipy")
    assert exact.gap < 1e-11
    assert np.all(rounded.lower <= exact.value + 1e-12)
    assert np.all(rounded.upper >= exact.value - 1e-12)


@pytest.mark.parametrize("n", [64, 96])
def test_real_attention_when_solved_then_certified_and_flows_are_feasible(n: int) -> None:
    maps = attention(n)
    flow = max_flow(maps)
    assert flow.gap < 1e-11
    assert np.all(flow.value >= np.linalg.multi_dot(maps[::-1]) - 1e-12)
    for i, j in np.random.default_rng(0).integers(0, n, (20, 2)):
        pair = flow_of_pair(maps, i, j)
        assert pair.value == pytest.approx(flow.value[i, j], rel=1e-10)
        for edges, capacity in zip(pair.edges, maps, strict=True):
            assert np.all(edges <= capacity + 1e-12)
        for upper, lower in zip(pair.edges[1:], pair.edges[:-1], strict=True):
            np.testing.assert_allclose(upper.sum(0), lower.sum(1), atol=1e-12)
