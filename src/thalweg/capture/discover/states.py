"""Where the hidden states of a pass are seen, and whether everything flows through these places.

A derivative with respect to a hidden state is only right if nothing of what stands below it finds another way up:
the state is cut off from its past at the place where it is seen, and no gradient may be left.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.discover.block import Wiring
from thalweg.capture.discover.mlp import SecondHalf, UpperWiring
from thalweg.capture.discover.tokenwise import embedding_leaves
from thalweg.capture.observe import Pass, Tap, watch
from thalweg.capture.record import Role


@dataclass(frozen=True)
class States:
    """The places of all hidden states, and what goes round them.

    `entries` are the embedding outputs (of an encoder-decoder first the source's), `after` the state that each
    attention block, with its MLP, leads to. `top` says what the last one is; `round_entries` and `round_layers` say
    in words what reaches a state without passing the embedding output, or the state before it; empty if nothing.
    """

    entries: tuple[Tap, ...]
    after: tuple[Tap, ...]
    top: str
    round_entries: str = ""
    round_layers: str = ""


def find_states(
    model: Any, trace: Pass, blocks: Sequence[Wiring], roles: Sequence[Role], upper: UpperWiring | str
) -> States:
    """A state is seen where the next block of the same tokens starts from it; the last one where the layer ends."""
    sides = [role == "encoder" for role in roles]
    first = {side: _place(trace, blocks[sides.index(side)]) for side in sorted(set(sides), reverse=True)}
    halves = upper.halves if isinstance(upper, UpperWiring) else ()
    after, top = [], ""
    for number, side in enumerate(sides):
        following = next((n for n in range(number + 1, len(blocks)) if sides[n] == side), None)
        if following is not None:
            after.append(_place(trace, blocks[following]))
            continue
        stack = model.get_encoder() if side else model.get_decoder() if len(first) == 2 else model.base_model
        name = next((name for name, module in model.named_modules() if module is stack), "")
        returned = Tap(name, "out", "last_hidden_state", 0)
        if halves and all(isinstance(half, SecondHalf) for half in halves):
            assert isinstance(halves[-1], SecondHalf)
            after.append(halves[-1].output)
        elif any(one.tap == returned for one in trace.seen):
            after.append(returned)
            top = "the last state is the one that the model returns, after its final norm if it has one"
        else:
            after.append(blocks[number].output or blocks[number].total)
            top = "the last state is the attention block's output: where its layer ends was not found"
    return States(tuple(first.values()), tuple(after), top)


def _place(trace: Pass, wiring: Wiring) -> Tap:
    """Where a block's input is first seen on its way into the block, and not only handed to a module beside it."""
    residual = next(one for one in trace.seen if one.tap == wiring.residual)
    same = [one.tap for one in trace.seen if one.time >= residual.time and _equal(one.value, residual.value)]
    passed_on = {(tap.module, tap.call) for tap in same if tap.side == "out"}
    for tap in same:
        around = tap.module == "" or f"{wiring.attention}.".startswith(f"{tap.module}.")
        if tap.side == "out" or around or (tap.module, tap.call) in passed_on:
            return tap
    return wiring.residual


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def what_goes_round(
    model: Any,
    inputs: Mapping[str, Any],
    states: States,
    roles: Sequence[Role],
    through_registry: bool,
) -> tuple[str, str]:
    """Cut every state off from its past and see what still depends on an earlier place: (entries, layers)."""
    given = {name: _leaf(value) for name, value in inputs.items()}
    cuts: dict[Tap, tuple[Tensor, Tensor]] = {}  # the state as it came, and the zero it went on with

    def cut(tap: Tap, value: Tensor) -> Tensor:
        leaf = torch.zeros_like(value, requires_grad=True)
        cuts[tap] = (value, leaf)
        return value.detach() + leaf

    with ExitStack() as stack:
        embedded = [stack.enter_context(embedding_leaves(part)) for part in _readers(model, inputs)]
        watch(model, given, {*states.entries, *states.after}, None, through_registry, cut)
    below = [leaf for leaves in embedded for leaf in leaves]
    below += [value for value in given.values() if isinstance(value, Tensor) and value.requires_grad]
    round_entries = round_layers = ""
    sides = [role == "encoder" for role in roles]
    current = dict(zip(dict.fromkeys(sorted(sides, reverse=True)), states.entries, strict=True))
    for side, tap in zip(sides, states.after, strict=True):
        if tap not in cuts:
            unseen = f"the {tap} was not seen a second time"
            return unseen, unseen
        state, _ = cuts[tap]
        allowed = {current[side]} | ({current[True]} if True in current else set())
        others = [place for place in cuts if place not in allowed | {tap}]
        if _depends(state, below):
            round_entries = f"the {tap} depends on the text by a way that does not pass the {states.entries[-1]}"
        if _depends(state, [cuts[place][1] for place in others]):
            round_layers = f"the {tap} depends on more than the state of the layer before it"
        current[side] = tap
    return round_entries, round_layers


def _readers(model: Any, inputs: Mapping[str, Any]) -> list[nn.Module]:
    """The parts of a model that turn token ids into embeddings, each embedding once."""
    if not any("input_ids" in name for name in inputs):
        return []
    parts = [model]
    if getattr(model.config, "is_encoder_decoder", False):
        parts += [model.get_encoder(), model.get_decoder()]
    found: dict[int, nn.Module] = {}
    for part in parts:
        with suppress(NotImplementedError):  # a part that reads sound or pixels
            embedding = part.get_input_embeddings()
            if isinstance(embedding, nn.Embedding):
                found.setdefault(id(embedding), part)
    return list(found.values())


def _leaf(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().clone().requires_grad_() if floating else value


def _depends(state: Tensor, leaves: Sequence[Tensor]) -> bool:
    if not leaves or not state.requires_grad:
        return False
    ramp = torch.linspace(0.5, 1.5, state.numel(), dtype=state.dtype, device=state.device).view_as(state)
    slopes = torch.autograd.grad((state * ramp).sum(), leaves, retain_graph=True, allow_unused=True)
    return any(slope is not None and bool(slope.any()) for slope in slopes)
