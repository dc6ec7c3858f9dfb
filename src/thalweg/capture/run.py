"""From inputs to captures: learn the anatomy once, run a pass and prove its blocks, replay it with other attention."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy, Editor, Pooling, Witness
from thalweg.capture.attention import Handler, adding_leaves
from thalweg.capture.discover.block import BlockWiring, discover_blocks
from thalweg.capture.discover.mlp import StreamWiring, discover_stream
from thalweg.capture.discover.states import find_bypasses, find_states
from thalweg.capture.discover.tokenwise import check_tokenwise, embedding_leaves
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Pass, watch
from thalweg.capture.prove.block import Place, non_finite_error, prove_blocks
from thalweg.capture.record import Block, Role
from thalweg.errors import ModelError


@dataclass(frozen=True)
class Lengths:
    """How many tokens of one example are real; `source` is None if there is only one sequence."""

    source: int | None
    target: int


def learn(model: nn.Module, inputs: Mapping[str, Tensor]) -> Anatomy:
    """Learn a model's anatomy from one short pass (`inputs`: a single example of a few tokens)."""
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise ModelError(
            "the model was created under torch.inference_mode(), which disables gradients: load it outside"
        )
    with torch.inference_mode(False), torch.enable_grad():
        return _learn(model, {name: value.clone() for name, value in inputs.items()})


def _learn(model: nn.Module, inputs: Mapping[str, Tensor]) -> Anatomy:
    arguments = arguments_of(model, inputs)
    attend, leaves = adding_leaves()
    for through_registry in (True, False):
        with embedding_leaves(model) if "input_ids" in inputs else nullcontext([]) as embedded:
            trace = watch(model, arguments, None, attend, through_registry)
        if trace.calls:
            break
    else:
        raise ModelError(
            f"no attention call was seen in {type(model).__name__}: either it has no attention (like Mamba), or it "
            "computes attention in an unsupported way"
        )
    for seen in trace.seen:
        if seen.tap.side == "out" and not seen.value.isfinite().all():
            raise non_finite_error(seen.tap.module)
    with torch.no_grad():
        blocks = tuple(discover_blocks(model, trace))
    roles = _roles(model, blocks)
    check_tokenwise(trace, blocks, roles, leaves, embedded)
    stream: StreamWiring | Missing = Missing("the path from blocks to logits of an encoder-decoder is not supported")
    if set(roles) == {"self"}:
        with torch.no_grad():
            stream = discover_stream(model, trace, blocks)
    states = find_states(model, trace, blocks, roles, stream)
    entry_bypass, layer_bypass = find_bypasses(model, arguments, states, roles, through_registry)
    states = replace(states, entry_bypass=entry_bypass, layer_bypass=layer_bypass)
    return Anatomy(blocks, roles, _pooling(trace.result, leaves[-1]), through_registry, stream, states)


def capture_blocks(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    anatomy: Anatomy,
    lengths: Sequence[Lengths] | None,
) -> tuple[list[list[Block]], Any]:
    """Run one pass over a right-padded batch: the proved blocks of each example, and the model's result."""
    with torch.no_grad():
        record = watch(model, arguments_of(model, inputs), anatomy.taps, None, anatomy.through_registry)
    if len(record.calls) != len(anatomy.blocks):
        raise ModelError(
            f"this pass made {len(record.calls)} attention calls, but the model's anatomy has {len(anatomy.blocks)}; "
            "models whose layers depend on the input are not supported"
        )
    tensors = record.tensors
    batch = len(record.calls[0][2])
    real = lengths or [_observed_lengths(record, anatomy.roles)] * batch
    by_layer = []
    for wiring, role, (_, call, output) in zip(anatomy.blocks, anatomy.roles, record.calls, strict=True):
        places = [_place(example, length, role) for example, length in enumerate(real)]
        by_layer.append(prove_blocks(model, wiring, call, output, tensors, places))
    return [list(blocks) for blocks in zip(*by_layer, strict=True)], record.result


def replay(model: nn.Module, inputs: Mapping[str, Tensor], anatomy: Anatomy, handle: Handler) -> Pass:
    """Run the same pass again, with `handle` deciding what each attention call returns.

    Gradients are recorded if the caller has them enabled. A handler that is a `Witness` chooses the tensors that are
    kept; one that is an `Editor` also replaces them as they pass.
    """
    taps = handle.taps(model, anatomy) if isinstance(handle, Witness) else anatomy.taps
    edit = handle.edit if isinstance(handle, Editor) else None
    return watch(model, arguments_of(model, inputs), taps, handle, anatomy.through_registry, edit)


def check_ready(model: nn.Module) -> None:
    """Raise if any module is in training mode, where dropout would make passes differ."""
    if any(module.training for module in model.modules()):
        raise ModelError("the model is in training mode: call model.eval() before capturing it")


def arguments_of(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """The keyword arguments of a pass: the inputs, no cache and a dict result where the model supports these."""
    accepted = inspect.signature(model.forward).parameters
    extra = {"use_cache": False, "return_dict": True}
    return {**inputs, **{name: value for name, value in extra.items() if name in accepted}}


def _roles(model: Any, blocks: Sequence[BlockWiring]) -> tuple[Role, ...]:
    if not getattr(model.config, "is_encoder_decoder", False):
        return ("self",) * len(blocks)
    encoder = {id(module) for module in model.get_encoder().modules()}

    def role(wiring: BlockWiring) -> Role:
        if wiring.cross:
            return "cross"
        return "encoder" if id(model.get_submodule(wiring.attention)) in encoder else "decoder"

    return tuple(role(wiring) for wiring in blocks)


def _observed_lengths(record: Pass, roles: Sequence[Role]) -> Lengths:
    """The lengths of unpadded sequences, from the shapes of the attention calls."""
    lengths = {role: output.shape[1] for role, (_, _, output) in zip(roles, record.calls, strict=True)}
    if "self" in lengths:
        counts = {output.shape[1] for _, _, output in record.calls}
        if len(counts) > 1:
            raise ModelError(
                f"the attention calls have different sequence lengths {sorted(counts)}, but the model is not an "
                "encoder-decoder; several towers, or pooling between layers, are not supported"
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
