"""Choose which positions an intervention keeps at each place; all others are changed there."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from thalweg.capture.prove.inputs import codes
from thalweg.capture.prove.intervention import Place, Rows, Scene


def everything(scene: Scene) -> dict[Place, Rows]:
    """Every position kept at every place: such a pass only has to give equal numbers."""
    places: list[Place] = []
    for sequence in range(len(scene.real)):
        places += [("input", sequence), ("end", sequence)]
    for number in range(len(scene.anatomy.blocks)):
        places += [("start", number), ("total", number)]
    return {place: scene.real[scene.sequence_of(place)].copy() for place in places}


def with_end(scene: Scene, kept: Mapping[Place, Rows], rows: Rows) -> dict[Place, Rows]:
    """The same choice with only these rows kept at the end, or at the sum before it if the end cannot be changed."""
    end: Place = ("end", len(scene.real) - 1)
    if scene.anatomy.states.ends[-1] not in scene.anatomy.states.fixed:
        return {**kept, end: rows}
    total = scene.before(end)
    if scene.anatomy.blocks[total[1]].parallel is not None:
        return {**kept, ("start", total[1]): rows, total: rows, end: rows}
    return {**kept, total: rows, end: rows}


def allowed_choice(scene: Scene, drawn: Mapping[Place, Rows], inputs: Mapping[str, Any]) -> dict[Place, Rows]:
    """The choice that comes closest to the drawn one: not everything can be chosen freely."""
    kept = {place: rows & scene.real[scene.sequence_of(place)] for place, rows in drawn.items()}
    names = ("input_ids",) if len(scene.real) == 1 else ("input_ids", "decoder_input_ids")
    for sequence, name in enumerate(names):
        if name not in inputs or inputs[name].shape != scene.real[sequence].shape:
            kept["input", sequence][:] = False  # no position of the input corresponds to a position of the states
    end: Place = ("end", len(scene.real) - 1)
    real = scene.real[-1]
    last = real & (np.cumsum(real, 1) == real.sum(1, keepdims=True))
    pooling = scene.anatomy.pooling
    if pooling is None:
        kept = with_end(scene, kept, kept[end])
    else:
        first = np.zeros_like(real)
        first[:, 0] = True
        changeable = scene.anatomy.states.ends[-1] not in scene.anatomy.states.fixed
        shuffled = np.zeros_like(real) if changeable and not kept[end][real].all() else real
        kept = with_end(scene, kept, {"first": first, "last": last, "all": shuffled, "other": real}[pooling])
    for group in scene.groups():
        start, total = ("start", group[0]), ("total", group[-1])
        if scene.anatomy.blocks[group[-1]].parallel is not None:  # the sum depends on the start in other ways too
            kept[total] = kept[start]
        for number in group[1:]:
            kept["start", number] = kept["total", number - 1] = kept[start] & kept[total]
    for sequence, tap in enumerate(scene.anatomy.states.ends):
        if tap in scene.anatomy.states.fixed:
            kept["end", sequence] = kept[scene.before(("end", sequence))]
    return kept


def choices(scene: Scene, random: np.random.Generator, audit: bool) -> Iterator[dict[Place, Rows]]:
    """For each pass, which positions are kept at each place."""
    all_kept = everything(scene)
    yield _single_choice(scene, all_kept, random)
    if not audit:
        return
    count = sum(int(rows.sum()) for rows in all_kept.values())
    for code in codes(count, random):
        kept, used = {}, 0
        for place, rows in all_kept.items():
            kept[place] = np.zeros_like(rows)
            size = int(rows.sum())
            kept[place][rows] = code[used : used + size]
            used += size
        for group in scene.groups():
            if len(group) > 1:  # what is between start and sum is kept if both are
                kept["total", group[-1]] = kept["start", group[0]]
        yield kept


def _single_choice(scene: Scene, all_kept: Mapping[Place, Rows], random: np.random.Generator) -> dict[Place, Rows]:
    """A choice that compares almost every row of every block if positions are treated alike, otherwise about half.

    Where positions are alike, changed rows are compared with the rows whose state they carry. That sees more than
    keeping them, so few are kept: enough to see what goes around a sum, or depends on the position.
    """
    readout = scene.readout  # must be changed below the end, since little else is compared there
    alike = scene.anatomy.treats_positions_alike
    drawn = {place: random.random(rows.shape) < 0.5 for place, rows in all_kept.items()}
    drawn["input", 0][:] = False  # what follows from a single token has been proved for all pairs of positions
    drawn["input", len(scene.real) - 1] &= ~readout
    for group in scene.groups():
        start, total = ("start", group[0]), ("total", group[-1])
        share = max(1 / 16, 2 / drawn[start].shape[1]) if alike else 1 / 2
        drawn[start] = random.random(drawn[start].shape) < share
        # A kept start with a changed sum would be a state that nothing can be compared with.
        drawn[total] = drawn[start] | (random.random(drawn[start].shape) < share)
        if alike and scene.sequence_of(start) == len(scene.real) - 1:
            drawn[start] &= ~readout
            drawn[total] &= ~readout
    return drawn
