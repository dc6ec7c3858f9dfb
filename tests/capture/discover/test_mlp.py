"""MLPs, value paths and readouts are discovered in a model whose names say nothing."""

import pytest
import torch

from tests.capture.handmade import WIDTH, Handmade, handmade, traced
from thalweg.capture.discover.block import discover_blocks
from thalweg.capture.discover.mlp import FeedforwardWiring, StreamWiring, discover_stream
from thalweg.capture.missing import Missing
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Tap
from thalweg.capture.sites import AffineSite, ColumnsSite, CurveSite, GateSite, PoolSite

VALUES = ColumnsSite(tuple(range(2 * WIDTH, 3 * WIDTH)))


def discovered(model: Handmade) -> StreamWiring:
    with torch.no_grad():
        trace = traced(model)
        return discover_stream(model, trace, discover_blocks(model, trace))


def layer(stream: StreamWiring, number: int) -> FeedforwardWiring:
    wiring = stream.layers[number]
    assert isinstance(wiring, FeedforwardWiring)
    return wiring


def test_pre_norm_mlp_when_discovered_then_starts_with_its_norm_and_ends_the_layer() -> None:
    stream = discovered(handmade())
    assert stream.values == tuple(
        (NormSite(f"y.{number}.a", True, False), AffineSite(f"y.{number}.c"), VALUES) for number in range(2)
    )
    mlp = layer(stream, 0)
    assert (str(mlp.branch), str(mlp.output)) == ("output of y.0.g", "output of y.0")
    assert mlp.multiplier == 1
    assert mlp.norm is None
    assert mlp.branch_path == (
        NormSite("y.0.b", True, False), AffineSite("y.0.e"), CurveSite("gelu"), AffineSite("y.0.g")
    )  # fmt: skip
    assert stream.readout == (AffineSite("z"),)
    assert stream.taps >= {mlp.branch, mlp.total, mlp.output}


def test_post_norm_mlp_when_discovered_then_its_norm_ends_every_layer() -> None:
    stream = discovered(handmade(post_norm=True))
    for number in range(2):
        mlp = layer(stream, number)
        assert mlp.norm == NormSite(f"y.{number}.b", True, False)
        assert str(mlp.output) == f"output of y.{number}.b"
        assert mlp.branch_path == (AffineSite(f"y.{number}.e"), CurveSite("gelu"), AffineSite(f"y.{number}.g"))
    assert stream.values[0] == (AffineSite("y.0.c"), VALUES)


def test_parallel_mlp_when_discovered_then_starts_at_the_blocks_input() -> None:
    mlp = layer(discovered(handmade(parallel=True)), 1)
    assert mlp.total == mlp.output
    assert mlp.branch_path == (
        NormSite("y.1.a", True, False), AffineSite("y.1.e"), CurveSite("gelu"), AffineSite("y.1.g")
    )  # fmt: skip


def test_gated_mlp_when_discovered_then_its_gate_is_a_path_of_its_own() -> None:
    mlp = layer(discovered(handmade(gated=True, multiplier=0.3)), 0)
    norm = NormSite("y.0.b", True, False)
    assert mlp.multiplier == 0.3
    assert mlp.branch_path == (
        norm, AffineSite("y.0.e"), GateSite("silu", (norm, AffineSite("y.0.f"))), AffineSite("y.0.g")
    )  # fmt: skip


def test_readout_when_one_position_is_read_then_pools_first() -> None:
    assert discovered(handmade(per_token=False)).readout == (PoolSite(("first",)), AffineSite("z"))


def test_mlp_when_its_activation_is_unknown_then_only_its_path_is_missing() -> None:
    model = handmade()

    first = model.layer(0)
    first.mlp = lambda start: first.g(first.e(start).sin())
    stream = discovered(model)
    unknown = layer(stream, 0)
    assert isinstance(unknown.branch_path, Missing)
    assert "'y.0.g' is not a linear map" in unknown.branch_path.reason
    assert not isinstance(layer(stream, 1).branch_path, Missing)
    assert not isinstance(stream.readout, Missing)


def test_layer_when_something_else_is_added_then_its_end_is_missing_with_the_reason() -> None:
    stream = discovered(handmade(convolved=True))
    for number, missing in enumerate(stream.layers):
        assert isinstance(missing, Missing)
        assert f"'y.{number}'" in missing.reason
        assert "no module's output joins" in missing.reason
    assert stream.readout == Missing("the output of the last layer was not found")


@pytest.mark.parametrize("returned", ["nothing", "unknown"])
def test_readout_when_there_is_none_or_it_is_unknown_then_is_missing(returned: str) -> None:
    model = handmade()
    if returned == "nothing":
        model.register_forward_hook(lambda _, __, output: {"state": output["logits"]})
    else:
        model.z.register_forward_hook(lambda _, __, output: output.sin())
    with torch.no_grad():
        trace = traced(model)
        if returned == "nothing":
            trace.seen[:] = [seen for seen in trace.seen if seen.tap != Tap("", "out", "logits", 0)]
        stream = discover_stream(model, trace, discover_blocks(model, trace))
    assert isinstance(stream.readout, Missing)
    assert ("returns no logits" if returned == "nothing" else "how the logits are made") in stream.readout.reason


def test_values_when_made_in_an_unknown_way_then_are_missing() -> None:
    model = handmade()
    model.layer(1).c.register_forward_hook(lambda _, __, output: output.sin())
    missing = discovered(model).values[1]
    assert isinstance(missing, Missing)
    assert "'y.1'" in missing.reason
