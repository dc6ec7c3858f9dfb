"""Find out how a model's attention blocks are wired, by watching tensors and not by knowing names.

Around each attention call of one short pass, look for the module that takes the merged heads (the output
projection), for what may follow on the branch (a norm, a scale per channel), and for an earlier hidden
state x such that x + m · branch is seen later (the residual); then for whether a norm stands between that
sum and the next block (post-norm) or not. What is found here is only a claim about where to look: every
capture proves it again on its own numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.norm import NormSite, find_norm
from thalweg.capture.observe import Pass, Tap
from thalweg.errors import ProofError


@dataclass(frozen=True)
class Wiring:
    """Where one attention block's pieces are found in the model."""

    attention: str
    cross: bool
    projection: str
    added: bool  # the projection was given the sum of the heads, not one beside the other
    branch_norm: NormSite | None
    scale: str | None
    multiplier: float
    residual: Tap
    total: Tap  # residual + multiplier · branch, and what ran in parallel
    parallel: Tap | None
    norm: NormSite | None
    output: Tap | None  # what the norm after the sum returned


@dataclass(frozen=True, eq=False)
class State:
    """A tensor that was seen, as rows of numbers in double precision."""

    tap: Tap
    time: int
    rows: Tensor  # [token width]
    shape: tuple[int, ...]
    dtype: torch.dtype
    mark: tuple[float, float]  # equal for equal tensors, different for others


@dataclass(frozen=True, eq=False)
class _Branch:
    """What attention adds to the residual, followed as far as some module boundary."""

    state: State
    norm: NormSite | None = None
    scale: str | None = None


def discover(model: nn.Module, trace: Pass) -> list[Wiring]:
    """The wiring of every attention call of a fully watched pass, in the order in which they ran."""
    modules = dict(model.named_modules())
    names = {id(module): name for name, module in modules.items()}
    states = [as_state(seen.tap, seen.time, seen.value) for seen in trace.seen]
    times = [time for time, _, _ in trace.calls] + [trace.clock + 1] * 2
    wirings = []
    for number, (time, call, output) in enumerate(trace.calls):
        before = times[number - 1] if number else 0
        search = Search(
            modules,
            torch.finfo(output.dtype).eps,
            earlier=[s for s in states if before < s.time < time],
            later=[s for s in states if time < s.time < times[number + 1]],
            following=[s for s in states if time < s.time < times[number + 2]],
        )
        wirings.append(search.wiring(names.get(id(call.module)), call, output, time))
    return wirings


@dataclass(frozen=True, eq=False)
class Search:
    """The tensors around one attention call, and the questions asked of them."""

    modules: dict[str, nn.Module]
    eps: float
    earlier: Sequence[State]
    later: Sequence[State]  # until the next attention call
    following: Sequence[State]  # until the one after that

    def wiring(self, name: str | None, call: Call, heads: Tensor, time: int) -> Wiring:
        projected, added = self._projection(name, heads, time)
        name = projected.tap.module.rpartition(".")[0] if name is None else name
        branch = _Branch(projected)
        branches = [branch, *self._steps(branch)]
        for find in (self._sum, self._parallel_sum):
            for branch in branches:
                found = find(branch.state)
                if found is None:
                    continue
                residual, total, beside, multiplier = found
                norm, output = (None, None) if beside else self._norm_after(total)
                return Wiring(
                    attention=name,
                    cross=self._is_cross(name, call),
                    projection=projected.tap.module,
                    added=added,
                    branch_norm=branch.norm,
                    scale=branch.scale,
                    multiplier=multiplier,
                    residual=residual.tap,
                    total=total.tap,
                    parallel=beside.tap if beside else None,
                    norm=norm,
                    output=output.tap if output else None,
                )
        raise ProofError(
            f"cannot explain the attention block around {name!r}: the output of "
            f"{projected.tap.module!r} was seen, but no later tensor is the sum of it (or of its norm "
            "or scale) and an earlier hidden state, so where the residual joins is unknown"
        )

    def _projection(self, name: str | None, heads: Tensor, time: int) -> tuple[State, bool]:
        """The first module that turns the heads, concatenated or added, into something else: its result, and which."""
        for together, added in ((heads.flatten(-2), False), (heads.sum(-2), True)):
            merged = as_state(Tap("", "out", None, 0), time, together)
            for given, result in self._calls(merged, self.later):
                module = self.modules[given.tap.module]
                own = any(True for _ in module.parameters(recurse=False))
                if (own or not list(module.children())) and result.mark != merged.mark:
                    return result, added
        raise ProofError(
            f"cannot explain the attention of {name or 'a block'!r}: no module was given its heads (shape "
            f"{tuple(heads.shape)}), concatenated or added, so there is no output projection to read; a gate or a "
            "norm between attention and projection is not supported"
        )

    def _steps(self, branch: _Branch) -> Iterator[_Branch]:
        """A norm or a scale per channel that the branch passes before it joins the residual."""
        for given, result in self._calls(branch.state, self.later):
            if given.shape != result.shape or result.mark == given.mark:
                continue
            if norm := self.norm(given, result):
                step = _Branch(result, norm=norm, scale=branch.scale)
            elif self.is_scale(given.rows, result.rows):
                step = _Branch(result, norm=branch.norm, scale=given.tap.module)
            else:
                continue
            yield step
            yield from self._steps(step)

    def _sum(self, branch: State) -> tuple[State, State, None, float] | None:
        """(residual, total, nothing, m) with total = residual + m · branch."""
        states = distinct(self.earlier, branch)
        if not states:
            return None
        stacked = torch.stack([state.rows for state in states])  # [state token width]
        for total in distinct(self.later, branch):
            if total.time < branch.time:
                continue
            hit = self.adds_up(total.rows, stacked, branch.rows)
            if hit is not None:
                return states[hit], total, None, 1.0
            for state in states:
                multiplier = multiple(total.rows - state.rows, branch.rows)
                for digits in (1, 2, 3, 4, 12):  # the shortest number that explains it
                    scaled = round(multiplier, digits) * branch.rows
                    if self.adds_up(total.rows, state.rows[None], scaled) is not None:
                        return state, total, None, round(multiplier, digits)
        return None

    def _parallel_sum(self, branch: State) -> tuple[State, State, State, float] | None:
        """(residual, total, beside, 1) with total = residual + branch + what ran beside."""
        outputs = distinct([s for s in self.later if s.tap.side == "out"], branch)
        if not outputs:
            return None
        stacked = torch.stack([output.rows for output in outputs])  # [output token width]
        for total in distinct(self.later, branch):
            for state in distinct(self.earlier, branch):
                hit = self.adds_up(total.rows, stacked, branch.rows, state.rows)
                if total.time > branch.time and hit is not None:
                    return state, total, outputs[hit], 1.0
        return None

    def _norm_after(self, total: State) -> tuple[NormSite | None, State | None]:
        """The norm and its result, if what follows builds on that and not on the sum itself."""
        for given, result in self._calls(total, self.following):
            if norm := self.norm(given, result):
                after = [s for s in self.following if s.time > result.time]
                if self._carries(total, after):  # asked first, since most models are pre-norm
                    return None, None
                if self._carries(result, after):
                    return norm, result
        return None, None

    def _carries(self, base: State, after: Sequence[State]) -> bool:
        """Whether some later tensor is `base` plus a multiple of a module's output."""
        totals = distinct(after, base)
        outputs = [s.rows for s in totals if s.tap.side == "out"]
        if not outputs:
            return False
        stacked = torch.stack(outputs)  # [output token width]
        for total in totals:
            rest = total.rows - base.rows
            if self.adds_up(total.rows, stacked, base.rows) is not None:
                return True
            alike = (stacked * rest).sum((1, 2)).abs() / stacked.flatten(1).norm(dim=1).clamp_min(1e-30)
            best = stacked[int(alike.argmax())]
            scaled = multiple(rest, best) * best
            if self.adds_up(total.rows, scaled[None], base.rows) is not None:
                return True
        return False

    def _is_cross(self, name: str, call: Call) -> bool:
        """Whether keys come from another sequence: the module was given two different ones."""
        calls = [s for s in self.earlier if s.tap.module == name and s.tap.side == "in"]
        last = max((s.tap.call for s in calls), default=0)
        given = [s for s in calls if s.tap.call == last and len(s.shape) == 3]
        return any(
            other.shape == (given[0].shape[0], call.value.shape[2], given[0].shape[2]) and other.mark != given[0].mark
            for other in given[1:]
        )

    def _calls(self, given: State, among: Sequence[State]) -> Iterator[tuple[State, State]]:
        """(argument, result) of every module call that was given this tensor as it is."""
        for one in among:
            if one.tap.side == "in" and one.mark == given.mark and one.time > given.time - 1:
                for result in among:
                    tap = result.tap
                    if (tap.module, tap.side, tap.call) == (one.tap.module, "out", one.tap.call):
                        yield one, result
                        break

    def norm(self, given: State, result: State) -> NormSite | None:
        if given.rows.shape != result.rows.shape:
            return None
        name = given.tap.module
        return find_norm(name, self.modules[name], given.rows, result.rows, self.eps)

    def is_scale(self, given: Tensor, image: Tensor) -> bool:
        """Whether each channel is multiplied by a number of its own, the same for all tokens."""
        factor = (given * image).sum(0) / given.square().sum(0).clamp_min(1e-30)
        return bool(((given * factor - image).abs() <= 4 * self.eps * image.abs()).all())

    def adds_up(self, total: Tensor, choices: Tensor, *parts: Tensor) -> int | None:
        """Which of the choices, with the other parts, makes up the total to the last digit.

        Each addition may round by half a unit of the model's precision. A part that is smaller than
        that would not be noticed, so then the sum itself must come out bit for bit.
        """
        if len(choices) == 0:
            return None
        sums, sizes = choices.clone(), choices.abs()
        for part in parts:
            sums += part
            sizes += part.abs()
        allowed = (len(parts) + 1) * self.eps * sizes
        fits = ((total - sums).abs() <= allowed).flatten(1).all(1)  # [choice]
        for hit in fits.nonzero().flatten().tolist():
            smallest = min(part.abs().mean() for part in (choices[hit], *parts))
            if smallest > 4 * allowed[hit].mean():
                return hit
        return None


def as_state(tap: Tap, time: int, value: Tensor) -> State:
    rows = value.detach().reshape(-1, value.shape[-1]).cpu().double()  # some accelerators have no doubles
    weights = torch.linspace(1, 2, rows.numel(), dtype=rows.dtype, device=rows.device)
    flat = rows.flatten()
    mark = (float(flat @ weights), float(flat @ flat))
    return State(tap, time, rows, tuple(value.shape), value.dtype, mark)


def multiple(rest: Tensor, part: Tensor) -> float:
    """The number m for which m · part comes closest to the rest."""
    return float((rest * part).sum() / part.square().sum().clamp_min(1e-30))


def distinct(states: Sequence[State], like: State) -> list[State]:
    """Tensors of the same size and width, each value once."""
    kept: dict[tuple[float, float], State] = {}
    for one in states:
        if one.rows.shape == like.rows.shape:
            kept.setdefault(one.mark, one)
    return list(kept.values())
