"""Read this first: from a text to an explanation.

text, model → load → Subject → capture → Capture → method (decompose, aggregate) → Attribution → view
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from thalweg.attribution.result import Attribution, Comparison
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.errors import InputError
from thalweg.methods.registry import Chain, Maps, Traits, find_method
from thalweg.models.encode import ModelInput
from thalweg.models.load import Subject
from thalweg.receipt import Receipt
from thalweg.tokens import anonymous

DEFAULT_METHOD = "alti"  # the evidence is in docs/choosing_a_method.md
COMPARED = ("raw_attention", "attention_rollout", "alti")


def explain(
    subject: Subject,
    text: ModelInput | Capture,
    method: str = DEFAULT_METHOD,
    target: TargetLike = None,
    **params: Any,
) -> Attribution:
    """Attribute a target's information to the input tokens, by one method.

    `target` is a position, a list of positions, a token's text, "prediction" (where the model's answer is read:
    [CLS] of a classifier, the masked position, the last position of a language model) or "all". By default it is the
    prediction where the model makes one, and all positions otherwise.

    >>> import thalweg as tw
    >>> result = tw.explain(tw.load(), "a gorgeous, witty, seductive movie.")
    >>> result.scores.shape[0], round(float(result.scores.sum()), 3)
    (1, 1.0)
    """
    capture = subject.capture_one(text)
    chosen = find_method(method)
    options = chosen.make_params(params)
    goal = find_target(capture, target)
    maps = chosen.run(capture, goal, options)
    scores = maps.scores.detach().cpu().double().numpy()
    errors = None if maps.errors is None else maps.errors.detach().cpu().double().numpy()
    assumed = maps.assumed
    for name in ("output", "foil"):  # methods that explain a logit can explain another than the model's choice
        if (output := getattr(options, name, None)) is not None:
            assumed += (f"the {name} was chosen: {subject.output_name(output)}",)
    rows = capture.tokens.select(goal.positions)
    if goal.pooled:
        scores = scores.mean(0, keepdims=True)
        errors = None if errors is None else errors.mean(0, keepdims=True)
        rows = replace(anonymous(1), pieces=("[mean of all]",), special=(True,), texts=rows.texts)
        assumed += ("the prediction is pooled over all positions: their rows are averaged",)
    return Attribution(
        scores=scores,
        errors=errors,
        per_layer=None if maps.per_layer is None else maps.per_layer.detach().cpu().numpy(),
        targets=rows,
        sources=capture.tokens,
        method=method,
        params=asdict(options),
        receipt=Receipt(block_checks(capture.blocks, maps.parity), dict(maps.figures), assumed),
        provenance=capture.provenance,
        prediction=subject.output_name(goal.output) if goal.positions == capture.readout else None,
        chain=_chain(chosen.traits, maps, len(capture.tokens)),
    )


def compare(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] = COMPARED,
    target: TargetLike = None,
) -> Comparison:
    """Explain the same forward pass by several methods, and measure how far they agree.

    >>> import thalweg as tw
    >>> tw.compare(tw.load(), "a witty movie.", ["raw_attention", "alti"]).methods
    ('raw_attention', 'alti')
    """
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not 2 <= len(set(methods)) == len(methods):
        raise InputError(f"compare needs a list of two or more different methods, got {methods!r}")
    capture = subject.capture_one(text)
    return Comparison(tuple(explain(subject, capture, name, target) for name in methods))


def _chain(traits: Traits, maps: Maps, tokens: int) -> Chain | None:
    """How the per-layer maps combine into the scores; None where they do not."""
    layers = maps.per_layer
    whole = layers is not None and len(layers) > 1 and layers.shape[1:] == (tokens, tokens)
    return traits.chain if whole and maps.chained else None
