"""From inputs to captures: learn the wiring once, run one pass, prove every block of every example."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy, Editor, Pooling, Witness
from thalweg.capture.attention import Handler, adding_leaves
from thalweg.capture.discover.block import Wiring, discover
from thalweg.capture.discover.mlp import UpperWiring, discover_upper
from thalweg.capture.discover.states import find_states, what_goes_round
from thalweg.capture.discover.tokenwise import check_tokenwise, embedding_leaves
from thalweg.capture.observe import Pass, watch
from thalweg.capture.prove.block import Place, not_finite, prove_blocks
from thalweg.capture.record import Block, Role
from thalweg.errors import ModelError


@dataclass(frozen=True)
class Lengths:
    """How many tokens of one example are real; `source` is None where there is only one sequence."""

    source: int | None
    target: int


def learn(model: nn.Module, inputs: Mapping[str, Tensor]) -> Anatomy:
    """Watch one short pass of `inputs` (a single example, a few tokens) and read the model's wiring."""
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise ModelError("the model was built under torch.inference_mode(), so no gradient passes it: load it outside")
    with torch.inference_mode(False), torch.enable_grad():
        return _learn(model, {name: value.clone() for name, value in inputs.items()})


def _learn(model: nn.Module, inputs: Mapping[str, Tensor]) -> Anatomy:
    attend, leaves = adding_leaves()
    for through_registry in (True, False):
        with embedding_leaves(model) if "input_ids" in inputs else nullcontext([]) as embedded:
            trace = watch(model, arguments_of(model, inputs), None, attend, through_registry)
        if trace.calls:
            break
    else:
        raise ModelError(
            f"{type(model).__name__} ran without a single attention call that can be seen: either it "
            "has no attention (Mamba has none), or computes it in a way that is not known here"
        )
    for seen in trace.seen:
        if seen.tap.side == "out" and not seen.value.isfinite().all():
            raise not_finite(seen.tap.module)
    with torch.no_grad():
        blocks = tuple(discover(model, trace))
    roles = _roles(model, blocks)
    check_tokenwise(trace, blocks, roles, leaves, embedded)
    upper: UpperWiring | str = "an encoder-decoder is not followed from its blocks to its logits"
    if set(roles) == {"self"}:
        with torch.no_grad():
            upper = discover_upper(model, trace, blocks)
    states = find_states(model, trace, blocks, roles, upper)
    around = what_goes_round(model, arguments_of(model, inputs), states, roles, through_registry)
    states = replace(states, round_entries=around[0], round_layers=around[1])
    return Anatomy(blocks, roles, _pooling(trace.result, leaves[-1]), through_registry, upper, states)


def run(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    anatomy: Anatomy,
    lengths: Sequence[Lengths] | None,
) -> tuple[list[list[Block]], Any]:
    """One pass over a right-padded batch: the proved blocks of each example, and the model's result."""
    with torch.no_grad():
        record = watch(model, arguments_of(model, inputs), anatomy.taps, None, anatomy.through_registry)
    if len(record.calls) != len(anatomy.blocks):
        raise ModelError(
            f"this pass made {len(record.calls)} attention calls, the first one "
            f"{len(anatomy.blocks)}; a model whose path depends on its input is not supported"
        )
    seen = {one.tap: one.value for one in record.seen}
    batch = len(record.calls[0][2])
    real = lengths or [_observed(record, anatomy.roles)] * batch
    by_layer = [
        prove_blocks(model, wiring, call, output, seen, [_place(*one, role) for one in enumerate(real)])
        for wiring, role, (_, call, output) in zip(anatomy.blocks, anatomy.roles, record.calls, strict=True)
    ]
    return [list(blocks) for blocks in zip(*by_layer, strict=True)], record.result


def replay(model: nn.Module, inputs: Mapping[str, Tensor], anatomy: Anatomy, handle: Handler) -> Pass:
    """The same pass again with `handle` deciding what each attention call returns.

    Gradients are recorded if the caller has them on, so that what depends on attention can be asked. A handler
    that wants to see more than the blocks says so with a `Witness.taps`, one that changes it is an `Editor`.
    """
    taps = handle.taps(model, anatomy) if isinstance(handle, Witness) else anatomy.taps
    edit = handle.edit if isinstance(handle, Editor) else None
    return watch(model, arguments_of(model, inputs), taps, handle, anatomy.through_registry, edit)


def check_ready(model: nn.Module) -> None:
    """A model in training mode drops activations at random, so nothing about it could be proved."""
    if any(module.training for module in model.modules()):
        raise ModelError("the model is in training mode: call model.eval() before capturing it")


def arguments_of(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """What a pass is called with: the inputs, no cache, and a result with names, where the model knows of these."""
    accepted = inspect.signature(model.forward).parameters
    extra = {"use_cache": False, "return_dict": True}
    return {**inputs, **{name: value for name, value in extra.items() if name in accepted}}


def _roles(model: Any, blocks: Sequence[Wiring]) -> tuple[Role, ...]:
    if not getattr(model.config, "is_encoder_decoder", False):
        return ("self",) * len(blocks)
    encoder = {id(module) for module in model.get_encoder().modules()}

    def role(wiring: Wiring) -> Role:
        if wiring.cross:
            return "cross"
        return "encoder" if id(model.get_submodule(wiring.attention)) in encoder else "decoder"

    return tuple(role(wiring) for wiring in blocks)


def _observed(record: Pass, roles: Sequence[Role]) -> Lengths:
    """Without padding, the sequences are as long as the attention calls say."""
    lengths = {role: output.shape[1] for role, (_, _, output) in zip(roles, record.calls, strict=True)}
    if "self" in lengths:
        counts = {output.shape[1] for _, _, output in record.calls}
        if len(counts) > 1:
            raise ModelError(
                f"attention runs over sequences of different lengths {sorted(counts)} that are not "
                "encoder and decoder (several towers, or pooling between layers): not supported"
            )
        return Lengths(None, lengths["self"])
    return Lengths(lengths["encoder"], lengths["decoder"])


def _place(example: int, length: Lengths, role: Role) -> Place:
    source = slice(0, length.source or 0)
    target = slice(source.stop, source.stop + length.target)
    queries = source if role == "encoder" else target
    keys = source if role in ("encoder", "cross") else target
    return Place(example, role, queries, keys)


def _pooling(result: Any, leaf: Tensor) -> Pooling | None:
    """Which positions of the last block the logits of a classifier depend on."""
    logits = result.get("logits") if isinstance(result, Mapping) else None
    if logits is None or logits.dim() != 2:
        return None
    mix = torch.linspace(0.5, 1.5, logits.shape[-1], dtype=logits.dtype, device=logits.device)
    (slope,) = torch.autograd.grad((logits * mix).sum(), leaf, allow_unused=True)
    if slope is None:
        return None
    used = slope[0].flatten(1).abs().sum(1).nonzero().flatten().tolist()
    if used == [0]:
        return "first"
    return "last" if used == [leaf.shape[1] - 1] else "all"
