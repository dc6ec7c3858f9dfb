"""Where hidden states are seen, and whether they can be replaced there."""

import torch

from tests.capture.handmade import Handmade, handmade, traced
from tests.families import BY_NAME
from thalweg.capture.discover.block import discover_blocks
from thalweg.capture.discover.mlp import discover_stream
from thalweg.capture.discover.states import StateTaps, find_states
from thalweg.capture.missing import Missing
from thalweg.capture.run import learn


def states(model: Handmade, stream_known: bool = True) -> StateTaps:
    with torch.no_grad():
        trace = traced(model)
        blocks = discover_blocks(model, trace)
        stream = discover_stream(model, trace, blocks) if stream_known else Missing("not searched")
    return find_states(model, trace, blocks, ["self", "self"], stream)


def test_states_when_layers_are_known_then_are_the_embeddings_and_each_layers_output() -> None:
    taps = states(handmade())
    assert [str(tap) for tap in taps.entries] == ["output of x"]
    assert [str(tap) for tap in taps.after] == ["output of y.0", "output of y.1"]
    assert taps.top == ""


def test_last_state_when_its_layers_end_is_unknown_then_is_the_blocks_output_and_says_so() -> None:
    taps = states(handmade(), stream_known=False)
    assert [str(tap) for tap in taps.after] == ["output of y.0", "input of y.1.b"]
    assert "output of the attention block" in taps.top


def test_states_when_every_block_reads_its_input_once_then_none_is_fixed() -> None:
    taps = states(handmade())
    assert [str(tap) for tap in taps.starts] == ["output of x", "output of y.0"]
    assert [str(tap) for tap in taps.ends] == ["output of y.1"]
    assert not taps.fixed


def test_state_when_only_a_module_inside_the_layer_sees_it_then_is_fixed() -> None:
    family = BY_NAME["mbart"]
    taps = learn(family.build(), family.inputs(1, 6)).states
    assert taps.fixed == {taps.starts[3], taps.starts[5]}  # before cross-attention


def test_states_when_the_model_is_an_encoder_decoder_then_have_an_entry_for_each_text() -> None:
    family = BY_NAME["bart"]
    taps = learn(family.build(), family.inputs(1, 6)).states
    assert len(taps.entries) == 2
    assert len(taps.after) == 6
    assert "encoder" in taps.entries[0].module
    assert "decoder" in taps.entries[1].module
    assert "the model returns" in taps.top
