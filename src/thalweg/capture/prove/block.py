"""Turn a watched pass into verified blocks: what cannot be proved is refused, never guessed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.discover.block import Wiring
from thalweg.capture.linear import read_affine
from thalweg.capture.observe import Tap
from thalweg.capture.record import Attention, Block, Role
from thalweg.errors import ModelError, ProofError
from thalweg.numerics import relative_errors, tolerance, working, worst

PARITY_ROWS = 32  # rows whose weights are checked at capture; the others when they are asked for
SHORT = 64  # tokens: examples of a batch that are no longer are checked together, and whole


@dataclass(frozen=True)
class Place:
    """Which example of the batch, and where its query and key tokens stand among all its tokens."""

    example: int
    role: Role
    queries: slice
    keys: slice

    @property
    def query_count(self) -> int:
        return self.queries.stop - self.queries.start

    @property
    def key_count(self) -> int:
        return self.keys.stop - self.keys.start


def prove_blocks(
    model: nn.Module,
    wiring: Wiring,
    call: Call,
    output: Tensor,
    seen: dict[Tap, Tensor],
    places: Sequence[Place],
) -> list[Block]:
    """The attention block of every example, with its parity and sum-of-parts error, or a ProofError.

    What a block adds up is computed for the whole batch at once; examples are cut out of it without their padding.
    """
    batch, length = output.shape[:2]
    counts = [place.query_count for place in places]

    def state(tap: Tap) -> Tensor:
        return seen[tap].detach().reshape(batch, length, -1)  # [example query width]

    def alone(part: Tensor) -> Tensor:
        """A copy where the example is one of several, so that it does not keep the others in memory."""
        return part.clone() if batch > 1 else part

    attentions = [_attention(call, output, place, alone) for place in places]
    given, total = state(wiring.residual), state(wiring.total)
    exact = working(total.dtype)
    heads, size = output.shape[2:]
    width = size if wiring.added else heads * size
    weight, bias = read_affine(model.get_submodule(wiring.projection), width, total.dtype, total.device)
    if wiring.added:  # Σ_h mixed_h · W is [mixed_1, …] · [W; …; W]
        weight = weight.repeat(heads, 1)
    branch = output.detach().flatten(2).to(exact) @ weight.to(exact)
    if bias is not None:
        branch += bias.to(exact)
    branch_norm = scale = None
    if wiring.branch_norm is not None:
        branch_norm = wiring.branch_norm.read(model)
        branch = branch_norm(branch)
    if wiring.scale is not None:
        scale = _scale(model.get_submodule(wiring.scale), total[0])
        branch = branch * scale.to(exact)
    summed = torch.add(given.to(exact), branch, alpha=wiring.multiplier)
    everything = summed if wiring.parallel is None else summed + state(wiring.parallel).to(exact)
    errors = relative_errors(everything, total, counts)
    where = f"{wiring.projection!r} (block {wiring.attention!r})"
    for example, (attention, error) in enumerate(zip(attentions, errors, strict=True)):
        if not error <= _allowed(attention, total.dtype):
            rows = slice(0, counts[example])
            _check_finite(wiring, given[example, rows], attention.output, total[example, rows])
            _require(error, _allowed(attention, total.dtype), f"input plus attention branch at {where}", wiring.total)

    norm, made = None, summed
    if wiring.norm is not None and wiring.output is not None:
        made = state(wiring.output)
        norm = wiring.norm.read(model)
        after = relative_errors(norm(summed), made, counts)
        for attention, error in zip(attentions, after, strict=True):
            _require(error, _allowed(attention, total.dtype), f"the norm of the sum at {where}", wiring.output)
        errors = [worst(both) for both in zip(errors, after, strict=True)]
    if wiring.parallel is None:
        summed = total
        made = total if norm is None else made
    blocks = []
    parities = _parities(call, output, counts, attentions)
    for place, attention, error, parity in zip(places, attentions, errors, parities, strict=True):
        allowed = _allowed(attention, total.dtype)
        if not parity <= 2 * allowed:
            _check_finite(wiring, attention.weights(), attention.value)
            _require(parity, 2 * allowed, f"weights times values of {wiring.attention!r}", "the model's kernel")
        rows = (place.example, slice(0, place.query_count))
        parts = {id(one): alone(one[rows]) for one in (given, summed, made)}  # two of them may be the same
        blocks.append(
            Block(
                name=wiring.attention,
                role=place.role,
                attention=attention,
                projection=weight.unflatten(0, (heads, size)),
                bias=bias,
                branch_norm=branch_norm,
                scale=scale,
                multiplier=wiring.multiplier,
                input=parts[id(given)],
                summed=parts[id(summed)],
                output=parts[id(made)],
                norm=norm,
                parallel=wiring.parallel is not None,
                queries=place.queries,
                keys=place.keys,
                parity=parity,
                sum_error=error,
                tolerance=allowed,
                heads_added=wiring.added,
            )
        )
    return blocks


def _allowed(attention: Attention, dtype: torch.dtype) -> float:
    return tolerance(dtype, attention.heads * attention.output.shape[-1] + attention.value.shape[1])


def _attention(call: Call, output: Tensor, place: Place, alone: Callable[[Tensor], Tensor]) -> Attention:
    example, rows, columns = place.example, place.query_count, place.key_count
    options = call.options
    scaling = options.get("scaling")

    def crop(added: Tensor | None) -> Tensor | None:
        if added is None or added.dim() == 2:  # a flash kernel's padding mask: nothing left after the crop
            return None
        one = added[example if added.shape[0] > 1 else 0].detach()  # [one_or_all_heads query key]
        if one.shape[1] == 1:
            one = one.expand(-1, rows, -1)
        return alone(one[:, :rows, :columns])

    values = alone(call.value[example, :, :columns].detach())
    mixed = alone(output[example, :rows].detach())
    if call.query is None or call.key is None:
        return Attention(values, mixed, kept=crop(call.weights))
    sinks = options.get("s_aux")
    return Attention(
        values,
        mixed,
        query=alone(call.query[example, :, :rows].detach()),
        key=alone(call.key[example, :, :columns].detach()),
        scaling=call.query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        mask=_hiding(crop(call.mask)),
        bias=crop(options.get("position_bias")),
        causal=call.causal,
        window=call.window,
        softcap=options.get("softcap"),
        sinks=None if sinks is None else sinks.detach(),
    )


def _hiding(mask: Tensor | None) -> Tensor | None:
    """A mask that hides nothing, now that padding is cut away, is none."""
    if mask is None:
        return None
    idle = mask.all() if mask.dtype == torch.bool else not mask.any()
    return None if idle else mask


def _parities(call: Call, output: Tensor, counts: Sequence[int], attentions: Sequence[Attention]) -> list[float]:
    """Parity of each example: of short ones, which are many small sums, at once, with all heads side by side."""
    batch, length, heads = output.shape[:3]
    told_apart = call.mask is not None and call.mask.dim() == 4  # padding is hidden by the model's own mask
    if batch == 1 or length > SHORT or call.query is None or call.key is None or not told_apart:
        return [_sampled_parity(attention) for attention in attentions]

    def side_by_side(added: Tensor | None) -> Tensor | None:
        return None if added is None else added.detach().expand(batch, heads, length, -1).flatten(0, 1)

    bias, sinks = call.options.get("position_bias"), attentions[0].sinks
    whole = replace(
        attentions[0],
        value=call.value.detach().flatten(0, 1),
        output=output.detach().transpose(0, 1).flatten(1, 2),  # [query example·head value_size]
        query=call.query.detach().flatten(0, 1),
        key=call.key.detach().flatten(0, 1),
        mask=side_by_side(call.mask),
        bias=side_by_side(bias),
        sinks=None if sinks is None else sinks.repeat(batch),
    )
    errors = whole.errors(slice(None), whole.weights(), whole.values()).unflatten(0, (batch, heads)).amax(1)
    real = torch.arange(length) < torch.tensor(counts)[:, None]  # [example query]
    return torch.where(real.to(errors.device), errors, 0.0).amax(1).tolist()


def _sampled_parity(attention: Attention) -> float:
    """Parity of rows spread evenly over the sequence; of all of them when there are few."""
    count = len(attention.output)
    step = -(-count // PARITY_ROWS)
    last = slice((count - 1) % step, count, step)  # the last row is the one that a language model reads
    return worst(error for _, _, error in attention.blocks(last))


def _scale(module: nn.Module, like: Tensor) -> Tensor:
    with torch.no_grad():
        return module(torch.ones_like(like[:1]))[0]


def _check_finite(wiring: Wiring, *tensors: Tensor) -> None:
    if not all(bool(tensor.isfinite().all()) for tensor in tensors):
        raise not_finite(wiring.attention)


def not_finite(module: str) -> ModelError:
    """The error for activations that have gone astray, with the module where they were first seen."""
    return ModelError(
        f"NaN or infinite activations, first seen in {module!r}: check the model's weights and its dtype (float16 "
        "overflows where bfloat16 and float32 do not)"
    )


def _require(error: float, allowed: float, made: str, flowed: Tap | str) -> None:
    if not error <= allowed:
        raise ProofError(
            f"{made} should equal {flowed}, but differs by {error:.1e} of its size where {allowed:.1e} "
            "is allowed; the block is refused rather than guessed"
        )
