"""Discover how a model's attention blocks are wired, from the tensors of one pass rather than from names.

Around each attention call, look for the module that receives the merged heads (the output projection), for steps on
the branch (a norm, a scale per channel), and for an earlier hidden state x such that x + m · branch is seen later
(the residual). Then decide whether a norm lies between that sum and the next block (post-norm). A wiring is only a
hypothesis about where to look: every capture verifies it on its own numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.discover.relations import State, adds_up, as_state, distinct, is_scale, multiple, norm_between
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Pass, Tap
from thalweg.errors import ProofError


@dataclass(frozen=True)
class BlockWiring:
    """Where the pieces of one attention block are found in the model."""

    attention: str
    cross: bool
    projection: str
    added: bool  # the projection receives the sum of the heads, not their concatenation
    branch_norm: NormSite | None
    scale: str | None
    multiplier: float
    residual: Tap
    total: Tap  # residual + multiplier · branch, plus the parallel MLP if there is one
    parallel: Tap | None
    norm: NormSite | None
    output: Tap | None  # the result of the norm after the sum


@dataclass(frozen=True, eq=False)
class _Branch:
    """The attention branch, followed up to some module boundary."""

    state: State
    norm: NormSite | None = None
    scale: str | None = None


@dataclass(frozen=True, eq=False)
class _Join:
    """total = residual + multiplier · branch + beside, where `beside` is a parallel MLP or nothing."""

    residual: State
    total: State
    beside: State | None
    multiplier: float


def discover_blocks(model: nn.Module, trace: Pass) -> list[BlockWiring]:
    """The wiring of every attention call of a fully watched pass, in execution order."""
    modules = dict(model.named_modules())
    names = {id(module): name for name, module in modules.items()}
    states = [as_state(seen.tap, seen.time, seen.value) for seen in trace.seen]
    times = [time for time, _, _ in trace.calls] + [trace.clock + 1] * 2
    wirings = []
    for number, (time, call, output) in enumerate(trace.calls):
        before = times[number - 1] if number else 0
        search = _Search(
            modules,
            torch.finfo(output.dtype).eps,
            earlier=[s for s in states if before < s.time < time],
            later=[s for s in states if time < s.time < times[number + 1]],
            following=[s for s in states if time < s.time < times[number + 2]],
        )
        wirings.append(search.wiring(names.get(id(call.module)), call, output, time))
    return wirings


@dataclass(frozen=True, eq=False)
class _Search:
    """The tensors around one attention call, and the relations that are searched among them."""

    modules: dict[str, nn.Module]
    eps: float
    earlier: Sequence[State]
    later: Sequence[State]  # until the next attention call
    following: Sequence[State]  # until the call after that

    def wiring(self, name: str | None, call: Call, heads: Tensor, time: int) -> BlockWiring:
        projected, added = self._projection(name, heads, time)
        name = projected.tap.module.rpartition(".")[0] if name is None else name
        branch = _Branch(projected)
        branches = [branch, *self._steps(branch)]
        for find in (self._sum, self._parallel_sum):
            for branch in branches:
                join = find(branch.state)
                if join is None:
                    continue
                norm, output = (None, None) if join.beside else self._norm_after(join.total)
                return BlockWiring(
                    attention=name,
                    cross=self._is_cross(name, call),
                    projection=projected.tap.module,
                    added=added,
                    branch_norm=branch.norm,
                    scale=branch.scale,
                    multiplier=join.multiplier,
                    residual=join.residual.tap,
                    total=join.total.tap,
                    parallel=join.beside.tap if join.beside else None,
                    norm=norm,
                    output=output.tap if output else None,
                )
        raise ProofError(
            f"cannot find the residual connection of the attention block {name!r}: no later tensor is the sum of an "
            f"earlier hidden state and the output of {projected.tap.module!r} (or a norm or scale of it)"
        )

    def _projection(self, name: str | None, heads: Tensor, time: int) -> tuple[State, bool]:
        """The result of the first module that transforms the heads, and whether these were added before it."""
        for together, added in ((heads.flatten(-2), False), (heads.sum(-2), True)):
            merged = as_state(Tap("", "out", None, 0), time, together)
            for argument, result in self._calls(merged, self.later):
                module = self.modules[argument.tap.module]
                own = any(True for _ in module.parameters(recurse=False))
                if (own or not list(module.children())) and result.mark != merged.mark:
                    return result, added
        raise ProofError(
            f"cannot find the output projection of the attention in {name or 'a block'!r}: no module receives its "
            f"heads (shape {tuple(heads.shape)}), concatenated or added; a gate or a norm between attention and "
            "projection is not supported"
        )

    def _steps(self, branch: _Branch) -> Iterator[_Branch]:
        """The branch after each norm or scale per channel that it passes before it joins the residual."""
        for argument, result in self._calls(branch.state, self.later):
            if argument.shape != result.shape or result.mark == argument.mark:
                continue
            if norm := norm_between(argument, result, self.modules, self.eps):
                step = _Branch(result, norm=norm, scale=branch.scale)
            elif is_scale(argument.rows, result.rows, self.eps):
                step = _Branch(result, norm=branch.norm, scale=argument.tap.module)
            else:
                continue
            yield step
            yield from self._steps(step)

    def _sum(self, branch: State) -> _Join | None:
        """total = residual + m · branch."""
        states = distinct(self.earlier, branch)
        if not states:
            return None
        stacked = torch.stack([state.rows for state in states])  # [state token width]
        for total in distinct(self.later, branch):
            if total.time < branch.time:
                continue
            hit = adds_up(total.rows, stacked, branch.rows, eps=self.eps)
            if hit is not None:
                return _Join(states[hit], total, None, 1.0)
            for state in states:
                multiplier = multiple(total.rows - state.rows, branch.rows)
                for digits in (1, 2, 3, 4, 12):  # prefer the shortest decimal that fits
                    scaled = round(multiplier, digits) * branch.rows
                    if adds_up(total.rows, state.rows[None], scaled, eps=self.eps) is not None:
                        return _Join(state, total, None, round(multiplier, digits))
        return None

    def _parallel_sum(self, branch: State) -> _Join | None:
        """total = residual + branch + the output of a module that runs in parallel."""
        outputs = distinct([s for s in self.later if s.tap.side == "out"], branch)
        if not outputs:
            return None
        stacked = torch.stack([output.rows for output in outputs])  # [output token width]
        for total in distinct(self.later, branch):
            for state in distinct(self.earlier, branch):
                hit = adds_up(total.rows, stacked, branch.rows, state.rows, eps=self.eps)
                if total.time > branch.time and hit is not None:
                    return _Join(state, total, outputs[hit], 1.0)
        return None

    def _norm_after(self, total: State) -> tuple[NormSite | None, State | None]:
        """The norm and its result, if the following layers build on that result and not on the sum itself."""
        for argument, result in self._calls(total, self.following):
            if norm := norm_between(argument, result, self.modules, self.eps):
                after = [s for s in self.following if s.time > result.time]
                if self._carries(total, after):  # checked first, since most models are pre-norm
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
            if adds_up(total.rows, stacked, base.rows, eps=self.eps) is not None:
                return True
            alike = (stacked * rest).sum((1, 2)).abs() / stacked.flatten(1).norm(dim=1).clamp_min(1e-30)
            best = stacked[int(alike.argmax())]
            scaled = multiple(rest, best) * best
            if adds_up(total.rows, scaled[None], base.rows, eps=self.eps) is not None:
                return True
        return False

    def _is_cross(self, name: str, call: Call) -> bool:
        """Whether the keys come from another sequence: the attention module received two different ones."""
        arguments = [s for s in self.earlier if s.tap.module == name and s.tap.side == "in"]
        last = max((s.tap.call for s in arguments), default=0)
        sequences = [s for s in arguments if s.tap.call == last and len(s.shape) == 3]
        if not sequences:
            return False
        own = sequences[0]
        expected = (own.shape[0], call.value.shape[2], own.shape[2])
        return any(other.shape == expected and other.mark != own.mark for other in sequences[1:])

    def _calls(self, state: State, among: Sequence[State]) -> Iterator[tuple[State, State]]:
        """(argument, result) of every module call that received this tensor unchanged."""
        for argument in among:
            if argument.tap.side == "in" and argument.mark == state.mark and argument.time > state.time - 1:
                for result in among:
                    tap = result.tap
                    if (tap.module, tap.side, tap.call) == (argument.tap.module, "out", argument.tap.call):
                        yield argument, result
                        break
