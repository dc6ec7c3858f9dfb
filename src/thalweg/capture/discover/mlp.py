"""Discover the rest of a layer and the readout: MLPs, paths to the values, and the path to the logits.

After an attention block with output y, the output e of some module joins as y + m · e, possibly followed by a norm;
the next block starts from the result. Parts that are not found are recorded as `Missing`, and only methods that need
them raise an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.discover.linear_path import PathSearch
from thalweg.capture.discover.relations import State, adds_up, as_state, distinct, multiple, norm_between
from thalweg.capture.missing import Missing
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Pass, Tap
from thalweg.capture.sites import Site
from thalweg.numerics import relative_error

CANDIDATE_ERROR = 0.05  # relative error below which a candidate is checked exactly


@dataclass(frozen=True)
class FeedforwardWiring:
    """Where the second half of a layer is found: total = y + multiplier · branch; output is its norm or the sum."""

    branch: Tap
    multiplier: float
    total: Tap
    norm: NormSite | None
    output: Tap
    branch_path: tuple[Site, ...] | Missing  # from y to the branch (parallel MLP: from the block's input)


@dataclass(frozen=True)
class StreamWiring:
    """How the residual stream is read and written outside of attention weights."""

    values: tuple[tuple[Site, ...] | Missing, ...]  # from each block's input to its values
    layers: tuple[FeedforwardWiring | Missing, ...]
    readout: tuple[Site, ...] | Missing  # from the last layer's output to the logits

    @property
    def taps(self) -> set[Tap]:
        """The taps that proving the MLPs needs."""
        known = [layer for layer in self.layers if isinstance(layer, FeedforwardWiring)]
        return {tap for layer in known for tap in (layer.branch, layer.total, layer.output)}


def discover_stream(model: nn.Module, trace: Pass, wirings: Sequence[BlockWiring]) -> StreamWiring:
    """MLPs, value paths and readout of a fully watched pass of a model that reads one sequence."""
    modules = dict(model.named_modules())
    states = [as_state(seen.tap, seen.time, seen.value) for seen in trace.seen]
    by_tap = {state.tap: state for state in states}
    times = [0, *(time for time, _, _ in trace.calls), trace.clock + 1]
    values, layers = [], []
    for number, (wiring, (time, call, output)) in enumerate(zip(wirings, trace.calls, strict=True)):
        window = [s for s in states if times[number] < s.time < times[number + 2]]
        search = PathSearch(modules, torch.finfo(output.dtype).eps, window)
        value = as_state(Tap(wiring.attention, "in", None, 0), time, call.value.transpose(1, 2).flatten(2))
        path = search.find(value, by_tap[wiring.residual])
        reason = f"how the values of {wiring.attention!r} are computed from the block's input was not found"
        values.append(Missing(reason) if path is None else path)
        following = by_tap[wirings[number + 1].residual] if number + 1 < len(wirings) else None
        layers.append(_feedforward(search, wiring, by_tap, following))
    return StreamWiring(tuple(values), tuple(layers), _readout(modules, states, by_tap, layers[-1], trace))


def _readout(
    modules: dict[str, nn.Module],
    states: list[State],
    by_tap: dict[Tap, State],
    last_layer: FeedforwardWiring | Missing,
    trace: Pass,
) -> tuple[Site, ...] | Missing:
    logits = by_tap.get(Tap("", "out", "logits", 0))
    if logits is None:
        return Missing("the model returns no logits")
    if isinstance(last_layer, Missing):
        return Missing("the output of the last layer was not found")
    time, _, output = trace.calls[-1]
    search = PathSearch(modules, torch.finfo(output.dtype).eps, [s for s in states if s.time > time])
    path = search.find(logits, by_tap[last_layer.output])
    reason = (
        f"how the logits are made from the {last_layer.output} was not found: supported are norms, linear maps, known "
        "activations, and one position or a mean of positions"
    )
    return Missing(reason) if path is None else path


@dataclass(frozen=True, eq=False)
class _Join:
    """total = y + multiplier · branch; `output` is the total or its norm."""

    total: State
    branch: State
    multiplier: float
    norm: NormSite | None
    output: State


def _feedforward(
    search: PathSearch, wiring: BlockWiring, by_tap: dict[Tap, State], following: State | None
) -> FeedforwardWiring | Missing:
    """The MLP that joins after an attention block, such that the next block starts from the result."""
    if wiring.parallel is None:
        start = by_tap[wiring.output or wiring.total]
        join = _find_join(search, start, wiring.norm is not None, following)
    else:
        start, total = by_tap[wiring.residual], by_tap[wiring.total]
        ends_layer = following is None or following.mark == total.mark
        join = _Join(total, by_tap[wiring.parallel], 1.0, None, total) if ends_layer else None
    if join is None:
        return Missing(
            f"after the attention block {wiring.attention!r} no module's output joins the residual such that the next "
            "block starts from the sum or its norm"
        )
    path = search.find(join.branch, start)
    reason = (
        f"{join.branch.tap.module!r} is not a linear map followed by a known activation (possibly gated by a second "
        "linear map) and another linear map"
    )
    return FeedforwardWiring(
        branch=join.branch.tap,
        multiplier=join.multiplier,
        total=join.total.tap,
        norm=join.norm,
        output=join.output.tap,
        branch_path=Missing(reason) if path is None else path,
    )


def _find_join(search: PathSearch, base: State, post_norm: bool, following: State | None) -> _Join | None:
    after = [s for s in search.states if s.time > base.time]
    branches = distinct([s for s in after if s.tap.side == "out"], base)
    for total, norm, output in _layer_ends(search, base, post_norm, following):
        for branch in branches:
            if branch.mark in (base.mark, total.mark):
                continue
            rest = total.rows - base.rows
            multiplier = multiple(rest, branch.rows)
            if relative_error(multiplier * branch.rows, rest) > CANDIDATE_ERROR:
                continue
            for m in (1.0, *(round(multiplier, digits) for digits in (1, 2, 3, 4, 12))):
                if m and adds_up(total.rows, m * branch.rows[None], base.rows, eps=search.eps) is not None:
                    return _Join(total, branch, m, norm, output)
    return None


def _layer_ends(
    search: PathSearch, base: State, post_norm: bool, following: State | None
) -> Iterator[tuple[State, NormSite | None, State]]:
    """Candidates (total, norm, output) for the sum that ends the layer, and the layer's output.

    The next block starts from the layer's output. After the last block a norm belongs to the layer only if attention
    is followed by a norm too; otherwise it is the first step of the readout.
    """
    after = [s for s in search.states if s.time > base.time]
    if following is not None and not post_norm:
        yield following, None, following
    elif following is None and not post_norm:
        yield from ((total, None, total) for total in distinct(after, base))
    for argument, result in search.calls(after):
        if (following is None and post_norm) or (following is not None and result.mark == following.mark):
            norm = norm_between(argument, result, search.modules, search.eps)
            if norm is not None:
                yield argument, norm, result
