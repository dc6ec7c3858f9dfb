"""Verify the attention blocks of a pass: everything that cannot be proved raises an error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.linear import read_affine
from thalweg.capture.norm import Norm
from thalweg.capture.observe import Tap
from thalweg.capture.record import Attention, Block, Role
from thalweg.errors import ModelError, ProofError
from thalweg.numerics import relative_errors, tolerance, working, worst

PARITY_ROWS = 32  # rows whose weights are checked at capture; the others are checked when they are read
MAX_BATCHED_TOKENS = 64  # up to this length, the examples of a batch are checked together and in every row


@dataclass(frozen=True)
class Place:
    """Index of an example in the batch, and the positions of its queries and keys among all its tokens."""

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


@dataclass(frozen=True, eq=False)
class _Weights:
    """The modules of a block with their current weights."""

    projection: Tensor  # [head*value_size width]
    bias: Tensor | None
    branch_norm: Norm | None
    scale: Tensor | None
    norm: Norm | None

    def branch(self, heads: Tensor, exact: torch.dtype) -> Tensor:
        """scale ⊙ norm_b(Σ_h A_h V_h W_h + b) of a batch."""
        branch = heads.detach().flatten(2).to(exact) @ self.projection.to(exact)
        if self.bias is not None:
            branch += self.bias.to(exact)
        if self.branch_norm is not None:
            branch = self.branch_norm(branch)
        return branch if self.scale is None else branch * self.scale.to(exact)


@dataclass(frozen=True, eq=False)
class _States:
    """The verified states of a block, [example query width], and each example's largest error."""

    input: Tensor
    summed: Tensor
    output: Tensor
    errors: list[float]


def prove_blocks(
    model: nn.Module,
    wiring: BlockWiring,
    call: Call,
    output: Tensor,
    tensors: dict[Tap, Tensor],
    places: Sequence[Place],
) -> list[Block]:
    """The attention block of every example with its parity and sum-of-parts error, or a ProofError.

    Sums are computed for the whole batch at once; each example is then cut out without its padding.
    """
    batch, _, heads, size = output.shape
    counts = [place.query_count for place in places]
    attentions = [_attention(call, output, place) for place in places]
    total = tensors[wiring.total]
    tolerances = [_tolerance(attention, total.dtype) for attention in attentions]
    weights = _read_weights(model, wiring, output, total)
    states = _prove_sum(wiring, weights, output, tensors, attentions, tolerances)
    parities = _prove_parity(wiring, call, output, attentions, tolerances)
    blocks = []
    for number, (place, attention) in enumerate(zip(places, attentions, strict=True)):
        rows = (place.example, slice(0, counts[number]))
        summed = _own(states.summed[rows], batch)
        blocks.append(
            Block(
                name=wiring.attention,
                role=place.role,
                attention=attention,
                projection=weights.projection.unflatten(0, (heads, size)),
                bias=weights.bias,
                branch_norm=weights.branch_norm,
                scale=weights.scale,
                multiplier=wiring.multiplier,
                input=_own(states.input[rows], batch),
                summed=summed,
                output=summed if states.output is states.summed else _own(states.output[rows], batch),
                norm=weights.norm,
                parallel=wiring.parallel is not None,
                queries=place.queries,
                keys=place.keys,
                parity=parities[number],
                sum_error=states.errors[number],
                tolerance=tolerances[number],
                heads_added=wiring.added,
            )
        )
    return blocks


def _read_weights(model: nn.Module, wiring: BlockWiring, heads: Tensor, total: Tensor) -> _Weights:
    count, size = heads.shape[2:]
    width = size if wiring.added else count * size
    projection, bias = read_affine(model.get_submodule(wiring.projection), width, total.dtype, total.device)
    if wiring.added:  # Σ_h mixed_h · W = [mixed_1, …] · [W; …; W]
        projection = projection.repeat(count, 1)
    return _Weights(
        projection=projection,
        bias=bias,
        branch_norm=None if wiring.branch_norm is None else wiring.branch_norm.read(model),
        scale=None if wiring.scale is None else _scale(model.get_submodule(wiring.scale), total),
        norm=None if wiring.norm is None or wiring.output is None else wiring.norm.read(model),
    )


def _prove_sum(
    wiring: BlockWiring,
    weights: _Weights,
    heads: Tensor,
    tensors: dict[Tap, Tensor],
    attentions: Sequence[Attention],
    tolerances: Sequence[float],
) -> _States:
    """Sum of parts: the residual plus the branch must equal the total, and its norm the block's output."""
    batch, length = heads.shape[:2]
    counts = [len(attention.output) for attention in attentions]

    def state(tap: Tap) -> Tensor:
        return tensors[tap].detach().reshape(batch, length, -1)  # [example query width]

    residual, total = state(wiring.residual), state(wiring.total)
    exact = working(total.dtype)
    computed = torch.add(residual.to(exact), weights.branch(heads, exact), alpha=wiring.multiplier)
    everything = computed if wiring.parallel is None else computed + state(wiring.parallel).to(exact)
    errors = relative_errors(everything, total, counts)
    where = f"{wiring.projection!r} (block {wiring.attention!r})"
    for example, (error, allowed) in enumerate(zip(errors, tolerances, strict=True)):
        if not error <= allowed:
            rows = slice(0, counts[example])
            _check_finite(wiring, residual[example, rows], attentions[example].output, total[example, rows])
            _require(error, allowed, f"the input plus the attention branch at {where}", wiring.total)
    summed = total if wiring.parallel is None else computed
    if weights.norm is None or wiring.output is None:
        return _States(residual, summed, summed, errors)
    output = state(wiring.output)
    norm_errors = relative_errors(weights.norm(computed), output, counts)
    for error, allowed in zip(norm_errors, tolerances, strict=True):
        _require(error, allowed, f"the norm of the sum at {where}", wiring.output)
    return _States(residual, summed, output, [worst(both) for both in zip(errors, norm_errors, strict=True)])


def _prove_parity(
    wiring: BlockWiring, call: Call, output: Tensor, attentions: Sequence[Attention], tolerances: Sequence[float]
) -> list[float]:
    """Parity of each example: recomputed weights times values must equal the result of the model's kernel."""
    parities = _parities(call, output, attentions)
    for attention, parity, allowed in zip(attentions, parities, tolerances, strict=True):
        if not parity <= 2 * allowed:
            _check_finite(wiring, attention.weights(), attention.value)
            _require(parity, 2 * allowed, f"weights times values of {wiring.attention!r}", "result of the kernel")
    return parities


def _tolerance(attention: Attention, dtype: torch.dtype) -> float:
    return tolerance(dtype, attention.heads * attention.output.shape[-1] + attention.value.shape[1])


def _own(part: Tensor, batch: int) -> Tensor:
    """One example's part of a batch; copied if there are others, so that it does not keep them in memory."""
    return part.clone() if batch > 1 else part


def _attention(call: Call, output: Tensor, place: Place) -> Attention:
    example, rows, columns = place.example, place.query_count, place.key_count
    batch, options = len(output), call.options
    scaling, sinks = options.get("scaling"), options.get("s_aux")

    def crop(added: Tensor | None) -> Tensor | None:
        if added is None or added.dim() == 2:  # a flash kernel's padding mask hides nothing once padding is cut away
            return None
        part = added[example if added.shape[0] > 1 else 0].detach()  # [one_or_all_heads query key]
        if part.shape[1] == 1:
            part = part.expand(-1, rows, -1)
        return _own(part[:, :rows, :columns], batch)

    values = _own(call.value[example, :, :columns].detach(), batch)
    mixed = _own(output[example, :rows].detach(), batch)
    if call.query is None or call.key is None:
        return Attention(values, mixed, kept=crop(call.weights))
    return Attention(
        values,
        mixed,
        query=_own(call.query[example, :, :rows].detach(), batch),
        key=_own(call.key[example, :, :columns].detach(), batch),
        scaling=call.query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        mask=_hiding(crop(call.mask)),
        bias=crop(options.get("position_bias")),
        causal=call.causal,
        window=call.window,
        softcap=options.get("softcap"),
        sinks=None if sinks is None else sinks.detach(),
    )


def _hiding(mask: Tensor | None) -> Tensor | None:
    """The mask, or None if it hides nothing once padding is cut away."""
    if mask is None:
        return None
    idle = mask.all() if mask.dtype == torch.bool else not mask.any()
    return None if idle else mask


def _parities(call: Call, output: Tensor, attentions: Sequence[Attention]) -> list[float]:
    """Parity of each example; short examples are computed together, as heads of one large attention."""
    batch, length, heads = output.shape[:3]
    padding_masked = call.mask is not None and call.mask.dim() == 4  # the model's own mask hides padding
    if batch == 1 or length > MAX_BATCHED_TOKENS or call.query is None or call.key is None or not padding_masked:
        return [_sampled_parity(attention) for attention in attentions]

    def side_by_side(added: Tensor | None) -> Tensor | None:
        return None if added is None else added.detach().expand(batch, heads, length, -1).flatten(0, 1)

    bias, sinks = call.options.get("position_bias"), attentions[0].sinks
    merged = replace(
        attentions[0],
        value=call.value.detach().flatten(0, 1),
        output=output.detach().transpose(0, 1).flatten(1, 2),  # [query example·head value_size]
        query=call.query.detach().flatten(0, 1),
        key=call.key.detach().flatten(0, 1),
        mask=side_by_side(call.mask),
        bias=side_by_side(bias),
        sinks=None if sinks is None else sinks.repeat(batch),
    )
    errors = merged.errors(slice(None), merged.weights(), merged.values()).unflatten(0, (batch, heads)).amax(1)
    counts = torch.tensor([len(attention.output) for attention in attentions])
    real = torch.arange(length) < counts[:, None]  # [example query]
    return torch.where(real.to(errors.device), errors, 0.0).amax(1).tolist()


def _sampled_parity(attention: Attention) -> float:
    """Parity of rows spread evenly over the sequence, or of all rows if there are few."""
    count = len(attention.output)
    step = -(-count // PARITY_ROWS)
    sample = slice((count - 1) % step, count, step)  # includes the last row, which a language model reads
    return worst(error for _, _, error in attention.row_chunks(sample))


def _scale(module: nn.Module, total: Tensor) -> Tensor:
    with torch.no_grad():
        return module(torch.ones_like(total.reshape(-1, total.shape[-1])[:1]))[0]


def _check_finite(wiring: BlockWiring, *tensors: Tensor) -> None:
    if not all(bool(tensor.isfinite().all()) for tensor in tensors):
        raise non_finite_error(wiring.attention)


def non_finite_error(module: str) -> ModelError:
    """The error for NaN or infinite activations, with the module where they first occurred."""
    return ModelError(
        f"NaN or infinite activations, first seen in {module!r}: check the model's weights and its dtype (float16 "
        "overflows where bfloat16 and float32 do not)"
    )


def _require(error: float, allowed: float, computed: str, observed: Tap | str) -> None:
    if not error <= allowed:
        raise ProofError(
            f"{computed} should equal the {observed}, but the relative error is {error:.1e} (tolerance {allowed:.1e}); "
            "the block cannot be verified"
        )
