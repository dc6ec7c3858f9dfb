"""A pass run again with attention frozen and states changed: what is kept stays, what is carried goes along."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.families import BY_NAME, Family
from thalweg.capture.prove.choices import everything
from thalweg.capture.prove.intervention import Intervention, Place, Rows, Scene, channel_sizes, intervene, movement
from thalweg.capture.run import _observed_lengths as observed
from thalweg.capture.run import _record, _scene, arguments_of, learn


def scene_of(family: Family) -> tuple[Any, dict[str, Any], Scene]:
    model, inputs = family.build(), family.inputs(1, 8)
    anatomy = replace(learn(model, inputs), positional=frozenset())
    arguments = arguments_of(model, inputs)
    record = _record(model, arguments, anatomy)
    return model, arguments, _scene(anatomy, record, [observed(record, anatomy.roles)])


def run(family: Family, **changed: Rows) -> Intervention:
    model, arguments, scene = scene_of(family)
    kept: dict[Place, Rows] = everything(scene)
    for place, rows in changed.items():
        kind, number = place.split("_")
        kept[kind, int(number)] = kept[kind, int(number)] & ~rows
    return intervene(model, arguments, scene, kept, seed=5)


ROWS = np.arange(8)[None] == 3


def test_pass_when_everything_is_kept_then_nothing_moves() -> None:
    for name in ("bert", "llama", "phi", "bart", "bloom"):
        intervention = run(BY_NAME[name])
        assert intervention.first_moved() is None
        assert not intervention.uneven()


def test_row_when_changed_at_start_and_sum_then_carries_its_partner_through_the_block() -> None:
    intervention = run(BY_NAME["bert"], start_1=ROWS, total_1=ROWS)
    assert intervention.first_moved() is None
    assert not intervention.uneven()
    assert sum(movement.rows is not None for movement in intervention.movements) == 5  # q, k, v, sum, next start


def test_queries_and_keys_when_rotated_then_differ_between_positions_that_carry_the_same_state() -> None:
    intervention = run(BY_NAME["llama"], start_1=ROWS, total_1=ROWS)
    assert intervention.first_moved() is None
    assert {movement.quantity for movement in intervention.uneven()} == {"queries", "keys"}


def test_row_when_changed_at_the_start_only_then_the_changes_cancel_in_the_sum() -> None:
    for name in ("bert", "gpt2", "llama", "olmo2", "granite"):
        intervention = run(BY_NAME[name], start_1=ROWS)
        assert intervention.first_moved() is None
        moved = [movement for movement in intervention.movements if movement.check == ("sum", ("total", 1))]
        assert len(moved) == 1


def test_tolerance_when_nothing_cancels_then_is_not_enlarged() -> None:
    model, arguments, scene = scene_of(BY_NAME["bert"])
    kept = everything(scene)
    kept["start", 1] = kept["start", 1] & ~ROWS
    intervention = Intervention(scene, kept, np.random.default_rng(1))
    intervention._changed(("start", 1), scene.state(("start", 1)))
    slack = intervention.slack["total", 1][0]
    assert torch.equal(slack == 1, torch.from_numpy(~ROWS[0]))
    assert model is not None
    assert arguments


def test_movement_when_a_huge_channel_stands_beside_then_is_measured_by_its_own_channel() -> None:
    then = torch.randn(1, 20, 6, generator=torch.Generator().manual_seed(0))
    then[..., 0] = 1e6
    now = then.clone()
    now[0, 7, 3] += 0.01
    ratio = movement(now[0], then[0], channel_sizes(then), allowed=1e-4)
    assert ratio.argmax() == 7
    assert 1 < ratio[7] < 100
    assert ratio.sum() == ratio[7]


def test_weights_when_a_model_bypasses_the_registry_then_kept_queries_divide_them_as_before() -> None:
    model, arguments, scene = scene_of(BY_NAME["bloom"])
    kept = everything(scene)
    kept["start", 1] = kept["start", 1] & ~ROWS
    honest = intervene(model, arguments, scene, kept, seed=5)
    assert any(part.quantity == "weights" for part in honest.movements)
    assert honest.first_moved() is None

    def roll_keys(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        heads = output.view(*output.shape[:2], 4, 3, -1).clone()  # [example position head (query key value) size]
        heads[..., 1, :] += heads[..., 1, :].roll(1, 1)
        return heads.view(output.shape)

    model.get_submodule("transformer.h.1.self_attention.query_key_value").register_forward_hook(roll_keys)
    record = _record(model, arguments, scene.anatomy)
    lying = intervene(model, arguments, replace(scene, record=record), kept, seed=5)
    moved = lying.first_moved()
    assert moved is not None
    assert moved.quantity == "weights"


def test_rows_when_the_partner_has_the_same_state_then_are_changed_to_something_else() -> None:
    family = BY_NAME["llama"]
    model = family.build()
    ids = torch.full((1, 8), 7)
    anatomy = replace(learn(model, family.inputs(1, 8)), positional=frozenset())
    arguments = arguments_of(model, {"input_ids": ids})
    record = _record(model, arguments, anatomy)
    scene = _scene(anatomy, record, [observed(record, anatomy.roles)])
    kept = everything(scene)
    kept["start", 1], kept["total", 1] = kept["start", 1] & ~ROWS, kept["total", 1] & ~ROWS
    intervention = Intervention(scene, kept, np.random.default_rng(1))
    state = scene.state(("start", 1))
    changed = intervention._changed(("start", 1), state)
    assert not torch.allclose(changed[0, 3], state[0, 3])
    assert torch.equal(changed[0, :3], state[0, :3])
    assert len(intervention.carried["start", 1][0][0]) == 0
