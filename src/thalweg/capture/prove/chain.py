"""Prove by intervention that blocks form a chain: only attention carries information between positions and layers.

Maps of blocks may be multiplied only if a block reads nothing but the state below it, each position for itself. To
prove this for a pass, the pass is run again with every attention call returning what it returned before, while states
are changed. Each position is either kept or changed at each of these places, independently of the others:

- the inputs: its token is replaced by another (`inputs.py` does this for all pairs of positions, since it is cheap);
- the start of a block: its state is replaced by another;
- the sum of a block's input and attention: the attention call returns what it returned for another position. If the
  position is changed at the start and kept here, its state there is chosen such that the two changes cancel;
- the end: its last state is replaced by another.

Everything that is computed between a place and the next must stay as it was at the positions that are kept there:
queries, keys and values, the sum, the state where the next block starts, the logits. Whatever moves either came from
another position or went around the place.

A changed position carries the state of another one: one of two in every block, so that all other states vanish and
whatever is chosen among positions changes too. Most computations do the same at all positions, so these positions are
compared as well: with what the pass made of the state that they carry now. Where that differs, an extra pass finds out
whether the computation depends on the position (as the rotation of queries and keys does; such computations are noted
when the model is learnt) or on other positions. A few positions carry spikes instead, which no text has.

So one pass compares almost all positions of all blocks, wherever positions are treated alike. Where they are not, it
sees that one position depends on one other with a probability of a quarter; models with such layers are audited if the
text is longer than the one they were learnt from. An audit overlooks no pair: every (place, position) has its own set
of passes in which it is kept, all of these sets have the same size, so for any two of them there is a pass in which
the first is kept and the second is changed.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thalweg.capture.anatomy import Pooling
from thalweg.capture.prove.choices import allowed_choice, choices, everything, with_end
from thalweg.capture.prove.inputs import UNEQUAL, changed_inputs, prove_inputs
from thalweg.capture.prove.intervention import Intervention, Movement, Place, Rows, Scene, intervene
from thalweg.errors import ProofError
from thalweg.numerics import relative_error, relative_errors, tolerance

LEVELS = ("quick", "default", "audit")


@dataclass(frozen=True)
class ChainProof:
    """How far kept positions moved at most, block by block, relative to their vectors; and how far they may."""

    errors: tuple[float, ...]
    allowed: float
    passes: int
    positional: frozenset[tuple[str, Place]]  # computations that depend on the position


def prove_chain(model: nn.Module, inputs: Mapping[str, Any], scene: Scene, audit: bool) -> ChainProof:
    """Run the pass again, once or in an audit; raise ProofError if anything moves that was kept."""
    _check_sums(scene)
    seed = _seed(inputs)
    random = np.random.default_rng(seed)
    errors = np.zeros(len(scene.anatomy.blocks))
    errors[0] = prove_inputs(model, inputs, scene, random)
    passes = 0
    positional = set(scene.anatomy.positional or ())
    for drawn in choices(scene, random, audit):
        kept = allowed_choice(scene, drawn, inputs)
        changed = changed_inputs(model, inputs, kept, random)
        strange = 1.0 if passes else 1 / 16  # the choices of an audit compare enough by keeping
        intervention = intervene(model, changed, scene, kept, seed + passes, strange)
        if moved := intervention.first_moved():
            raise ProofError(f"{moved.what} {_reason(model, inputs, scene, kept, moved.place, seed)}")
        for movement in intervention.uneven():
            if scene.anatomy.positional is not None:
                _check_alone(model, inputs, scene, intervention, movement)
            positional.add(movement.check)
        errors = np.maximum(errors, intervention.errors(positional))
        passes += 1
    return ChainProof(tuple(errors.tolist()), scene.allowed, passes, frozenset(positional))


def _check_alone(
    model: nn.Module, inputs: Mapping[str, Any], scene: Scene, intervention: Intervention, movement: Movement
) -> None:
    """Keep nothing but one row at one place: the row that differs from its partner, then this partner."""
    assert movement.rows is not None
    worst = int(movement.ratio.nan_to_num(torch.inf).argmax())
    carrying, partners = intervention.carried[movement.place]
    for examples, positions in (carrying, partners):
        drawn = {place: np.zeros_like(rows) for place, rows in everything(scene).items()}
        drawn[movement.place][int(examples[worst]), int(positions[worst])] = True
        kept = allowed_choice(scene, drawn, inputs)
        seed = _seed(inputs) + worst
        changed = changed_inputs(model, inputs, kept, np.random.default_rng(seed))
        if moved := intervene(model, changed, scene, kept, seed).first_moved():
            raise ProofError(f"{moved.what} {_reason(model, inputs, scene, kept, moved.place, seed)}")


def find_pooling(model: nn.Module, inputs: Mapping[str, Any], scene: Scene) -> Pooling | None:
    """Which positions of the last state the logits of a classifier depend on."""
    result = scene.record.result
    logits = result.get("logits") if isinstance(result, Mapping) else None
    if logits is None or logits.dim() != 2:
        return None
    end: Place = ("end", len(scene.real) - 1)
    all_kept = everything(scene)
    nothing = with_end(scene, all_kept, np.zeros_like(all_kept[end]))
    if intervene(model, inputs, scene, nothing, seed=0).first_moved() is None:
        return "other"  # constant logits
    candidates: tuple[tuple[Pooling, int], ...] = (("first", 0), ("last", -1))
    for pooling, position in candidates:
        only = np.zeros_like(all_kept[end])
        only[:, position] = True
        kept = with_end(scene, all_kept, only)
        tries = (intervene(model, inputs, scene, kept, seed, strange) for seed in range(3) for strange in (0.0, 1.0))
        if all(tried.first_moved() is None for tried in tries):
            return pooling
    if not _has_mean(scene):
        return "other"
    shuffled = replace(scene, anatomy=replace(scene.anatomy, pooling="all"))
    kept = with_end(shuffled, all_kept, np.zeros_like(all_kept[end]))
    return "all" if intervene(model, inputs, shuffled, kept, seed=0).first_moved() is None else "other"


def _has_mean(scene: Scene) -> bool:
    """Whether some module reads or returns the mean over the positions of a tensor that follows the last block."""
    last = scene.record.calls[-1][0]
    after = [seen.value[0] for seen in scene.record.seen if seen.time > last and len(seen.value) == 1]
    states = [value for value in after if value.dim() == 2 and len(value) == scene.real[-1].shape[1]]
    means = [state.mean(0) for state in states if relative_error(state[:1].expand_as(state), state) > scene.allowed]
    return any(
        value.shape == mean.shape and relative_error(value[None], mean[None]) <= scene.allowed
        for value in after
        for mean in means
    )


def _check_sums(scene: Scene) -> None:
    """Where attention and start cannot be changed against each other, the next state has to be the sum itself."""
    blocks, states = scene.anatomy.blocks, scene.anatomy.states
    following: dict[Place, Place] = {}
    for place in [*(("start", n) for n in range(len(blocks))), *(("end", n) for n in range(len(scene.real)))]:
        following[scene.before(place)] = place
    for number, wiring in enumerate(blocks):
        place = following["total", number]
        fixed = place[0] == "start" and states.starts[place[1]] in states.fixed
        if wiring.parallel is None and not fixed:
            continue
        counts = scene.real[scene.sequence_of(place)].sum(1).tolist()
        summed, start = scene.state(("total", number)), scene.state(place)
        allowed = tolerance(summed.dtype, summed.shape[-1])
        if not max(relative_errors(start, summed, counts)) <= allowed:
            raise ProofError(
                f"the state after the attention block {wiring.attention!r} is not the sum of its input and attention, "
                "and cannot be changed to find out how it depends on it: this model is not supported"
            )


def _reason(
    model: nn.Module, inputs: Mapping[str, Any], scene: Scene, kept: Mapping[Place, Rows], place: Place, seed: int
) -> str:
    """What makes a kept state move, found by simpler interventions."""
    all_kept = everything(scene)
    if intervene(model, inputs, scene, {p: np.ones_like(rows) for p, rows in all_kept.items()}, seed).first_moved():
        return UNEQUAL
    pooled = place == ("end", len(scene.real) - 1) and scene.anatomy.pooling is not None
    if pooled and intervene(model, inputs, scene, allowed_choice(scene, all_kept, inputs), seed).first_moved():
        return "follow from other positions of the last state than they did when the model was learnt"
    sequence = scene.sequence_of(place)
    same = {
        other: kept[place] if scene.sequence_of(other) == sequence else np.zeros_like(rows)
        for other, rows in all_kept.items()
    }
    same = allowed_choice(scene, same, inputs)
    changed = changed_inputs(model, inputs, same, np.random.default_rng(seed))
    if intervene(model, changed, scene, same, seed).first_moved():
        return (
            "moved when only other positions were changed: tokens are mixed by something that is not attention (such "
            "as a convolution, a recurrence, or statistics over the text or the batch), which contributions would "
            "miss; this model is not supported"
        )
    only = {other: rows if other == place else np.zeros_like(rows) for other, rows in all_kept.items()}
    only = allowed_choice(scene, only, inputs)
    changed = changed_inputs(model, inputs, only, np.random.default_rng(seed))
    if intervene(model, changed, scene, only, seed).first_moved():
        return (
            "moved although the state that it should follow from was kept: something goes around the chain of blocks "
            "(such as keys and values of another layer, or a layer or head that reads a lower state), so that the maps "
            "of layers cannot be multiplied; this model is not supported"
        )
    return (
        "moved although it should not depend on what was changed: tokens are mixed by something that is not "
        "attention, or something goes around the chain of blocks; this model is not supported"
    )


def _seed(inputs: Mapping[str, Any]) -> int:
    """Equal inputs give equal interventions."""
    seed = 0
    for value in inputs.values():
        if isinstance(value, Tensor):
            seed = zlib.crc32(value.cpu().contiguous().view(torch.uint8).numpy().tobytes(), seed)
    return seed
