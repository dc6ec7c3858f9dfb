"""Run the methods of a report on one capture and pack their results for the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.attribution.explain import explain
from thalweg.attribution.mixing import maps_from
from thalweg.attribution.mixing_result import Mixing, MixingFigures
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.packed import POOLED, PackedAttribution, pack_attribution
from thalweg.attribution.result import Attribution
from thalweg.capture.record import Capture
from thalweg.errors import InputError, ThalwegError
from thalweg.methods.registry import Traits, find_method
from thalweg.models.subject import Subject

# In the order of the page; each runs without being requested if its traits say that the length is affordable.
DEFAULT_METHODS = ("alti", "attention_rollout", "attention_flow", "raw_attention", "decompx")
MAX_MIXING_TOKENS = 1024


@dataclass(frozen=True, eq=False)
class Explanations:
    """Packed attributions of all methods, mixing where they have per-layer maps, and a list of what is missing."""

    packed: tuple[PackedAttribution, ...]
    mixing: Mixing | None
    left_out: tuple[str, ...]


def explain_by_all(
    subject: Subject, capture: Capture, methods: Sequence[str] | None, opened: tuple[int, ...]
) -> Explanations:
    """Explain one capture by all methods. Only default methods (`methods` is None) may fail or be skipped."""
    count = len(capture.tokens)
    left_out: list[str] = []
    packed: list[PackedAttribution] = []
    figures: dict[str, MixingFigures] = {}
    for name in DEFAULT_METHODS if methods is None else methods:
        traits = find_method(name).traits
        if methods is None and not traits.affordable(count):
            left_out.append(f"{name}: not run above {traits.max_tokens} tokens unless requested by name")
            continue
        rows = target_rows(capture, traits, opened)
        try:
            attribution = explain(subject, capture, name, list(rows))
        except ThalwegError as error:
            if methods is not None:
                raise
            left_out.append(f"{name}: {error}")
            continue
        attribution = with_pooled_row(capture, traits, attribution)
        packed.append(pack_attribution(attribution))
        left_out += _dropped(packed[-1], traits.affordable_for_all_targets(count))
        if count <= MAX_MIXING_TOKENS and (mixed := _mixing_figures(capture, attribution)) is not None:
            figures[name] = mixed
    if capture.blocks[-1].queries.start:
        left_out.append("encoder positions as targets: only decoder positions are explained")
    if not packed:
        raise InputError(f"no method can explain this model: {'; '.join(left_out)}")
    if count > MAX_MIXING_TOKENS:
        left_out.append(f"mixing: not computed above {MAX_MIXING_TOKENS} tokens (use thalweg mix)")
    layers = tuple(block.name for block in capture.blocks)
    mixing = Mixing(figures, layers, "embeddings", 1, count, dict(capture.provenance)) if figures else None
    return Explanations(tuple(packed), mixing, tuple(left_out))


def target_rows(capture: Capture, traits: Traits, opened: tuple[int, ...]) -> tuple[int, ...]:
    """Positions to explain: all that the method can explain, or only the initial target if all are too expensive."""
    last = capture.blocks[-1].queries
    initial = capture.readout if opened == (POOLED,) else opened
    if traits.explains_logit and capture.has_single_answer:
        return capture.readout or initial
    if not traits.affordable_for_all_targets(len(capture.tokens)):
        return initial
    return tuple(sorted({*range(last.start, last.stop), *initial}))


def with_pooled_row(capture: Capture, traits: Traits, attribution: Attribution) -> Attribution:
    """Add a row for a prediction that is pooled over positions: the mean of their rows.

    Methods that explain a logit have the same row for all of these positions, so it becomes their only row.
    """
    if not (capture.has_single_answer and len(capture.readout) > 1):
        return attribution
    if traits.explains_logit:
        return replace(attribution.select([0]), positions=(POOLED,))
    rows = attribution.positions
    mean = attribution.scores[[rows.index(position) for position in capture.readout]].mean(0, keepdims=True)
    return replace(
        attribution, scores=np.concatenate([attribution.scores, mean]), errors=None, positions=(*rows, POOLED)
    )


def _mixing_figures(capture: Capture, attribution: Attribution) -> MixingFigures | None:
    maps = maps_from(capture, attribution)
    if maps is None or len(maps) < 2:
        return None
    sums = MixingSums(len(maps))
    sums.add(maps, capture.tokens, capture.updated_tokens(), attribution.receipt)
    return sums.means()


def _dropped(packed: PackedAttribution, all_targets: bool) -> Iterator[str]:
    """What the page lacks of one method, in words."""
    if not all_targets:
        yield f"{packed.method}: computed for the initial target only"
    if packed.scores.columns is not None:
        yield f"{packed.method}: scores of the {packed.scores.codes.shape[1]} largest sources of each target only"
    if packed.layers is not None and packed.layers.columns is not None:
        yield f"{packed.method}: per-layer maps keep the {packed.layers.codes.shape[1]} largest links of each position"
