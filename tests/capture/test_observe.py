"""A watched pass: tensors at module boundaries, edits, early stops, errors, and hooks that are gone afterwards."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import thalweg as tw
from tests.capture.handmade import HEADS, IDS, TOKENS, WIDTH, handmade
from thalweg.capture.observe import StopPassError, Tap, watch


class Twice(nn.Module):
    """Calls the same layer twice, and returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        nn.init.eye_(self.inner.weight)

    def forward(self, state: Tensor, scale: Tensor) -> tuple[Tensor, int]:
        return self.inner(self.inner(state) * scale), 1


INPUTS = {"state": torch.tensor([[1.0, 2.0]]), "scale": torch.tensor(3.0)}
FIRST, SECOND = Tap("inner", "out", None, 0), Tap("inner", "in", 0, 1)


def no_hooks(model: nn.Module) -> bool:
    return not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_taps_when_left_out_then_every_float_tensor_is_seen_in_order() -> None:
    model = Twice()
    record = watch(model, INPUTS, through_registry=False)
    assert [str(seen.tap) for seen in record.seen] == [
        "input of the model", "input of the model", "input of inner", "output of inner", "input of inner",
        "output of inner", "output of the model",
    ]  # fmt: skip
    assert [seen.tap.slot for seen in record.seen] == ["state", "scale", 0, None, 0, None, 0]
    assert [seen.tap.call for seen in record.seen] == [0, 0, 0, 0, 1, 1, 0]
    assert [seen.time for seen in record.seen] == list(range(1, 8))
    assert record.tensors[SECOND].tolist() == [[3.0, 6.0]]
    assert no_hooks(model)


def test_taps_when_chosen_then_only_they_are_kept_as_copies() -> None:
    record = watch(Twice(), INPUTS, {SECOND}, through_registry=False)
    assert set(record.tensors) == {SECOND}
    assert record.result[0].tolist() == [[3.0, 6.0]]
    assert record.tensors[SECOND].data_ptr() != record.result[0].data_ptr()


@pytest.mark.parametrize("tap", [FIRST, SECOND])
def test_edit_when_it_replaces_a_tensor_then_the_model_continues_with_it(tap: Tap) -> None:
    def edit(tap: Tap, value: Tensor) -> Tensor:
        return torch.ones_like(value)

    record = watch(Twice(), INPUTS, {tap}, edit=edit, through_registry=False)
    assert record.result[0].tolist() == ([[3.0, 3.0]] if tap == FIRST else [[1.0, 1.0]])
    assert record.seen == []


def test_edit_when_it_replaces_part_of_a_result_then_the_rest_stays() -> None:
    record = watch(
        Twice(), INPUTS, {Tap("", "out", 0, 0)}, edit=lambda _, value: torch.zeros_like(value), through_registry=False
    )
    state, number = record.result
    assert state.tolist() == [[0.0, 0.0]]
    assert number == 1


def test_pass_when_stopped_then_keeps_what_was_seen_and_has_no_result() -> None:
    model, reached = Twice(), []

    def edit(tap: Tap, value: Tensor) -> Tensor:
        reached.append(tap)
        if tap == SECOND:
            raise StopPassError
        return value

    record = watch(model, INPUTS, edit=edit, through_registry=False)
    assert record.result is None
    assert reached[-1] == SECOND
    assert no_hooks(model)


def test_model_when_it_cannot_run_then_the_error_names_the_shapes() -> None:
    model = Twice()
    with pytest.raises(tw.InputError, match=r"state \(1, 5\).*RuntimeError"):
        watch(model, {**INPUTS, "state": torch.ones(1, 5)}, through_registry=False)
    assert no_hooks(model)


def test_attention_calls_when_watched_then_are_recorded_with_their_results() -> None:
    record = watch(handmade(), {"input_ids": IDS}, [], through_registry=False)
    assert [tuple(output.shape) for _, _, output in record.calls] == [(1, TOKENS, HEADS, WIDTH // HEADS)] * 2
    assert record.seen == []
    nothing = watch(handmade(), {"input_ids": IDS}, [], lambda call: (0 * call.run()[0], None), through_registry=False)
    assert all(not output.any() for _, _, output in nothing.calls)
    assert not torch.allclose(nothing.result["logits"], record.result["logits"])


def test_hooks_when_another_thread_runs_the_model_then_do_not_act() -> None:
    model = Twice()
    elsewhere: list[list[list[float]]] = []

    def edit(tap: Tap, value: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as pool:
            elsewhere.append(pool.submit(lambda: model(**INPUTS)[0].tolist()).result())
        return torch.zeros_like(value)

    record = watch(model, INPUTS, {FIRST}, edit=edit, through_registry=False)
    assert record.result[0].tolist() == [[0.0, 0.0]]
    assert elsewhere == [[[3.0, 6.0]]]
