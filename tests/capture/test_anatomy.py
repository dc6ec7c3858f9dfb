"""The anatomy's taps, and which handlers count as witnesses and editors."""

import torch
from torch import Tensor

from tests.capture.handmade import IDS, handmade
from thalweg.capture.anatomy import Anatomy, Editor, Witness
from thalweg.capture.attention import Call
from thalweg.capture.observe import Tap
from thalweg.capture.run import learn


class Watching:
    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def taps(self, model: torch.nn.Module, anatomy: Anatomy) -> set[Tap]:
        return set(anatomy.states.after)


class Changing(Watching):
    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        return value


def test_taps_when_blocks_are_post_norm_then_are_input_sum_and_output_of_each_and_the_end() -> None:
    anatomy = learn(handmade(post_norm=True), {"input_ids": IDS})
    assert {str(tap) for tap in anatomy.taps} == {
        "output of x", "input of y.0.a", "output of y.0.a",
        "output of y.0.b", "input of y.1.a", "output of y.1.a", "output of y.1.b",
    }  # fmt: skip


def test_handlers_when_they_choose_or_edit_tensors_then_are_witnesses_or_editors() -> None:
    assert isinstance(Watching(), Witness)
    assert not isinstance(Watching(), Editor)
    assert isinstance(Changing(), Editor)
    assert not isinstance(lambda call: call.run(), Witness)
