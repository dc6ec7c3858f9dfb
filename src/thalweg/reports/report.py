"""Everything about one text on one page: from a subject and a text to a report."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.attribution.explain import explain
from thalweg.attribution.mixing import maps_from
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.packed import POOLED, PackedAttribution, pack_attribution
from thalweg.attribution.result import Attribution, Mixing
from thalweg.axes import HeadMaps
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.drawing.packed import pack
from thalweg.errors import InputError, ThalwegError
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.result import Certificate, Intervals
from thalweg.identifiability.trust import intervals
from thalweg.methods.registry import find_method
from thalweg.models.encode import ModelInput, position_limit
from thalweg.models.load import Subject
from thalweg.progress import progress
from thalweg.reports.result import HeadMap, Report

METHODS = ("alti", "attention_rollout", "attention_flow", "raw_attention", "decompx")
CERTIFIED_TOKENS = 512  # up to which heads get their certificate
MIXING_TOKENS = 1024
HEAD_CELLS = 2_000_000  # cells of all heads' maps
INTERVALS = 8  # of the largest weights of a row


def report(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] | None = None,
    target: TargetLike = None,
    *,
    generate: int = 0,
    intervals: bool = False,
    words: bool = False,
) -> Report:
    """All that Thalweg can say about one text, as a page that stands alone.

    `methods` are by default those of `METHODS` that the model allows; the first one gives the headline. `target` is
    what the page opens with, as in `explain`: any other can be chosen there. With `generate` a language model first
    continues the text by that many tokens at most, each of which can be chosen over the prompt. `intervals` adds what
    the largest weights of the target's rows could have been, by linear programs in every head; `words` opens the page
    with words. What a long text leaves
    no room for is said in the report.

    >>> import thalweg as tw
    >>> page = tw.report(tw.load(), "a witty movie.", methods=["alti", "raw_attention"])
    >>> page.prediction, len(page.heads), page.to_html().startswith("<!doctype html>")
    ('positive', 4, True)
    """
    if methods is not None and (isinstance(methods, str) or not methods or len(set(methods)) < len(methods)):
        raise InputError(f"report takes a list of one or more different methods; {methods!r} was given")
    prompt = None
    if generate:
        text, prompt = continued(subject, text, generate)
        target = prompt - 1 if target is None else target  # where the first of the new tokens is said
    capture = subject.capture_one(text)
    opened, prediction = _opened(subject, capture, target)
    found, mixing, left_out = _explanations(subject, capture, methods, opened)
    certificate, heads = _heads(capture)
    cell = max((one.cell for one in heads), default=1)
    if cell > 1:
        left_out.append(f"maps of heads at full size: a cell stands for {cell} × {cell} tokens, its largest entry")
    if certificate is None:
        left_out.append(f"the certificate of the heads, at more than {CERTIFIED_TOKENS} tokens: ask thalweg trust")
    ranges = _intervals(subject, capture, opened) if intervals else ()
    if not intervals:
        left_out.append("intervals of single weights, which take two linear programs each: ask for them")
    return Report(
        tokens=capture.tokens,
        target=opened,
        prediction=prediction,
        explained=found,
        provenance=dict(capture.provenance),
        blocks=tuple((block.name, block.role) for block in capture.blocks),
        certificate=certificate,
        heads=heads,
        intervals=ranges,
        mixing=mixing,
        prompt=prompt,
        outputs=_outputs(subject, capture),
        words=words,
        left_out=tuple(left_out),
    )


def continued(subject: Subject, text: ModelInput | Capture, count: int) -> tuple[ModelInput, int]:
    """The text with what a language model says next, most likely token by token, and how many tokens were given."""
    if subject.task != "causal_lm" or subject.tokenizer is None:
        raise InputError("generate is for causal language models with a tokenizer; leave it out")
    if not isinstance(text, str) or count < 1:
        raise InputError("generate continues one text by a number of tokens from 1")
    from transformers import GenerationConfig

    model, tokenizer = subject.model, subject.tokenizer
    ids = torch.tensor([tokenizer(text, verbose=False)["input_ids"]], device=model.device)
    given = ids.shape[1]
    limit = position_limit(model)
    if limit is not None and given + count > limit:
        raise InputError(f"{given} tokens and {count} more are too many: the model takes {limit}")
    stop = tokenizer.eos_token_id
    greedy = GenerationConfig(max_new_tokens=count, do_sample=False, eos_token_id=stop, pad_token_id=stop)
    with torch.no_grad():
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)[0].tolist()  # pyright: ignore
    joined = text + str(tokenizer.decode(whole[given:]))
    again = tokenizer(joined, verbose=False)["input_ids"]
    return (joined if list(again) == whole else whole), given  # pyright: ignore[reportArgumentType]


def _opened(subject: Subject, capture: Capture, asked: TargetLike) -> tuple[tuple[int, ...], str | None]:
    """What the page opens with, and the prediction that is read there."""
    if asked in (None, "all") and not capture.readout:
        return (next((i for i, special in enumerate(capture.tokens.special) if not special), 0),), None
    goal = find_target(capture, "prediction" if asked in (None, "all") else asked)
    prediction = subject.output_name(goal.output) if goal.positions == capture.readout else None
    return ((POOLED,) if goal.pooled else goal.positions), prediction


def _explanations(
    subject: Subject, capture: Capture, methods: Sequence[str] | None, opened: tuple[int, ...]
) -> tuple[tuple[PackedAttribution, ...], Mixing | None, list[str]]:
    """Every method on the same pass, what the layers' maps say of mixing, and what was left out."""
    count, left_out = len(capture.tokens), []
    found: list[PackedAttribution] = []
    sums: dict[str, MixingSums] = {}
    names = METHODS if methods is None else tuple(methods)
    if methods is None:
        for name in names:
            traits = find_method(name).traits
            if not traits.affordable(count):
                left_out.append(f"{name}, at more than {traits.max_tokens} tokens: request it by name")
        names = tuple(name for name in names if find_method(name).traits.affordable(count))
    for name in names:
        rows = _rows(capture, name, opened)
        try:
            one = explain(subject, capture, name, list(rows))
        except ThalwegError as error:
            if methods is not None:
                raise
            left_out.append(f"{name}: {error}")
            continue
        if not find_method(name).traits.affordable_for_all_targets(count):
            left_out.append(f"targets of {name} other than the one that was asked for")
        one, targets = _with_pooled(capture, name, one, rows)
        found.append(pack_attribution(one, targets))
        if found[-1].layers is not None and (kept := found[-1].layers).columns is not None:
            left_out.append(f"links of {name} beyond the {kept.codes.shape[1]} largest into each position and layer")
        maps = maps_from(capture, one) if count <= MIXING_TOKENS else None
        if maps is not None and len(maps) > 1:
            sums[name] = MixingSums(len(maps))
            sums[name].add(maps, capture.tokens, capture.updated_tokens(), one.receipt)
    if capture.blocks[-1].queries.start:
        left_out.append("targets in the encoder: the decoder's positions are what is explained")
    if not found:
        raise InputError(f"no method can explain this model: {'; '.join(left_out)}")
    if count > MIXING_TOKENS:
        left_out.append(f"mixing, at more than {MIXING_TOKENS} tokens")
    means = {name: one.means() for name, one in sums.items()}
    layers = tuple(block.name for block in capture.blocks)
    mixing = Mixing(means, layers, "embeddings", 1, count, dict(capture.provenance)) if means else None
    return tuple(found), mixing, left_out


def _rows(capture: Capture, method: str, opened: tuple[int, ...]) -> tuple[int, ...]:
    """The targets that a method is asked for: all that it can explain, or where that is dear the opened one."""
    last = capture.blocks[-1].queries
    few = capture.readout if opened == (POOLED,) else opened
    traits = find_method(method).traits
    if traits.explains_logit and capture.has_single_answer:
        return capture.readout or few
    if not traits.affordable_for_all_targets(len(capture.tokens)):
        return few
    return tuple(sorted({*range(last.start, last.stop), *few}))


def _with_pooled(
    capture: Capture, method: str, found: Attribution, rows: tuple[int, ...]
) -> tuple[Attribution, tuple[int, ...]]:
    """A row more for a prediction that is read from all positions: their mean, or the one that there is."""
    if not (capture.has_single_answer and len(capture.readout) > 1):
        return found, rows
    if find_method(method).traits.explains_logit:
        return found.select([0]), (POOLED,)
    mean = found.scores[[rows.index(place) for place in capture.readout]].mean(0, keepdims=True)
    return replace(found, scores=np.concatenate([found.scores, mean]), errors=None), (*rows, POOLED)


def _outputs(subject: Subject, capture: Capture) -> tuple[str, ...]:
    """What the model says at every position; empty where it has one answer or none."""
    if capture.logits is None or capture.logits.dim() != 2:
        return ()
    before = len(capture.tokens) - len(capture.logits)
    return ("",) * before + tuple(subject.output_name(choice) or "" for choice in capture.logits.argmax(-1).tolist())


def _heads(capture: Capture) -> tuple[Certificate | None, tuple[HeadMap, ...]]:
    """The certificate, and pictures of the maps that it was made from, drawn while they are there."""
    total = sum(block.attention.heads for block in capture.blocks)
    side = max(16, int((HEAD_CELLS / total) ** 0.5))
    cell = -(-len(capture.tokens) // side)
    rows: dict[int, list[tuple[Tensor, ...]]] = {}

    def watch(layer: int, *maps: HeadMaps) -> None:
        rows.setdefault(layer, []).append(tuple(_coarse(one.cpu(), cell) for one in maps))

    certificate = None
    if len(capture.tokens) <= CERTIFIED_TOKENS:
        certificate = certify(capture, watch=lambda layer, weights, used: watch(layer, weights, weights - used))
    else:
        for layer, block in enumerate(capture.blocks):
            for _, weights, _ in block.rows():
                watch(layer, weights)
    return certificate, tuple(_head_map(number, capture.blocks[number], cell, one) for number, one in rows.items())


def _head_map(layer: int, block: Block, cell: int, rows: list[tuple[Tensor, ...]]) -> HeadMap:
    maps = [_coarse(torch.cat(one, 1).mT, cell).mT for one in zip(*rows, strict=True)]  # [head query key]
    weights, *null = (pack(one.flatten(0, 1).double().numpy()) for one in maps)
    return HeadMap(
        layer=layer,
        heads=block.attention.heads,
        queries=block.queries.start,
        keys=block.keys.start,
        cell=cell,
        weights=weights,
        null=null[0] if null else None,
    )


def _coarse(maps: Float[Tensor, "head row column"], cell: int) -> Float[Tensor, "head row cell"]:
    """The entry of the largest size of every `cell` columns."""
    if cell == 1:
        return maps
    maps = F.pad(maps, (0, -maps.shape[-1] % cell)).unflatten(-1, (-1, cell))
    return maps.gather(-1, maps.abs().argmax(-1, keepdim=True))[..., 0]


def _intervals(subject: Subject, capture: Capture, opened: tuple[int, ...]) -> tuple[Intervals, ...]:
    """What the largest weights of the target's rows could have been, in every head that has these rows."""
    places = list(capture.readout if opened == (POOLED,) else opened)
    chosen = [
        (layer, head)
        for layer, block in enumerate(capture.blocks)
        if any(block.queries.start <= place < block.queries.stop for place in places)
        for head in range(block.attention.heads)
    ]
    found = []
    with progress("intervals") as tell:
        for done, (layer, head) in enumerate(chosen):
            found.append(intervals(subject, capture, layer, head, places, INTERVALS))
            tell(done + 1, len(chosen))
    return tuple(found)
