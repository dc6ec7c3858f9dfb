"""Captures: frozen records of one forward pass of one example, without padding."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from thalweg.axes import HeadMaps, Hidden
from thalweg.capture.norm import Norm
from thalweg.capture.observe import Pass
from thalweg.errors import InputError, ProofError
from thalweg.numerics import working
from thalweg.tokens import Tokens

Role = Literal["self", "encoder", "decoder", "cross"]
CHUNK_WEIGHTS = 2**23  # attention weights held at once: 32 MB in float32


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention call: its arguments and the result of the model's own kernel.

    The weights are not stored but recomputed on demand, in blocks of rows:
    softmax(softcap(q kᵀ · scaling) + bias + mask), with a sink as one more column that is dropped. Only for models
    that bypass the registry are the model's own weights `kept`; `query` and `key` are then None.
    """

    value: Float[Tensor, "kv_head key value_size"]
    output: Float[Tensor, "query head value_size"]
    query: Float[Tensor, "head query size"] | None = None
    key: Float[Tensor, "kv_head key size"] | None = None
    kept: HeadMaps | None = None
    scaling: float = 1.0
    mask: Shaped[Tensor, "mask_head query key"] | None = None  # bool: may attend; float: added
    bias: Float[Tensor, "bias_head query key"] | None = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    sinks: Float[Tensor, " head"] | None = None

    @property
    def heads(self) -> int:
        return self.output.shape[1]

    @property
    def has_sinks(self) -> bool:
        """Whether rows may sum to less than one because a sink takes the rest."""
        return self.sinks is not None

    def values(self) -> Float[Tensor, "head key value_size"]:
        """The value vectors of each head; key-value heads are repeated for the heads that share them."""
        return self._per_head(self.value.to(working(self.value.dtype)))

    def keys(self) -> Float[Tensor, "head key size"] | None:
        """The keys of each head as the kernel received them (after rotary embedding); None if they were not seen."""
        return None if self.key is None else self._per_head(self.key.to(working(self.key.dtype)))

    def softcap_slopes(self, rows: slice = slice(None)) -> HeadMaps:
        """The derivative of the soft cap at each logit; one if there is no cap."""
        logits = self.logits(rows)
        return torch.ones_like(logits) if self.softcap is None else 1 - torch.tanh(logits / self.softcap) ** 2

    def logits(self, rows: slice = slice(None)) -> HeadMaps:
        """Scaled products of queries and keys, before cap, bias and mask."""
        keys = self.keys()
        assert self.query is not None and keys is not None
        return (self.query[:, rows].to(keys.dtype) * self.scaling) @ keys.mT

    def weights(self, rows: slice = slice(None)) -> HeadMaps:
        """The attention weights of the chosen query rows."""
        exact = working(self.value.dtype)
        if self.kept is not None:
            return self.kept[:, rows].to(exact)
        logits = self.logits(rows)
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        if self.bias is not None:
            logits += self.bias[:, rows]
        if self.mask is not None and self.mask.dtype != torch.bool:
            logits += self.mask[:, rows]
        hidden = self._hidden(rows)
        if hidden is not None:
            logits.masked_fill_(hidden, -torch.inf)
        if self.sinks is None:
            return logits.softmax(-1)
        sink = self.sinks.to(exact)[:, None, None].expand(-1, logits.shape[1], 1)
        return torch.cat([logits, sink], -1).softmax(-1)[..., :-1]

    def row_chunks(self, rows: slice = slice(None)) -> Iterator[tuple[slice, HeadMaps, float]]:
        """Yield (rows, weights, parity error) in chunks of rows that fit in memory.

        Parity compares weights · values with the result of the model's own kernel.
        """
        start, stop, stride = rows.indices(len(self.output))
        step = stride * max(1, CHUNK_WEIGHTS // (self.heads * self.value.shape[1]))
        values = self.values()
        for first in range(start, stop, step):
            chunk = slice(first, min(first + step, stop), stride)
            weights = self.weights(chunk)
            errors = self.errors(chunk, weights, values)
            yield chunk, weights, float(errors.max()) if errors.numel() else 0.0

    def errors(self, rows: slice, weights: HeadMaps, values: Tensor) -> Float[Tensor, "head row"]:
        """Parity errors: weights · values against the kernel's result, relative to Σ_j a_ij ‖v_j‖."""
        sizes = torch.linalg.vector_norm(values, dim=-1, keepdim=True)
        both = weights @ torch.cat([values, sizes], -1)  # [head row value_size + 1]
        returned = self.output[rows].to(values.dtype).transpose(0, 1)
        distance = torch.linalg.vector_norm(both[..., :-1] - returned, dim=-1)  # [head row]
        return distance / both[..., -1].clamp_min(torch.finfo(distance.dtype).tiny)

    def _per_head(self, shared: Tensor) -> Tensor:
        group = self.heads // shared.shape[0]
        return shared if group == 1 else shared.repeat_interleave(group, dim=0)

    def visible(self) -> Bool[Tensor, "query key"]:
        """Which keys each query may attend to in at least one head."""
        if self.kept is not None:
            return (self.kept > 0).any(0)
        everything = torch.ones(len(self.output), self.value.shape[1], dtype=torch.bool, device=self.value.device)
        hidden = self._hidden(slice(None))
        return everything if hidden is None else everything & ~hidden.all(0)

    def heads_share_mask(self) -> bool:
        """Whether all heads hide the same keys."""
        hidden = None if self.mask is None else self._hidden(slice(None))
        return hidden is None or bool((hidden == hidden[:1]).all())

    def _hidden(self, rows: slice) -> Bool[Tensor, "any_head row key"] | None:
        """Keys that the mask or the kernel itself hides from a query."""
        hidden = None
        if self.mask is not None:
            mask = self.mask[:, rows]
            # additive masks hold the lowest number of their dtype where they mean minus infinity
            hidden = ~mask if mask.dtype == torch.bool else mask <= torch.finfo(mask.dtype).min
        if self.causal or self.window is not None:
            start, stop, stride = rows.indices(len(self.output))
            keys = torch.arange(self.value.shape[1], device=self.value.device)
            back = torch.arange(start, stop, stride, device=keys.device)[:, None] - keys  # [row key]
            beyond = back.abs() >= (self.window or len(keys))
            beyond = (beyond | (back < 0) if self.causal else beyond)[None]
            hidden = beyond if hidden is None else hidden | beyond
        return hidden


@dataclass(frozen=True, eq=False)
class Block:
    """One attention block: how its output is composed of its input and the attention branch.

    summed = input + multiplier · branch with branch = scale ⊙ norm_b(Σ_h A_h V_h W_h + b). The output is the norm of
    `summed` (post-norm) or `summed` itself (pre-norm). With a parallel MLP `summed` never occurs in the model; it is
    computed. Pieces that a model does not have are None, and its multiplier is 1.
    """

    name: str
    role: Role
    attention: Attention
    projection: Float[Tensor, "head value_size width"]
    bias: Float[Tensor, " width"] | None
    branch_norm: Norm | None
    scale: Float[Tensor, " width"] | None
    multiplier: float
    input: Hidden
    summed: Hidden
    output: Hidden
    norm: Norm | None
    parallel: bool
    queries: slice  # position of this block's tokens among all tokens of the capture
    keys: slice
    parity: float
    sum_error: float
    tolerance: float
    chain_error: float | None = None  # None if the chain was not proved on this pass
    chain_tolerance: float = 0.0
    heads_added: bool = False  # heads are added before one shared projection, not concatenated

    @property
    def parity_tolerance(self) -> float:
        """Tolerance of parity: twice that of sums, since some kernels compute the softmax in half precision."""
        return 2 * self.tolerance

    def rows(self) -> Iterator[tuple[slice, HeadMaps, float]]:
        """Yield (rows, weights, parity) in blocks of rows; raise ProofError if parity fails."""
        for rows, weights, parity in self.attention.row_chunks():
            if not parity <= self.parity_tolerance:
                raise ProofError(
                    f"weights times values of {self.name!r} differ from the model's kernel by a relative error of "
                    f"{parity:.1e} (tolerance {self.parity_tolerance:.1e})"
                )
            yield rows, weights, parity

    def weights(self) -> HeadMaps:
        """All attention weights of the block, checked; `rows` needs less memory."""
        return torch.cat([weights for _, weights, _ in self.rows()], 1)


@dataclass(frozen=True)
class Blanks:
    """Token ids that replace removed tokens. `mask` is None if the tokenizer has no token for it; `label` names it."""

    mask: int | None
    pad: int
    label: str


@dataclass(frozen=True, eq=False)
class Rerun:
    """The inputs of a pass by name, padding included, and how to run the model, unwatched, on edited ones."""

    inputs: Mapping[str, Tensor]
    blanks: Blanks
    run: Callable[[Mapping[str, Tensor]], Any]


@dataclass(frozen=True, eq=False)
class Capture:
    """A verified record of one forward pass for one example.

    `tokens` are all positions of the pass; those of an encoder-decoder are the source text followed by the target
    text. `blocks` are in execution order. `replay(handler, copies=1, inputs=None)` runs the same pass again, or one of
    other inputs, with `handler` deciding what each attention call returns. `rerun` is None if there is no model.
    """

    tokens: Tokens
    blocks: tuple[Block, ...]
    logits: Tensor | None
    readout: tuple[int, ...]  # positions the prediction is read at
    learnt: tuple[str, ...]  # what was proved when the model was learnt
    assumed: tuple[str, ...]  # what was not proved at all
    provenance: dict[str, str]
    replay: Callable[..., Pass] = field(repr=False)
    rerun: Rerun | None = field(default=None, repr=False)

    @property
    def width(self) -> int:
        return self.blocks[0].input.shape[-1]

    @property
    def has_single_answer(self) -> bool:
        """Whether the model gives one answer for the whole text, like a classifier."""
        return self.logits is not None and self.logits.dim() == 1

    def updated_tokens(self) -> Bool[np.ndarray, "layer token"]:
        """Which tokens each block updates; in an encoder-decoder a block updates one of the two texts."""
        updated = np.zeros((len(self.blocks), len(self.tokens)), dtype=bool)
        for row, block in zip(updated, self.blocks, strict=True):
            row[block.queries] = True
        return updated

    def upto(self, layer: int) -> tuple[Block, ...]:
        """The blocks from the first up to and including this one."""
        return self.blocks[: self.blocks.index(self.block(layer)) + 1]

    def block(self, layer: int) -> Block:
        """A block by its number; negative numbers count from the last block."""
        if not -len(self.blocks) <= layer < len(self.blocks):
            raise InputError(
                f"layer {layer} is out of range: the model has {len(self.blocks)} attention blocks, so use 0 to "
                f"{len(self.blocks) - 1}, or a negative number to count from the last one"
            )
        return self.blocks[layer]
