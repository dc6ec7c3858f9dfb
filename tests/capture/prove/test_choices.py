"""Which positions an intervention keeps: whatever must be compared is, and pairs are separated by an audit."""

import numpy as np
import pytest

from tests.capture.prove.test_intervention import scene_of
from tests.families import BY_NAME
from thalweg.capture.prove.choices import allowed_choice, choices, everything


def test_everything_when_listed_then_has_all_real_positions_at_every_place() -> None:
    _, _, scene = scene_of(BY_NAME["bart"])
    kept = everything(scene)
    assert {kind for kind, _ in kept} == {"input", "start", "total", "end"}
    assert all(rows.all() for rows in kept.values())
    assert len(kept) == 2 * 2 + 2 * len(scene.anatomy.blocks)


@pytest.mark.parametrize("name", ["bert", "llama", "phi", "mbart"])
def test_audit_when_drawn_then_separates_any_two_positions_of_any_block(name: str) -> None:
    _, arguments, scene = scene_of(BY_NAME[name])
    drawn = [
        allowed_choice(scene, choice, arguments) for choice in choices(scene, np.random.default_rng(0), audit=True)
    ]
    for place in (("start", 0), ("start", 1)):
        kept = np.stack([choice[place][0] for choice in drawn])  # [pass position]
        for first in range(kept.shape[1]):
            for second in range(kept.shape[1]):
                assert first == second or (kept[:, first] & ~kept[:, second]).any()


def test_single_choice_when_positions_are_alike_then_changes_the_readout_below_the_end() -> None:
    _, arguments, scene = scene_of(BY_NAME["bert"])
    (drawn,) = choices(scene, np.random.default_rng(0), audit=False)
    kept = allowed_choice(scene, drawn, arguments)
    assert scene.anatomy.pooling == "first"
    assert kept["end", 0][0, 0]
    assert not kept["end", 0][0, 1:].any()
    assert not any(kept["start", number][0, 0] or kept["total", number][0, 0] for number in range(3))
    assert not kept["input", 0].any()
