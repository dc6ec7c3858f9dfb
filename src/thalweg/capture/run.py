"""From inputs to captures: learn the anatomy once, run a pass and prove its blocks, replay it with other attention."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy, Editor, Witness
from thalweg.capture.attention import Handler
from thalweg.capture.discover.block import BlockWiring, discover_blocks
from thalweg.capture.discover.mlp import StreamWiring, discover_stream
from thalweg.capture.discover.states import find_states
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Pass, watch
from thalweg.capture.prove.block import Place, non_finite_error, prove_blocks
from thalweg.capture.prove.chain import find_pooling, prove_chain
from thalweg.capture.prove.intervention import Scene
from thalweg.capture.record import Block, Role
from thalweg.errors import ModelError


@dataclass(frozen=True)
class Lengths:
    """How many tokens of one example are real; `source` is None if there is only one sequence."""

    source: int | None
    target: int


def learn(model: nn.Module, inputs: Mapping[str, Tensor]) -> Anatomy:
    """Learn a model's anatomy from short passes (`inputs`: a single example of a few tokens)."""
    with torch.no_grad():
        arguments = arguments_of(model, inputs)
        for through_registry in (True, False):
            trace = watch(model, arguments, None, None, through_registry)
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
        blocks = tuple(discover_blocks(model, trace))
        roles = _roles(model, blocks)
        stream: StreamWiring | Missing = Missing(
            "the path from blocks to logits of an encoder-decoder is not supported"
        )
        if set(roles) == {"self"}:
            stream = discover_stream(model, trace, blocks)
        states = find_states(model, trace, blocks, roles, stream)
        anatomy = Anatomy(blocks, roles, None, through_registry, stream, states)
        scene = _scene(anatomy, trace, [_observed_lengths(trace, roles)])
        return replace(anatomy, pooling=find_pooling(model, arguments, scene))


def audit(model: nn.Module, inputs: Mapping[str, Tensor], anatomy: Anatomy) -> tuple[Anatomy, str]:
    """Prove that blocks form a chain, between all positions and layers of a single example.

    Returns the anatomy with what was learnt about positions, and a sentence for receipts.
    """
    arguments = arguments_of(model, inputs)
    record = _record(model, arguments, anatomy)
    scene = _scene(anatomy, record, [_observed_lengths(record, anatomy.roles)])
    proof = prove_chain(model, arguments, scene, audit=True)
    tokens = sum(int(real.sum()) for real in scene.real)
    proved = f"blocks form a chain, between all positions and layers ({proof.passes} passes, {tokens} tokens)"
    return replace(anatomy, positional=proof.positional), proved


def capture_blocks(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    anatomy: Anatomy,
    lengths: Sequence[Lengths] | None,
    level: str = "default",
) -> tuple[list[list[Block]], Any]:
    """Run one pass over a right-padded batch: the proved blocks of each example, and the model's result."""
    arguments = arguments_of(model, inputs)
    record = _record(model, arguments, anatomy)
    batch = len(record.calls[0][2])
    real = lengths or [_observed_lengths(record, anatomy.roles)] * batch
    tensors = record.tensors
    by_layer = []
    for wiring, role, (_, call, output) in zip(anatomy.blocks, anatomy.roles, record.calls, strict=True):
        places = [_place(example, length, role) for example, length in enumerate(real)]
        by_layer.append(prove_blocks(model, wiring, call, output, tensors, places))
    if level != "quick":
        chain = prove_chain(model, arguments, _scene(anatomy, record, real), audit=level == "audit")
        by_layer = [
            [replace(block, chain_error=error, chain_tolerance=chain.allowed) for block in blocks]
            for blocks, error in zip(by_layer, chain.errors, strict=True)
        ]
    return [list(blocks) for blocks in zip(*by_layer, strict=True)], record.result


def _record(model: nn.Module, arguments: Mapping[str, Any], anatomy: Anatomy) -> Pass:
    with torch.no_grad():
        record = watch(model, arguments, anatomy.taps, None, anatomy.through_registry)
    if len(record.calls) != len(anatomy.blocks):
        raise ModelError(
            f"this pass made {len(record.calls)} attention calls, but the model's anatomy has {len(anatomy.blocks)}; "
            "models whose layers depend on the input are not supported"
        )
    return record


def _scene(anatomy: Anatomy, record: Pass, lengths: Sequence[Lengths]) -> Scene:
    counts = [[length.target for length in lengths]]
    if "self" not in anatomy.roles:
        counts.insert(0, [length.source or 0 for length in lengths])
    real = []
    for sequence, count in enumerate(counts):
        role = "self" if len(counts) == 1 else ("encoder", "decoder")[sequence]
        width = record.calls[anatomy.roles.index(role)][2].shape[1]
        real.append(np.arange(width) < np.array(count)[:, None])
    return Scene(anatomy, record, tuple(real))


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
