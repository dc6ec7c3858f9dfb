"""Discover where the hidden states of a pass are seen, and where they can be replaced by others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.discover.mlp import FeedforwardWiring, StreamWiring
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Pass, Tap
from thalweg.capture.record import Role


@dataclass(frozen=True)
class StateTaps:
    """The taps of all hidden states.

    `starts` is the state that each block starts from; `ends` the last state (of an encoder-decoder the source's
    first), with `top` describing it if it is not the plain output of the last layer. `entries` are the starts that
    are embedding outputs, `after` the state after each attention block and its MLP. The model reads the states that
    are `fixed` at other places too, so they cannot be replaced at their taps.
    """

    starts: tuple[Tap, ...]
    ends: tuple[Tap, ...]
    entries: tuple[Tap, ...]
    after: tuple[Tap, ...]
    fixed: frozenset[Tap]
    top: str


def find_states(
    model: Any, trace: Pass, blocks: Sequence[BlockWiring], roles: Sequence[Role], stream: StreamWiring | Missing
) -> StateTaps:
    """Place each state where the next block of the same tokens starts from it, and the last one at its layer's end."""
    places = [_start(trace, wiring) for wiring in blocks]
    starts = tuple(tap for tap, _ in places)
    fixed = {tap for tap, replaceable in places if not replaceable}
    sides = [role == "encoder" for role in roles]
    in_order = sorted(set(sides), reverse=True)
    ends, top = {}, ""
    for side in in_order:
        last = blocks[len(sides) - 1 - sides[::-1].index(side)]
        returned = _returned_state(model, side, pair=len(in_order) == 2)
        if (layer_output := _last_layer_output(stream)) is not None:
            ends[side] = layer_output
        elif (last_state := _first_seen(trace, returned, after=last.total)) is not None:
            ends[side] = last_state
            top = "the last state is the one the model returns, after its final norm if it has one"
        else:
            ends[side] = last.output or last.total
            fixed.add(ends[side])
            top = "the last state is the output of the attention block: the end of its layer was not found"
    return StateTaps(
        starts=starts,
        ends=tuple(ends.values()),
        entries=tuple(starts[sides.index(side)] for side in in_order),
        after=tuple(
            next((starts[n] for n in range(number + 1, len(blocks)) if sides[n] == side), ends[side])
            for number, side in enumerate(sides)
        ),
        fixed=frozenset(fixed),
        top=top,
    )


def _start(trace: Pass, wiring: BlockWiring) -> tuple[Tap, bool]:
    """Where a block's input is first seen on its way into the block, and whether it can be replaced there.

    It cannot in a module that only reads it.
    """
    residual = next(seen for seen in trace.seen if seen.tap == wiring.residual)
    same = [seen.tap for seen in trace.seen if seen.time >= residual.time and _equal(seen.value, residual.value)]
    passed_on = {(tap.module, tap.call) for tap in same if tap.side == "out"}
    for tap in same:
        around = tap.module == "" or f"{wiring.attention}.".startswith(f"{tap.module}.")
        if tap.side == "out" or around or (tap.module, tap.call) in passed_on:
            return tap, True
    return wiring.residual, False


def _last_layer_output(stream: StreamWiring | Missing) -> Tap | None:
    """The output of the last layer, if the ends of all layers were found."""
    layers = () if isinstance(stream, Missing) else stream.layers
    known = [layer for layer in layers if isinstance(layer, FeedforwardWiring)]
    return known[-1].output if known and len(known) == len(layers) else None


def _returned_state(model: Any, encoder: bool, pair: bool) -> Tap:
    """The tap of the `last_hidden_state` that the stack of layers returns."""
    stack = model.get_encoder() if encoder else model.get_decoder() if pair else model.base_model
    name = next((name for name, module in model.named_modules() if module is stack), "")
    return Tap(name, "out", "last_hidden_state", 0)


def _first_seen(trace: Pass, returned: Tap, after: Tap) -> Tap | None:
    """The first module output that is the returned state: a pooler inside the model reads it before it is returned."""
    seen = {seen.tap: seen for seen in trace.seen}
    if returned not in seen:
        return None
    same = (s for s in trace.seen if s.time > seen[after].time and s.tap.side == "out")
    return next(s.tap for s in same if _equal(s.value, seen[returned].value))


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and torch.equal(first, second)
