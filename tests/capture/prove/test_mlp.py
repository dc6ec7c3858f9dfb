"""The residual stream of a pass: MLPs that add up, and errors where they do not or were not found."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

import thalweg as tw
from tests.capture.handmade import IDS, Handmade, handmade
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.missing import Missing
from thalweg.capture.prove.linear_path import LinearPath
from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.record import Capture
from thalweg.capture.run import capture_blocks, learn, replay
from thalweg.tokens import anonymous


def captured(model: Handmade, changed: Callable[[Anatomy], Anatomy] = lambda anatomy: anatomy) -> Capture:
    inputs = {"input_ids": IDS}
    anatomy = changed(learn(model, inputs))
    (blocks,), result = capture_blocks(model, inputs, anatomy, None)
    again = partial(replay, model, inputs, anatomy)
    return Capture(anonymous(len(IDS[0])), tuple(blocks), result["logits"][0], (), (), (), {}, again)


def with_layer(number: int, **changes: Any) -> Callable[[Anatomy], Anatomy]:
    def changed(anatomy: Anatomy) -> Anatomy:
        assert not isinstance(anatomy.stream, Missing)
        layers = list(anatomy.stream.layers)
        layer = layers[number]
        assert not isinstance(layer, Missing)
        layers[number] = replace(layer, **changes)
        return replace(anatomy, stream=replace(anatomy.stream, layers=tuple(layers)))

    return changed


@pytest.mark.parametrize("shape", [{}, {"post_norm": True}, {"parallel": True}, {"gated": True, "multiplier": 0.3}])
def test_stream_when_proved_then_leads_from_the_input_to_the_logits(shape: dict) -> None:
    model = handmade(**shape)
    capture = captured(model)
    assert capture.logits is not None
    with torch.no_grad():
        stream = residual_stream(capture)
        for block, layer, values in zip(capture.blocks, stream.layers, stream.values, strict=True):
            assert layer.block is block
            torch.testing.assert_close(block.output + layer.multiplier * layer.branch, layer.summed)
            torch.testing.assert_close(layer.norm(layer.summed) if layer.norm else layer.summed, layer.output)
            assert isinstance(layer.branch_path, LinearPath)
            torch.testing.assert_close(layer.branch_path.at(layer.branch_input)[1], layer.branch)
            assert isinstance(values, LinearPath)
            torch.testing.assert_close(values.at(block.input)[1], block.attention.value.transpose(0, 1).flatten(1))
        assert isinstance(stream.readout, LinearPath)
        torch.testing.assert_close(stream.readout.at(stream.layers[-1].output)[1], capture.logits)
    assert torch.equal(stream.layers[0].output, capture.blocks[1].input)
    start = capture.blocks[0].input if model.shape.parallel else capture.blocks[0].output
    assert stream.layers[0].branch_input is start


def test_layer_when_its_sum_is_wrong_then_the_error_names_block_error_and_tolerance() -> None:
    capture = captured(handmade(), with_layer(0, multiplier=0.9))
    with pytest.raises(tw.ProofError, match=r"'y\.0'.*output of y\.0.*relative error.*tolerance"):
        residual_stream(capture)


def test_weights_when_changed_since_the_capture_then_the_next_input_differs() -> None:
    model = handmade()
    capture = captured(model)
    with torch.no_grad():
        model.layer(0).g.bias.add_(1)
    with pytest.raises(tw.ProofError, match=r"input of 'y\.1'"):
        residual_stream(capture)


def test_parts_when_missing_then_the_error_gives_the_reason() -> None:
    unknown = Missing("nobody looked for it")
    with pytest.raises(tw.InputError, match="but nobody looked for it"):
        residual_stream(captured(handmade(), lambda anatomy: replace(anatomy, stream=unknown)))
    with pytest.raises(tw.InputError, match=r"every layer, but .*'y\.0'"):
        residual_stream(captured_convolved())
    stream = residual_stream(captured(handmade(), with_layer(1, branch_path=unknown)))
    assert stream.layers[1].branch_path == unknown


def captured_convolved() -> Capture:
    """A model whose layers end in an unknown way."""

    def changed(anatomy: Anatomy) -> Anatomy:
        assert not isinstance(anatomy.stream, Missing)
        lost = Missing("the end of 'y.0' was not found")
        return replace(anatomy, stream=replace(anatomy.stream, layers=(lost, anatomy.stream.layers[1])))

    return captured(handmade(), changed)
