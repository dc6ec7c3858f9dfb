"""Mixing: how much of itself a token keeps through the layers, and which tokens the rest comes from."""

from collections.abc import Sequence
from typing import get_args

from thalweg.aggregate.rollout import cumulative
from thalweg.attribution.explain import explain
from thalweg.attribution.mixing_result import Mixing
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.result import Attribution
from thalweg.axes import LayerArray
from thalweg.capture.record import Capture
from thalweg.capture.target import Start
from thalweg.errors import InputError
from thalweg.methods.registry import find_method
from thalweg.models.encode import ModelInput
from thalweg.models.subject import Subject
from thalweg.progress import progress

MIXING_METHODS = ("hidden_token_attribution", "alti", "norm_based")


def mixing(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] = MIXING_METHODS,
    start: Start = "embeddings",
) -> Mixing:
    """Measure the share of each token that stays its own, and the shares of neighbours and kinds of tokens, by layer.

    The maps lead from the embeddings to each layer (steps between layers are multiplied), or with start="layer" from
    the previous layer. A list of texts or pairs of texts gives means over all their tokens.

    >>> import thalweg as tw
    >>> report = tw.mixing(tw.load(), "a witty movie.", methods=["alti"])
    >>> report.own["alti"].shape
    (4,)
    """
    check_mixing(methods, start)
    several = isinstance(text, list) and text and all(isinstance(entry, str | tuple) for entry in text)
    texts: list[ModelInput | Capture] = list(text) if several else [text]  # pyright: ignore[reportArgumentType]
    sums: dict[str, MixingSums] = {}
    tokens, layers, provenance = 0, (), {}
    with progress("mixing") as report:
        for done, entry in enumerate(texts, 1):
            capture = subject.capture_one(entry)
            tokens += len(capture.tokens)
            layers, provenance = tuple(block.name for block in capture.blocks), capture.provenance
            for name in methods:
                attribution = _explain_all(subject, capture, name, start)
                maps = maps_from(capture, attribution, start)
                if maps is None:
                    raise _no_maps(name)
                sums.setdefault(name, MixingSums(len(maps))).add(
                    maps, capture.tokens, capture.updated_tokens(), attribution.receipt
                )
            report(done, len(texts))
    means = {name: total.means() for name, total in sums.items()}
    return Mixing(means, layers, start, len(texts), tokens, dict(provenance))


def check_mixing(methods: Sequence[str] = MIXING_METHODS, start: Start = "embeddings") -> None:
    """Raise unless these are the names of different methods that have a map for every layer."""
    if start not in get_args(Start):
        raise InputError(f"start must be one of {', '.join(get_args(Start))}, got {start!r}")
    if isinstance(methods, str) or not methods or len(set(methods)) < len(methods):
        raise InputError(f"mixing needs a list of one or more different methods, got {methods!r}")
    for name in methods:
        if find_method(name).traits.layer_maps is None:
            raise _no_maps(name)


def _no_maps(name: str) -> InputError:
    return InputError(f"{name} has no map for every layer; choose methods that have one")


def _explain_all(subject: Subject, capture: Capture, method: str, start: Start) -> Attribution:
    """Explain all positions; a method whose layer maps are cumulative is told where they start."""
    params = {"start": start} if find_method(method).traits.layer_maps == "cumulative" else {}
    return explain(subject, capture, method, "all", **params)


def maps_from(capture: Capture, attribution: Attribution, start: Start = "embeddings") -> LayerArray | None:
    """Maps that lead to every layer from the embeddings, or from the previous layer; None if the method has none."""
    maps, count = attribution.per_layer, len(capture.tokens)
    if maps is None or maps.shape != (len(capture.blocks), count, count):
        return None
    is_cumulative = find_method(attribution.method).traits.layer_maps == "cumulative"
    own_start: Start = attribution.params["start"] if is_cumulative else "layer"
    if own_start == start:
        return maps
    return cumulative(maps) if start == "embeddings" else None
