"""Discover a path between two tensors of a pass: which norms, linear maps, activations, gates and poolings lie between.

The path is followed backwards from its end, one step at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import tanh

import torch
from torch import Tensor, nn

from thalweg.capture.discover.relations import State, as_state, distinct, is_scale, multiple, norm_between
from thalweg.capture.linear import as_affine
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

MAX_PATH_STEPS = 12


@dataclass(frozen=True, eq=False)
class PathSearch:
    """The tensors of a stretch of a pass, among which paths are searched."""

    modules: dict[str, nn.Module]
    eps: float
    states: Sequence[State]

    def find(self, end: State, start: State, max_steps: int = MAX_PATH_STEPS) -> tuple[Site, ...] | None:
        """The steps from `start` to `end`: () if they are equal, None if no path is found."""
        if end.mark == start.mark:
            return ()
        if max_steps == 0:
            return None
        for before, site in self._last_steps(end, start):
            path = self.find(before, start, max_steps - 1)
            if path is not None:
                return (*path, site)
        return None

    def calls(self, results: Sequence[State]) -> Iterator[tuple[State, State]]:
        """(argument, result) of the module calls that returned one of the tensors."""
        arguments: dict[tuple[str, int], list[State]] = {}
        for state in self.states:
            if state.tap.side == "in":
                arguments.setdefault((state.tap.module, state.tap.call), []).append(state)
        for result in results:
            if result.tap.side == "out":
                for argument in arguments.get((result.tap.module, result.tap.call), ()):
                    yield argument, result

    def _last_steps(self, end: State, start: State) -> Iterator[tuple[State, Site]]:
        """Every (tensor, step) such that the step computes `end` from the tensor."""
        for argument, result in self.calls(self.states):
            if result.mark == end.mark != argument.mark:
                if norm := norm_between(argument, result, self.modules, self.eps):
                    yield argument, norm
                elif self._is_affine(argument, result):
                    yield argument, AffineSite(argument.tap.module)
                elif (
                    len(argument.rows) > 1
                    and argument.shape == result.shape
                    and is_scale(argument.rows, result.rows, self.eps)
                ):
                    yield argument, ScaleSite(argument.tap.module)
        products = [s for s in self.states if self._is_product(s) and s.time < end.time]
        yield from self._columns(end, products)
        yield from self._bias(end, products)
        yield from self._curve(end, products)
        yield from self._gate(end, start, products)
        yield from self._pool(end)

    def _columns(self, end: State, products: Sequence[State]) -> Iterator[tuple[State, Site]]:
        for wide in products:
            if len(wide.rows) == len(end.rows) and wide.rows.shape[1] >= end.rows.shape[1]:
                columns = _columns_of(wide.rows, end.rows)
                if columns is not None:
                    yield wide, ColumnsSite(columns)

    def _bias(self, end: State, products: Sequence[State]) -> Iterator[tuple[State, Site]]:
        for state in distinct(products, end) if len(end.rows) > 1 else ():
            for name, parameter in self.modules[""].named_parameters():
                fits = parameter.shape == end.rows.shape[1:]
                if fits and relative_error(state.rows + parameter.double(), end.rows) < self._tolerance:
                    yield state, BiasSite(name)

    def _curve(self, end: State, products: Sequence[State]) -> Iterator[tuple[State, Site]]:
        """The elementwise function that fits best, if it fits within the tolerance."""
        best, chosen = self._tolerance, None
        for state in distinct(products, end):
            for site in (*map(CurveSite, CURVES), *_sized_curves(state.rows, end.rows)):
                error = relative_error(site.curve()(state.rows), end.rows)
                if error < best:
                    best, chosen = error, (state, site)
        if chosen:
            yield chosen

    def _gate(self, end: State, start: State, products: Sequence[State]) -> Iterator[tuple[State, Site]]:
        """end = f(gate) · other, where both are results of linear maps, or halves of one."""
        width = end.rows.shape[1]
        factors: list[tuple[State, ColumnsSite | None, Tensor]] = []
        for state in products:
            if state.rows.shape == end.rows.shape:
                factors.append((state, None, state.rows))
            elif state.rows.shape == (len(end.rows), 2 * width):
                for half in (range(width), range(width, 2 * width)):
                    site = ColumnsSite(tuple(half))
                    factors.append((state, site, state.rows[:, half.start : half.stop]))
        best, chosen = self._tolerance, None
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
            if relative_error((pooling_weights(name, state.rows) @ state.rows)[None], part[None]) < self._tolerance:
                return name
        return None

    @property
    def _tolerance(self) -> float:
        """Allowed relative error of a recomputed step, in the precision of the model."""
        return 8 * self.eps + 16 * torch.finfo(torch.float32).eps

    def _is_product(self, state: State) -> bool:
        """Whether a tensor is the result of a module with a weight matrix."""
        weight = getattr(self.modules[state.tap.module], "weight", None)
        return state.tap.side == "out" and isinstance(weight, Tensor) and weight.dim() == 2

    def _is_affine(self, argument: State, result: State) -> bool:
        if not self._is_product(result) or len(argument.rows) != len(result.rows):
            return False
        affine = as_affine(self.modules[argument.tap.module], argument.dtype, argument.rows.device)
        if affine.weight.shape != (argument.rows.shape[1], result.rows.shape[1]):
            return False
        image = argument.rows.to(affine.weight.dtype) @ affine.weight + (0 if affine.bias is None else affine.bias)
        return relative_error(image, result.rows) < self._tolerance * argument.rows.shape[1] ** 0.5


def _columns_of(wide: Tensor, narrow: Tensor) -> tuple[int, ...] | None:
    """The indices of the narrow tensor's columns in the wide one, if all occur there exactly."""
    if not bool((wide == narrow[:, :1]).all(0).any()):
        return None
    known = {tuple(column): number for number, column in enumerate(wide.T.tolist())}
    numbers = [known.get(tuple(column)) for column in narrow.T.tolist()]
    return None if None in numbers else tuple(number for number in numbers if number is not None)


def _sized_curves(before: Tensor, after: Tensor) -> Iterator[CurveSite]:
    """Curves with a parameter, which is estimated from the numbers: a factor, a bound, a soft cap."""
    yield CurveSite("times", _shortest(multiple(after, before)))
    yield CurveSite("clip", float(after.abs().max()))
    place = int(before.abs().argmax())
    z, f = float(before.flatten()[place]), float(after.flatten()[place])
    low, high = abs(f), 1e6 * abs(f)
    if z == 0 or not 0 < f / z < 1:
        return
    for _ in range(200):  # bisect size · tanh(|z| / size) = |f|
        middle = (low * high) ** 0.5
        low, high = (middle, high) if middle * tanh(abs(z) / middle) < abs(f) else (low, middle)
    yield CurveSite("soft_cap", _shortest(low))


def _shortest(number: float) -> float:
    """The number with the fewest decimals that agrees to five digits."""
    for digits in range(7):
        if abs(round(number, digits) - number) <= 1e-5 * abs(number):
            return round(number, digits)
    return number
