"""Where hidden states are seen, and dependencies that bypass them."""

import torch

from tests.capture.handmade import IDS, Handmade, handmade, traced
from tests.families import BY_NAME
from thalweg.capture.discover.block import discover_blocks
from thalweg.capture.discover.mlp import discover_stream
from thalweg.capture.discover.states import StateTaps, find_bypasses, find_states
from thalweg.capture.missing import Missing
from thalweg.capture.run import learn


def states(model: Handmade, stream_known: bool = True) -> StateTaps:
    with torch.no_grad():
        trace = traced(model)
        blocks = discover_blocks(model, trace)
        stream = discover_stream(model, trace, blocks) if stream_known else Missing("not searched")
    return find_states(model, trace, blocks, ["self", "self"], stream)


def bypasses(model: Handmade) -> tuple[str | None, str | None]:
    return find_bypasses(model, {"input_ids": IDS}, states(model), ["self", "self"], through_registry=False)


def test_states_when_layers_are_known_then_are_the_embeddings_and_each_layers_output() -> None:
    taps = states(handmade())
    assert [str(tap) for tap in taps.entries] == ["output of x"]
    assert [str(tap) for tap in taps.after] == ["output of y.0", "output of y.1"]
    assert taps.top == ""


def test_last_state_when_its_layers_end_is_unknown_then_is_the_blocks_output_and_says_so() -> None:
    taps = states(handmade(), stream_known=False)
    assert [str(tap) for tap in taps.after] == ["output of y.0", "input of y.1.b"]
    assert "output of the attention block" in taps.top


def test_bypasses_when_everything_flows_through_the_states_then_are_none() -> None:
    assert bypasses(handmade()) == (None, None)
    assert bypasses(handmade(post_norm=True)) == (None, None)


def test_bypasses_when_a_layer_reads_the_state_below_the_last_then_it_is_described() -> None:
    model, kept = handmade(), []
    model.layer(0).register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    model.layer(1).g.register_forward_hook(lambda _, __, output: output + kept[-1])
    entry, layer = bypasses(model)
    assert entry is None
    assert layer == "the output of y.1 depends on more than the state of the layer before it"


def test_bypasses_when_a_layer_embeds_the_text_again_then_it_is_described() -> None:
    model = handmade()
    model.layer(1).g.register_forward_hook(lambda _, __, output: output + model.x(IDS))
    entry, layer = bypasses(model)
    assert layer is None
    assert entry == "the output of y.1 depends on the text along a path that does not pass the output of x"


def test_states_when_the_model_is_an_encoder_decoder_then_have_an_entry_for_each_text() -> None:
    family = BY_NAME["bart"]
    taps = learn(family.build(), family.inputs(1, 6)).states
    assert len(taps.entries) == 2
    assert len(taps.after) == 6
    assert "encoder" in taps.entries[0].module
    assert "decoder" in taps.entries[1].module
    assert "the model returns" in taps.top
