"""A pass is learnt, captured, proved and replayed; padding and pooling are told apart."""

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForSequenceClassification

import thalweg as tw
from tests.capture.handmade import IDS, TOKENS, WIDTH, Handmade, handmade
from tests.families import BY_NAME, randomise
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.missing import Missing
from thalweg.capture.observe import StopPassError, Tap
from thalweg.capture.record import Capture
from thalweg.capture.run import Lengths, arguments_of, audit, capture_blocks, check_ready, learn, replay

INPUTS = {"input_ids": IDS}


def test_model_when_learnt_captured_and_proved_then_its_blocks_add_up() -> None:
    model = handmade()
    anatomy = learn(model, INPUTS)
    assert anatomy.roles == ("self", "self")
    assert not anatomy.through_registry
    assert not isinstance(anatomy.stream, Missing)
    (blocks,), result = capture_blocks(model, INPUTS, anatomy, None)
    for block in blocks:
        assert block.parity < 1e-6
        assert block.sum_error < 1e-6
        heads = torch.einsum("hqk,hkv,hvd->qd", block.weights(), block.attention.values(), block.projection)
        assert block.bias is not None
        torch.testing.assert_close(block.input + heads + block.bias, block.output)
    with torch.no_grad():
        assert torch.equal(result["logits"], model(IDS)["logits"])


def test_batch_when_padded_then_each_example_is_as_long_as_it_is() -> None:
    family = BY_NAME["llama"]
    model = family.build()
    anatomy = learn(model, family.inputs(1, 6))
    examples, _ = capture_blocks(model, family.inputs(2, 6), anatomy, [Lengths(None, 6), Lengths(None, 4)])
    assert [len(blocks[0].input) for blocks in examples] == [6, 4]
    assert examples[1][0].attention.weights().shape == (4, 4, 4)
    assert [blocks[0].keys for blocks in examples] == [slice(0, 6), slice(0, 4)]


def test_encoder_decoder_when_captured_then_source_and_target_follow_each_other() -> None:
    family = BY_NAME["bart"]
    model = family.build()
    anatomy = learn(model, family.inputs(1, 6))
    assert isinstance(anatomy.stream, Missing)
    assert "encoder-decoder" in anatomy.stream.reason
    (blocks,), _ = capture_blocks(model, family.inputs(1, 6), anatomy, None)
    assert [block.role for block in blocks] == ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    cross = blocks[-1]
    assert (cross.queries, cross.keys) == (slice(6, 13), slice(0, 6))


@pytest.mark.parametrize(("per_token", "pooling"), [(True, None), (False, "first")])
def test_pooling_when_logits_are_read_then_is_the_position_they_depend_on(per_token: bool, pooling: str | None) -> None:
    assert learn(handmade(per_token=per_token), INPUTS).pooling == pooling


def test_pooling_when_all_positions_count_or_the_last_does_then_is_so() -> None:
    class Pooled(Handmade):
        def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
            logits = super().forward(input_ids)["logits"]
            return {"logits": logits[:, -1] if self.last else logits.mean(1)}

    for last in (True, False):
        model = handmade()
        model.__class__ = Pooled
        model.last = last  # pyright: ignore[reportArgumentType]
        assert learn(model, INPUTS).pooling == ("last" if last else "all")


def test_replay_when_attention_is_handled_then_the_model_continues_with_its_answer() -> None:
    model = handmade()
    anatomy = learn(model, INPUTS)
    with torch.no_grad():
        same = replay(model, INPUTS, anatomy, lambda call: call.run())
        silent = replay(model, INPUTS, anatomy, lambda call: (0 * call.run()[0], None))
        assert torch.equal(same.result["logits"], model(IDS)["logits"])
    assert set(same.tensors) == anatomy.taps
    block = anatomy.blocks[0]
    bias = model.layer(0).d.bias
    torch.testing.assert_close(silent.tensors[block.total], silent.tensors[block.residual] + bias)


class LastState:
    """Keeps the states after each layer, and stops at the last one."""

    def __init__(self) -> None:
        self.states: list[Tensor] = []

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        self.last = anatomy.states.after[-1]
        return set(anatomy.states.after)

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        self.states.append(value)
        if tap == self.last:
            raise StopPassError
        return value + 1


def test_replay_when_the_handler_edits_states_then_later_ones_change() -> None:
    model = handmade()
    handler = LastState()
    record = replay(model, INPUTS, learn(model, INPUTS), handler)
    assert record.result is None
    assert [tuple(state.shape) for state in handler.states] == [(1, TOKENS, WIDTH)] * 2
    torch.testing.assert_close(handler.states[1], model.layer(1)(handler.states[0] + 1))
    assert handler.states[1].requires_grad  # the caller has gradients enabled


def test_model_when_it_has_no_attention_then_is_refused() -> None:
    class Plain(nn.Module):
        def forward(self, states: Tensor) -> Tensor:
            return states + 1

    with pytest.raises(tw.ModelError, match="no attention call was seen in Plain"):
        learn(Plain(), {"states": torch.ones(1, 3, 2)})


def test_model_when_made_in_inference_mode_then_is_learnt_and_proved_all_the_same() -> None:
    with torch.inference_mode():
        model = handmade()
    anatomy, proved = audit(model, INPUTS, learn(model, INPUTS))
    assert "between all positions and layers" in proved
    (blocks,), _ = capture_blocks(model, INPUTS, anatomy, None)
    assert all(block.chain_error is not None and block.chain_error <= block.chain_tolerance for block in blocks)


def test_pass_when_it_makes_other_calls_than_the_learnt_one_then_is_refused() -> None:
    model = handmade()
    anatomy = learn(model, INPUTS)
    model.y = nn.ModuleList([*model.y, model.layer(0)])
    with pytest.raises(tw.ModelError, match=r"made 3 attention calls.* has 2"):
        capture_blocks(model, INPUTS, anatomy, None)


def test_readiness_when_a_module_is_in_training_mode_then_is_refused() -> None:
    model = handmade()
    check_ready(model)
    model.layer(1).b.train()
    with pytest.raises(tw.ModelError, match=r"training mode.*model\.eval\(\)"):
        check_ready(model)


def test_arguments_when_the_model_has_a_cache_then_it_is_switched_off() -> None:
    class Caching(nn.Module):
        def forward(self, input_ids: Tensor, use_cache: bool = True, return_dict: bool = False) -> None: ...

    assert arguments_of(handmade(), INPUTS) == INPUTS
    assert arguments_of(Caching(), INPUTS) == {**INPUTS, "use_cache": False, "return_dict": True}


def test_classifier_when_its_padding_id_is_not_zero_then_answers_in_a_batch_as_alone() -> None:
    config = LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=3,
    )  # fmt: skip
    model = LlamaForSequenceClassification(config).eval()
    randomise(model, torch.Generator().manual_seed(0))
    subject = tw.load(model)
    rows = [[7, 8, 9, 10, 11, 12], [20, 21, 22]]
    together = subject.capture(rows)
    assert isinstance(together, list)
    for row, capture in zip(rows, together, strict=True):
        alone = subject.capture(row)
        assert isinstance(alone, Capture)
        torch.testing.assert_close(capture.logits, alone.logits, atol=1e-5, rtol=1e-4)
        assert capture.readout == (len(row) - 1,)


def test_decoder_when_padded_then_its_padding_is_cut_away() -> None:
    family = BY_NAME["bart"]
    subject = tw.load(family.build())
    inputs = family.inputs(1, 6)
    alone = subject.capture({**inputs, "decoder_input_ids": inputs["decoder_input_ids"][:, :4]})
    padded = torch.cat([torch.zeros(1, 2, dtype=torch.long), inputs["decoder_input_ids"][:, :4]], 1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]])
    capture = subject.capture({**inputs, "decoder_input_ids": padded, "decoder_attention_mask": mask})
    assert isinstance(alone, Capture)
    assert isinstance(capture, Capture)
    assert len(capture.tokens) == len(alone.tokens)
    assert capture.readout == alone.readout
    torch.testing.assert_close(capture.logits, alone.logits, atol=1e-5, rtol=1e-4)


def test_capture_when_an_mlp_does_nothing_then_still_works() -> None:
    model = BY_NAME["bert"].build()
    with torch.no_grad():
        model.get_parameter("bert.encoder.layer.1.intermediate.dense.weight").zero_()
        model.get_parameter("bert.encoder.layer.1.intermediate.dense.bias").zero_()
    result = tw.explain(tw.load(model), BY_NAME["bert"].inputs(1, 8), "raw_attention")
    assert result.row_sum_error < 1e-5
