"""Find out, by watching tensors, what stands above attention: each layer's second half, and the readout.

After an attention block with output y, some module's result e joins as y + m · e, perhaps under a norm: that is
what the next block starts from. How e is made of y, how the values of a block are made of its input, and how the
logits are made of the last hidden state, is followed backwards step by step (`Paths`). What is not found stays
behind as a sentence that says so: only a method that needs it refuses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import tanh

import torch
from torch import Tensor, nn

from thalweg.capture.discover.block import Search, State, Wiring, as_state, distinct, multiple
from thalweg.capture.linear import as_affine
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Pass, Tap
from thalweg.capture.sites import (
    CURVES,
    GATES,
    AffineSite,
    BiasSite,
    ColumnsSite,
    CurveSite,
    GateSite,
    PoolSite,
    Rows,
    ScaleSite,
    Site,
    pooling_weights,
)
from thalweg.numerics import relative_error

LONGEST = 12  # steps of a path
NEAR = 0.05  # worth a closer look


@dataclass(frozen=True)
class SecondHalf:
    """Where the second half of a layer is found: total = y + multiplier · branch, and perhaps its norm."""

    branch: Tap
    multiplier: float
    total: Tap
    norm: NormSite | None
    output: Tap
    inside: tuple[Site, ...] | str  # from y to the branch (from the block's input where it runs in parallel)


@dataclass(frozen=True)
class UpperWiring:
    """What is known above attention; a string stands where nothing was found, and says what was missed."""

    values: tuple[tuple[Site, ...] | str, ...]  # from each block's input to its values
    halves: tuple[SecondHalf | str, ...]
    readout: tuple[Site, ...] | str  # from the last layer's output to the logits

    @property
    def taps(self) -> set[Tap]:
        found = [half for half in self.halves if isinstance(half, SecondHalf)]
        return {tap for half in found for tap in (half.branch, half.total, half.output)}


def discover_upper(model: nn.Module, trace: Pass, wirings: Sequence[Wiring]) -> UpperWiring:
    """Second halves, value paths and readout of a fully watched pass of a model with one sequence."""
    modules = dict(model.named_modules())
    states = [as_state(seen.tap, seen.time, seen.value) for seen in trace.seen]
    named = {state.tap: state for state in states}
    times = [0, *(time for time, _, _ in trace.calls), trace.clock + 1]
    values, halves, top = [], [], None
    for number, (wiring, (time, call, output)) in enumerate(zip(wirings, trace.calls, strict=True)):
        window = [s for s in states if times[number] < s.time < times[number + 2]]
        paths = Paths(modules, torch.finfo(output.dtype).eps, window)
        start = named[wiring.residual]
        given = as_state(Tap(wiring.attention, "in", None, 0), time, call.value.transpose(1, 2).flatten(2))
        found = paths.find(given, start)
        missing = f"how the values of {wiring.attention!r} are made of the block's input was not found"
        values.append(missing if found is None else found)
        following = named[wirings[number + 1].residual] if number + 1 < len(wirings) else None
        half = paths.second_half(wiring, named, following)
        halves.append(half)
        top = half
    return UpperWiring(tuple(values), tuple(halves), _readout(modules, states, named, top, trace))


def _readout(
    modules: dict[str, nn.Module],
    states: list[State],
    named: dict[Tap, State],
    top: SecondHalf | str | None,
    trace: Pass,
) -> tuple[Site, ...] | str:
    logits = named.get(Tap("", "out", "logits", 0))
    if logits is None:
        return "the model returns no logits"
    if not isinstance(top, SecondHalf):
        return "the output of the last layer was not found"
    last = trace.calls[-1]
    paths = Paths(modules, torch.finfo(last[2].dtype).eps, [s for s in states if s.time > last[0]])
    found = paths.find(logits, named[top.output])
    missing = (
        f"how the logits are made of {top.output} was not found: more than norms, linear maps, known activations, "
        "and a choice or a mean of positions stands in between"
    )
    return missing if found is None else found


@dataclass(frozen=True, eq=False)
class Paths:
    """The tensors of a stretch of the pass, and paths between two of them, followed backwards."""

    modules: dict[str, nn.Module]
    eps: float
    states: Sequence[State]

    def second_half(self, wiring: Wiring, named: dict[Tap, State], following: State | None) -> SecondHalf | str:
        """What joins after an attention block, such that the next block starts from the result."""
        missing = (
            f"after the attention block {wiring.attention!r} no module's output joins its result so that the next "
            "block starts from their sum, or from a norm of it"
        )
        if wiring.parallel is not None:
            total, branch, start = named[wiring.total], named[wiring.parallel], named[wiring.residual]
            found = (total, branch, 1.0, None, total)
            if following is not None and following.mark != total.mark:
                return missing
        else:
            start = named[wiring.output or wiring.total]
            found = self._joined(start, wiring.norm is not None, following)
            if found is None:
                return missing
        total, branch, multiplier, norm, output = found
        inside = self.find(branch, start)
        unknown = (
            f"{branch.tap.module!r} is not a linear map, a known activation (perhaps times a second linear map) and a "
            "linear map"
        )
        return SecondHalf(branch.tap, multiplier, total.tap, norm, output.tap, unknown if inside is None else inside)

    def _joined(
        self, base: State, post_norm: bool, following: State | None
    ) -> tuple[State, State, float, NormSite | None, State] | None:
        """(total, branch, m, norm, output) with total = base + m · branch, and output the total or its norm."""
        after = [s for s in self.states if s.time > base.time]
        outputs = distinct([s for s in after if s.tap.side == "out"], base)
        for total, norm, output in self._ends(base, post_norm, following):
            for branch in outputs:
                if branch.mark in (base.mark, total.mark):
                    continue
                rest = total.rows - base.rows
                multiplier = multiple(rest, branch.rows)
                if relative_error(multiplier * branch.rows, rest) > NEAR:
                    continue
                for m in (1.0, *(round(multiplier, digits) for digits in (1, 2, 3, 4, 12))):
                    if m and self._search.adds_up(total.rows, m * branch.rows[None], base.rows) is not None:
                        return total, branch, m, norm, output
        return None

    def _ends(
        self, base: State, post_norm: bool, following: State | None
    ) -> Iterator[tuple[State, NormSite | None, State]]:
        """(total, norm, output): sums that may end the layer, and what the layer then returns.

        The next block starts from the layer's output. After the last one a norm belongs to the layer only where
        attention is followed by one too; else it is the first step of the readout.
        """
        after = [s for s in self.states if s.time > base.time]
        if following is not None and not post_norm:
            yield following, None, following
        elif following is None and not post_norm:
            yield from ((total, None, total) for total in distinct(after, base))
        for given, result in self._calls(after):
            if (following is None and post_norm) or (following is not None and result.mark == following.mark):
                norm = self._search.norm(given, result)
                if norm is not None:
                    yield given, norm, result

    @property
    def _search(self) -> Search:
        return Search(self.modules, self.eps, (), (), ())

    def find(self, end: State, start: State, longest: int = LONGEST) -> tuple[Site, ...] | None:
        """The steps that lead from one tensor to the other; () if they are the same."""
        if end.mark == start.mark:
            return ()
        if longest == 0:
            return None
        for before, site in self._before(end, start):
            path = self.find(before, start, longest - 1)
            if path is not None:
                return (*path, site)
        return None

    def _before(self, end: State, start: State) -> Iterator[tuple[State, Site]]:
        """Every way in which a tensor is made of one that was seen before: the other and the step."""
        for given, result in self._calls(self.states):
            if result.mark == end.mark != given.mark:
                if norm := self._search.norm(given, result):
                    yield given, norm
                elif self._is_affine(given, result):
                    yield given, AffineSite(given.tap.module)
                elif (
                    len(given.rows) > 1
                    and given.shape == result.shape
                    and self._search.is_scale(given.rows, result.rows)
                ):
                    yield given, ScaleSite(given.tap.module)
        made = [s for s in self.states if self._is_product(s) and s.time < end.time]
        yield from self._columns(end, made)
        yield from self._bias(end, made)
        yield from self._curve(end, made)
        yield from self._gate(end, start, made)
        yield from self._pool(end)

    def _columns(self, end: State, made: Sequence[State]) -> Iterator[tuple[State, Site]]:
        for wide in made:
            if len(wide.rows) == len(end.rows) and wide.rows.shape[1] >= end.rows.shape[1]:
                columns = _columns_of(wide.rows, end.rows)
                if columns is not None:
                    yield wide, ColumnsSite(columns)

    def _bias(self, end: State, made: Sequence[State]) -> Iterator[tuple[State, Site]]:
        for state in distinct(made, end) if len(end.rows) > 1 else ():
            for name, parameter in self.modules[""].named_parameters():
                fits = parameter.shape == end.rows.shape[1:]
                if fits and relative_error(state.rows + parameter.double(), end.rows) < self._allowed:
                    yield state, BiasSite(name)

    def _curve(self, end: State, made: Sequence[State]) -> Iterator[tuple[State, Site]]:
        """The function of one number that comes nearest, if it comes near enough."""
        best, chosen = self._allowed, None
        for state in distinct(made, end):
            for site in (*map(CurveSite, CURVES), *_sized(state.rows, end.rows)):
                error = relative_error(site.curve()(state.rows), end.rows)
                if error < best:
                    best, chosen = error, (state, site)
        if chosen:
            yield chosen

    def _gate(self, end: State, start: State, made: Sequence[State]) -> Iterator[tuple[State, Site]]:
        """end = f(gate) · other, both of them results of linear maps, or halves of one."""
        width = end.rows.shape[1]
        factors: list[tuple[State, ColumnsSite | None, Tensor]] = []
        for state in made:
            if state.rows.shape == end.rows.shape:
                factors.append((state, None, state.rows))
            elif state.rows.shape == (len(end.rows), 2 * width):
                for half in (range(width), range(width, 2 * width)):
                    site = ColumnsSite(tuple(half))
                    factors.append((state, site, state.rows[:, half.start : half.stop]))
        best, chosen = self._allowed, None
        for gate in factors:
            for name, curve in GATES.items():
                opened = curve(gate[2])
                for other in factors:
                    error = relative_error(opened * other[2], end.rows)
                    if error < best and gate is not other:
                        best, chosen = error, (gate, name, other)
        if chosen is None:
            return
        (source, columns, _), name, (other, half, rows) = chosen
        path = self.find(source, start)
        if path is None:
            return
        site = GateSite(name, path if columns is None else (*path, columns))
        yield (other if half is None else as_state(other.tap, end.time, rows)), site

    def _pool(self, end: State) -> Iterator[tuple[State, Site]]:
        if len(end.rows) != 1:
            return
        width = end.rows.shape[1]
        for state in reversed(self.states):
            count, size = state.rows.shape
            if count == 1 or state.time > end.time or len(state.shape) != 3 or width % size:
                continue
            parts = end.rows[0].split(size)
            rows: list[Rows] = [name for part in parts if (name := self._rows_of(state, part)) is not None]
            if len(rows) == len(parts):
                yield state, PoolSite(tuple(rows))

    def _rows_of(self, state: State, part: Tensor) -> Rows | None:
        choices: list[Rows] = ["first", "last", *range(len(state.rows) - 1)]
        for name in choices:
            if relative_error((pooling_weights(name, state.rows) @ state.rows)[None], part[None]) < self._allowed:
                return name
        return None

    @property
    def _allowed(self) -> float:
        """Relative error of a step that is computed again, in the precision in which the model worked."""
        return 8 * self.eps + 16 * torch.finfo(torch.float32).eps

    def _calls(self, states: Sequence[State]) -> Iterator[tuple[State, State]]:
        """(argument, result) of the module calls that returned one of the tensors."""
        given: dict[tuple[str, int], list[State]] = {}
        for state in self.states:
            if state.tap.side == "in":
                given.setdefault((state.tap.module, state.tap.call), []).append(state)
        for result in states:
            if result.tap.side == "out":
                for argument in given.get((result.tap.module, result.tap.call), ()):
                    yield argument, result

    def _is_product(self, state: State) -> bool:
        """Whether a tensor is what a module with a matrix returned."""
        weight = getattr(self.modules[state.tap.module], "weight", None)
        return state.tap.side == "out" and isinstance(weight, Tensor) and weight.dim() == 2

    def _is_affine(self, given: State, result: State) -> bool:
        if not self._is_product(result) or len(given.rows) != len(result.rows):
            return False
        module = self.modules[given.tap.module]
        affine = as_affine(module, given.dtype, given.rows.device)
        if affine.weight.shape != (given.rows.shape[1], result.rows.shape[1]):
            return False
        made = given.rows.to(affine.weight.dtype) @ affine.weight + (0 if affine.bias is None else affine.bias)
        return relative_error(made, result.rows) < self._allowed * given.rows.shape[1] ** 0.5


def _columns_of(wide: Tensor, narrow: Tensor) -> tuple[int, ...] | None:
    """Which columns of the wide tensor the narrow one is made of, if all are found to the last digit."""
    if not bool((wide == narrow[:, :1]).all(0).any()):
        return None
    known = {tuple(column): number for number, column in enumerate(wide.T.tolist())}
    found = [known.get(tuple(column)) for column in narrow.T.tolist()]
    return None if None in found else tuple(number for number in found if number is not None)


def _sized(given: Tensor, made: Tensor) -> Iterator[CurveSite]:
    """Curves with a size of their own: a factor, a bound, a soft cap, the size read from the numbers."""
    yield CurveSite("times", _short(multiple(made, given)))
    yield CurveSite("clip", float(made.abs().max()))
    place = int(given.abs().argmax())
    z, f = float(given.flatten()[place]), float(made.flatten()[place])
    low, high = abs(f), 1e6 * abs(f)
    if z == 0 or not 0 < f / z < 1:
        return
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if middle * tanh(abs(z) / middle) < abs(f) else (low, middle)
    yield CurveSite("soft_cap", _short(low))


def _short(number: float) -> float:
    """The shortest number that is the same to the precision in which it could be read."""
    for digits in range(7):
        if abs(round(number, digits) - number) <= 1e-5 * abs(number):
            return round(number, digits)
    return number
