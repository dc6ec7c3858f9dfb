"""Discover where the hidden states of a pass are seen, and whether everything flows through these places.

A derivative with respect to a hidden state is only complete if nothing below it reaches the layers above by another
path. To check this, each state is detached from its past at its tap; no gradient may remain.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.discover.mlp import FeedforwardWiring, StreamWiring
from thalweg.capture.discover.tokenwise import embedding_leaves
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Pass, Tap, watch
from thalweg.capture.record import Role


@dataclass(frozen=True)
class StateTaps:
    """The taps of all hidden states, and what bypasses them.

    `entries` are the embedding outputs (of an encoder-decoder the source's first), `after` the state after each
    attention block and its MLP. `top` describes the last state if it is not the plain output of the last layer.
    `entry_bypass` and `layer_bypass` describe a dependency that bypasses the embedding outputs, or the state of the
    layer before; None if there is none.
    """

    entries: tuple[Tap, ...]
    after: tuple[Tap, ...]
    top: str
    entry_bypass: str | None = None
    layer_bypass: str | None = None


def find_states(
    model: Any, trace: Pass, blocks: Sequence[BlockWiring], roles: Sequence[Role], stream: StreamWiring | Missing
) -> StateTaps:
    """Place each state where the next block of the same tokens starts from it, and the last one at its layer's end."""
    sides = [role == "encoder" for role in roles]
    entries = {side: _entry(trace, blocks[sides.index(side)]) for side in sorted(set(sides), reverse=True)}
    after, top = [], ""
    for number, side in enumerate(sides):
        following = next((n for n in range(number + 1, len(blocks)) if sides[n] == side), None)
        if following is not None:
            after.append(_entry(trace, blocks[following]))
            continue
        returned = _returned_state(model, side, pair=len(entries) == 2)
        if (layer_output := _last_layer_output(stream)) is not None:
            after.append(layer_output)
        elif any(seen.tap == returned for seen in trace.seen):
            after.append(returned)
            top = "the last state is the one the model returns, after its final norm if it has one"
        else:
            after.append(blocks[number].output or blocks[number].total)
            top = "the last state is the output of the attention block: the end of its layer was not found"
    return StateTaps(tuple(entries.values()), tuple(after), top)


def _entry(trace: Pass, wiring: BlockWiring) -> Tap:
    """Where a block's input is first seen on its way into the block, not in a module that only reads it."""
    residual = next(seen for seen in trace.seen if seen.tap == wiring.residual)
    same = [seen.tap for seen in trace.seen if seen.time >= residual.time and _equal(seen.value, residual.value)]
    passed_on = {(tap.module, tap.call) for tap in same if tap.side == "out"}
    for tap in same:
        around = tap.module == "" or f"{wiring.attention}.".startswith(f"{tap.module}.")
        if tap.side == "out" or around or (tap.module, tap.call) in passed_on:
            return tap
    return wiring.residual


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


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and torch.equal(first, second)


def find_bypasses(
    model: Any,
    inputs: Mapping[str, Any],
    states: StateTaps,
    roles: Sequence[Role],
    through_registry: bool,
) -> tuple[str | None, str | None]:
    """(entry_bypass, layer_bypass): detach every state from its past, then look for remaining dependencies."""
    arguments = {name: _leaf(value) for name, value in inputs.items()}
    cuts: dict[Tap, tuple[Tensor, Tensor]] = {}  # the state as computed, and the zero leaf added to its detached copy

    def cut(tap: Tap, value: Tensor) -> Tensor:
        leaf = torch.zeros_like(value, requires_grad=True)
        cuts[tap] = (value, leaf)
        return value.detach() + leaf

    with ExitStack() as stack:
        embedded = [stack.enter_context(embedding_leaves(part)) for part in _embedding_owners(model, inputs)]
        watch(model, arguments, {*states.entries, *states.after}, None, through_registry, cut)
    below = [leaf for leaves in embedded for leaf in leaves]
    below += [value for value in arguments.values() if isinstance(value, Tensor) and value.requires_grad]
    entry_bypass = layer_bypass = None
    sides = [role == "encoder" for role in roles]
    current = dict(zip(dict.fromkeys(sorted(sides, reverse=True)), states.entries, strict=True))
    for side, tap in zip(sides, states.after, strict=True):
        if tap not in cuts:
            unseen = f"the {tap} was not seen in a second pass"
            return unseen, unseen
        state, _ = cuts[tap]
        allowed = {current[side]} | ({current[True]} if True in current else set())
        others = [place for place in cuts if place not in allowed | {tap}]
        if _depends(state, below):
            entry_bypass = f"the {tap} depends on the text along a path that does not pass the {states.entries[-1]}"
        if _depends(state, [cuts[place][1] for place in others]):
            layer_bypass = f"the {tap} depends on more than the state of the layer before it"
        current[side] = tap
    return entry_bypass, layer_bypass


def _embedding_owners(model: Any, inputs: Mapping[str, Any]) -> list[nn.Module]:
    """The parts of a model that embed token ids, one for each embedding."""
    if not any("input_ids" in name for name in inputs):
        return []
    parts = [model]
    if getattr(model.config, "is_encoder_decoder", False):
        parts += [model.get_encoder(), model.get_decoder()]
    owners: dict[int, nn.Module] = {}
    for part in parts:
        with suppress(NotImplementedError):  # a part that reads audio or pixels
            embedding = part.get_input_embeddings()
            if isinstance(embedding, nn.Embedding):
                owners.setdefault(id(embedding), part)
    return list(owners.values())


def _leaf(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().clone().requires_grad_() if floating else value


def _depends(state: Tensor, leaves: Sequence[Tensor]) -> bool:
    if not leaves or not state.requires_grad:
        return False
    ramp = torch.linspace(0.5, 1.5, state.numel(), dtype=state.dtype, device=state.device).view_as(state)
    slopes = torch.autograd.grad((state * ramp).sum(), leaves, retain_graph=True, allow_unused=True)
    return any(slope is not None and bool(slope.any()) for slope in slopes)
