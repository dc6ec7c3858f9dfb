"""Read this first: from a text to an explanation.

    text → capture → target → method → Attribution → view

A subject (`models/subject.py`) runs the model once and verifies the pass (`capture/`). A method (a file of `methods/`)
decomposes it and aggregates the layers into scores [target source]. An `Attribution` (`result.py`) holds the scores
with their receipt and draws itself (`view.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from thalweg.attribution.result import POOLED, Attribution, Comparison
from thalweg.axes import ScoreArray
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.errors import InputError
from thalweg.methods.registry import Chain, Maps, Traits, find_method
from thalweg.models.encode import ModelInput
from thalweg.models.prediction import prediction
from thalweg.models.subject import Subject
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens, anonymous

DEFAULT_METHOD = "alti"  # the evidence is in docs/choosing_a_method.md
LOGIT_OPTIONS = ("output", "foil")  # of the methods that explain a logit
COMPARED_METHODS = ("raw_attention", "attention_rollout", "alti")


def explain(
    subject: Subject,
    text: ModelInput | Capture,
    method: str = DEFAULT_METHOD,
    target: TargetLike = None,
    **params: Any,
) -> Attribution:
    """Attribute a target to the input tokens by one method.

    `target` is a position, a list of positions, a token or word of the text, "prediction" (the position where the
    model's answer is read: [CLS] of a classifier, the mask, the last position of a language model) or "all". The
    default is the prediction if the model makes one, and all positions otherwise. `params` are the method's own
    parameters, listed by `tw.list_methods()[method].options`.

    >>> import thalweg as tw
    >>> result = tw.explain(tw.load(), "a gorgeous, witty, seductive movie.")
    >>> result.scores.shape[0], round(float(result.scores.sum()), 3)
    (1, 1.0)
    """
    chosen = find_method(method)
    options = _with_numbers(subject, chosen.make_params(params))
    capture = subject.capture_one(text)
    goal = find_target(capture, target)
    maps = chosen.run(capture, goal, options)

    scores, errors = _array(maps.scores), None if maps.errors is None else _array(maps.errors)  # [target source]
    targets = capture.tokens.select(goal.positions)
    assumed = (*capture.assumed, *maps.assumed, *_chosen_outputs(subject, options))
    if goal.pooled:  # one prediction read from all positions becomes one row
        scores, errors = scores.mean(0, keepdims=True), None if errors is None else errors.mean(0, keepdims=True)
        targets = _pooled_target(targets)
        assumed += ("the prediction is pooled over all positions, so their rows are averaged",)
    return Attribution(
        scores=scores,
        errors=errors,
        per_layer=None if maps.per_layer is None else maps.per_layer.detach().cpu().numpy(),
        targets=targets,
        sources=capture.tokens,
        positions=(POOLED,) if goal.pooled else goal.positions,
        method=method,
        params=asdict(options),
        receipt=Receipt(block_checks(capture.blocks, maps.parity), dict(maps.figures), assumed, capture.learnt),
        provenance=capture.provenance,
        answer=prediction(subject, capture, goal, _chosen(options)) if goal.positions == capture.readout else None,
        chain=_chain(chosen.traits, maps, len(capture.tokens)),
    )


def compare(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] = COMPARED_METHODS,
    target: TargetLike = None,
) -> Comparison:
    """Explain the same forward pass by several methods, and measure how far they agree.

    >>> import thalweg as tw
    >>> tw.compare(tw.load(), "a witty movie.", ["raw_attention", "alti"]).methods
    ('raw_attention', 'alti')
    """
    check_compared(methods)
    capture = subject.capture_one(text)
    return Comparison(tuple(explain(subject, capture, name, target) for name in methods))


def check_compared(methods: Sequence[str] = COMPARED_METHODS) -> None:
    """Raise unless these are the names of two or more different methods."""
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not 2 <= len(set(methods)) == len(methods):
        raise InputError(f"compare needs a list of two or more different methods, got {methods!r}")
    for name in methods:
        find_method(name)


def _array(scores: Tensor) -> ScoreArray:
    return scores.detach().cpu().double().numpy()


def _chosen_outputs(subject: Subject, options: Any) -> Iterator[str]:
    """Assumptions of methods that explain a logit: an output or foil other than the model's own choice."""
    for name in LOGIT_OPTIONS:
        output = getattr(options, name, None)
        if output is not None:
            yield f"the {name} was chosen by the caller: {subject.output_name(output)}"


def _chosen(options: Any) -> tuple[int, ...]:
    """The numbers of the outputs that the caller chose."""
    return tuple(output for name in LOGIT_OPTIONS if (output := getattr(options, name, None)) is not None)


def _with_numbers(subject: Subject, options: Any) -> Any:
    """The parameters of a method, with numbers instead of the names of classes and tokens."""
    named = {name: value for name in LOGIT_OPTIONS if isinstance(value := getattr(options, name, None), str)}
    return replace(options, **{name: subject.output_number(value) for name, value in named.items()})


def _pooled_target(targets: Tokens) -> Tokens:
    """The single target of a prediction that is read from all positions."""
    return replace(anonymous(1), pieces=("[mean of all]",), special=(True,), texts=targets.texts)


def _chain(traits: Traits, maps: Maps, tokens: int) -> Chain | None:
    """How the per-layer maps combine into the scores; None if they do not."""
    layers = maps.per_layer
    square = layers is not None and len(layers) > 1 and layers.shape[1:] == (tokens, tokens)
    return traits.chain if square and maps.chained else None
