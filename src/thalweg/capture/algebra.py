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
from thalweg.capture.norm import read_norm
from thalweg.capture.observe import Pass, Seen, Tap
from thalweg.errors import ProofError
from thalweg.numerics import relative_error, tolerance


@dataclass(frozen=True)
class Wiring:
    """Where one attention block's pieces are found in the model."""

    attention: str
    cross: bool
    projection: str
    branch_norm: str | None
    scale: str | None
    multiplier: float
    residual: Tap
    total: Tap  # residual + multiplier · branch, and what ran in parallel
    parallel: Tap | None
    norm: str | None
    output: Tap | None  # what the norm after the sum returned


@dataclass(frozen=True)
class _Branch:
    """What attention adds to the residual, followed as far as some module boundary."""

    value: Tensor  # [token width]
    time: int
    norm: str | None = None
    scale: str | None = None


def discover(model: nn.Module, trace: Pass) -> list[Wiring]:
    """The wiring of every attention call of a fully watched pass, in the order in which they ran."""
    trace = _detached(trace)
    names = {id(module): name for name, module in model.named_modules()}
    modules = dict(model.named_modules())
    times = [time for time, _, _ in trace.calls] + [trace.clock + 1] * 2
    wirings = []
    for number, (time, call, output) in enumerate(trace.calls):
        name = names.get(id(call.module))
        before = times[number - 1] if number else 0
        search = _Search(
            modules,
            earlier=[s for s in trace.seen if before < s.time < time],
            later=[s for s in trace.seen if time < s.time < times[number + 1]],
            following=[s for s in trace.seen if time < s.time < times[number + 2]],
        )
        wirings.append(search.wiring(name, call, output))
    return wirings


class _Search:
    """The tensors around one attention call, and the questions asked of them."""

    def __init__(
        self,
        modules: dict[str, nn.Module],
        earlier: Sequence[Seen],
        later: Sequence[Seen],
        following: Sequence[Seen],
    ) -> None:
        self.modules = modules
        self.earlier = earlier
        self.later = later
        self.following = following

    def wiring(self, name: str | None, call: Call, output: Tensor) -> Wiring:
        projected = self._projection(name or f"call {call.implementation}", output)
        if name is None:
            name = projected.tap.module.rpartition(".")[0]
        branch = _Branch(_rows(projected.value), projected.time)
        branches = [branch, *self._steps(branch)]
        for parallel in (False, True):
            for branch in branches:
                found = self._sum(branch, parallel)
                if found:
                    residual, total, beside, multiplier = found
                    norm = None if parallel else self._norm_after(total)
                    return Wiring(
                        attention=name,
                        cross=self._is_cross(name, call),
                        projection=projected.tap.module,
                        branch_norm=branch.norm,
                        scale=branch.scale,
                        multiplier=multiplier,
                        residual=residual.tap,
                        total=total.tap,
                        parallel=beside.tap if beside else None,
                        norm=norm.tap.module if norm else None,
                        output=norm.tap if norm else None,
                    )
        raise ProofError(
            f"cannot explain the attention block around {name!r}: the output of "
            f"{projected.tap.module!r} was seen, but no later tensor is the sum of it (or of its norm "
            "or scale) and an earlier hidden state, so where the residual joins is unknown"
        )

    def _projection(self, name: str, output: Tensor) -> Seen:
        """The first weighted module that is given the merged heads: its result."""
        merged = output.reshape(-1, output.shape[-2] * output.shape[-1])
        for seen in self.later:
            if seen.tap.side == "in" and _same(seen.value, merged):
                module = self.modules[seen.tap.module]
                if any(True for _ in module.parameters(recurse=False)) or not list(module.children()):
                    for result in self.later:
                        if _is_result(result.tap, seen.tap) and not _same(result.value, merged):
                            return result
        raise ProofError(
            f"cannot explain the attention of {name!r}: no module was given its merged heads "
            f"(shape {tuple(merged.shape)}), so there is no output projection to read; a gate or a norm "
            "between attention and projection is not supported"
        )

    def _steps(self, branch: _Branch) -> Iterator[_Branch]:
        """A norm or a scale per channel that the branch passes before it joins the residual."""
        for seen in self.later:
            if seen.tap.side != "in" or seen.time < branch.time or not _same(seen.value, branch.value):
                continue
            result = next((r for r in self.later if _is_result(r.tap, seen.tap)), None)
            if result is None or result.value.shape != seen.value.shape:
                continue
            module, image = self.modules[seen.tap.module], _rows(result.value)
            if _same(image, branch.value):
                continue
            if read_norm(module, branch.value, image) is not None:
                step = _Branch(image, result.time, norm=seen.tap.module, scale=branch.scale)
            elif _is_scale(branch.value, image):
                step = _Branch(image, result.time, norm=branch.norm, scale=seen.tap.module)
            else:
                continue
            yield step
            yield from self._steps(step)

    def _sum(
        self, branch: _Branch, parallel: bool
    ) -> tuple[Seen, Seen, Seen | None, float] | None:
        """(residual, total, what ran beside, multiplier) with total = residual + m · branch + beside."""
        states = _distinct(self.earlier, branch.value)
        totals = _distinct([s for s in self.later if s.time > branch.time], branch.value)
        outputs = _distinct([s for s in self.later if s.tap.side == "out"], branch.value)
        flat = branch.value.flatten()
        for total in totals:
            for state in states:
                rest = (_rows(total.value) - _rows(state.value)).flatten()
                if parallel:
                    for beside in outputs:
                        if _equal(rest - flat, _rows(beside.value).flatten(), total.value):
                            return state, total, beside, 1.0
                else:
                    multiplier = float(rest @ flat / (flat @ flat))
                    close = abs(multiplier - 1) < 1e-3
                    if abs(multiplier) > 1e-2 and _equal(rest, multiplier * flat, total.value):
                        return state, total, None, 1.0 if close else multiplier
        return None

    def _norm_after(self, total: Seen) -> Seen | None:
        """The norm's result, if the next block builds on it and not on the sum itself."""
        summed = _rows(total.value)
        for seen in self.following:
            if seen.tap.side != "in" or not _same(seen.value, summed):
                continue
            result = next((r for r in self.following if _is_result(r.tap, seen.tap)), None)
            if result is None or result.value.numel() != summed.numel():
                continue
            if read_norm(self.modules[seen.tap.module], summed, _rows(result.value)) is None:
                continue
            after = [s for s in self.following if s.time > result.time]
            if self._carries(_rows(result.value), after) and not self._carries(summed, after):
                return result
        return None

    def _carries(self, base: Tensor, after: Sequence[Seen]) -> bool:
        """Whether some later tensor is `base` plus a multiple of a module's output."""
        candidates = _distinct(after, base)
        outputs = torch.stack(
            [_rows(s.value).flatten() for s in candidates if s.tap.side == "out"] or [base.flatten()]
        )  # [output token·width]
        for total in candidates:
            rest = (_rows(total.value) - base).flatten()
            if float(rest.norm()) == 0:
                continue
            multiples = (outputs @ rest) / outputs.square().sum(1).clamp_min(1e-30)
            alike = (outputs @ rest).abs() / (outputs.norm(dim=1) * rest.norm()).clamp_min(1e-30)
            best = int(alike.argmax())
            if _equal(rest, multiples[best] * outputs[best], total.value):
                return True
        return False

    def _is_cross(self, name: str, call: Call) -> bool:
        """Whether keys come from another sequence: the module was given two different ones."""
        calls = [s for s in self.earlier if s.tap.module == name and s.tap.side == "in"]
        last = max((s.tap.call for s in calls), default=0)
        given = [s.value for s in calls if s.tap.call == last and s.value.dim() == 3]
        return any(
            other.shape[1] == call.value.shape[2]
            and other.shape[0] == given[0].shape[0]
            and other.shape[2] == given[0].shape[2]
            and not _same(other, given[0])
            for other in given[1:]
        )


def _detached(trace: Pass) -> Pass:
    calls = [(time, call, output.detach()) for time, call, output in trace.calls]
    seen = [Seen(one.tap, one.time, one.value.detach()) for one in trace.seen]
    return Pass(trace.result, calls, seen, trace.clock)


def _rows(value: Tensor) -> Tensor:
    return value.reshape(-1, value.shape[-1])


def _same(value: Tensor, other: Tensor) -> bool:
    return value.numel() == other.numel() and torch.equal(_rows(value).flatten(), other.flatten())


def _equal(rest: Tensor, wanted: Tensor, total: Tensor) -> bool:
    """rest = wanted, to what rounding allows in a sum as large as `total`, and not by both vanishing."""
    allowed = tolerance(total.dtype, 16) * float(total.norm())
    return float(wanted.norm()) > 4 * allowed and float((rest - wanted).norm()) <= allowed


def _is_result(result: Tap, given: Tap) -> bool:
    return (result.module, result.side, result.call) == (given.module, "out", given.call)


def _is_scale(given: Tensor, image: Tensor) -> bool:
    """Whether each channel is multiplied by a number of its own, the same for all tokens."""
    factor = (given * image).sum(0) / given.square().sum(0).clamp_min(1e-30)
    return relative_error(given * factor, image) <= tolerance(given.dtype, given.shape[0])


def _distinct(seen: Sequence[Seen], like: Tensor) -> list[Seen]:
    """Tensors of the same size and width, each value once."""
    kept: list[Seen] = []
    for one in seen:
        fits = one.value.numel() == like.numel() and one.value.shape[-1] == like.shape[-1]
        if fits and not any(torch.equal(_rows(one.value), _rows(k.value)) for k in kept):
            kept.append(one)
    return kept
