"""Mixing: how much of itself a token keeps on the way up, and who gives the rest."""

from collections.abc import Sequence
from typing import Any, get_args

from thalweg.aggregate.rollout import cumulative
from thalweg.attribution.explain import explain
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.result import Attribution, Mixing
from thalweg.axes import LayerArray
from thalweg.capture.record import Capture
from thalweg.capture.target import Start
from thalweg.errors import InputError
from thalweg.methods.registry import find_method
from thalweg.models.encode import ModelInput
from thalweg.models.load import Subject
from thalweg.progress import progress

METHODS = ("hidden_token_attribution", "alti", "norm_based")


def mixing(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] = METHODS,
    start: Start = "embeddings",
) -> Mixing:
    """Measure what tokens keep of themselves, and what neighbours and kinds of tokens give, in every layer.

    The maps of several methods lead from the embeddings to each layer (steps from layer to layer are multiplied), or
    with start="layer" from the layer before. A list of texts gives means over all their tokens.

    >>> import thalweg as tw
    >>> report = tw.mixing(tw.load(), "a witty movie.", methods=["alti"])
    >>> report.own["alti"].shape
    (4,)
    """
    if start not in get_args(Start):
        raise InputError(f"start must be one of {', '.join(get_args(Start))}, got {start!r}")
    if isinstance(methods, str) or not methods or len(set(methods)) < len(methods):
        raise InputError(f"mixing needs a list of one or more different methods, got {methods!r}")
    texts: list[Any] = [text]
    if isinstance(text, list) and text and all(isinstance(entry, str) for entry in text):
        texts = text
    sums: dict[str, MixingSums] = {}
    tokens, layers, provenance = 0, (), {}
    with progress("mixing") as report:
        for done, entry in enumerate(texts, 1):
            capture = subject.capture_one(entry)
            tokens += len(capture.tokens)
            layers, provenance = tuple(block.name for block in capture.blocks), capture.provenance
            for name in methods:
                attribution = _explained(subject, capture, name, start)
                maps = maps_from(capture, attribution, start)
                if maps is None:
                    raise InputError(f"{name} has no map for every layer; choose methods that have one")
                sums.setdefault(name, MixingSums(len(maps))).add(
                    maps, capture.tokens, capture.updated_tokens(), attribution.receipt
                )
            report(done, len(texts))
    means = {name: total.means() for name, total in sums.items()}
    return Mixing(means, layers, start, len(texts), tokens, dict(provenance))


def _explained(subject: Subject, capture: Capture, method: str, start: Start) -> Attribution:
    options = {"start": start} if find_method(method).traits.layer_maps == "cumulative" else {}
    return explain(subject, capture, method, "all", **options)


def maps_from(capture: Capture, attribution: Attribution, start: Start = "embeddings") -> LayerArray | None:
    """The map that leads to every layer from the embeddings, or from the layer before; None where there is none."""
    maps, count = attribution.per_layer, len(capture.tokens)
    if maps is None or maps.shape != (len(capture.blocks), count, count):
        return None
    cumulative_maps = find_method(attribution.method).traits.layer_maps == "cumulative"
    given: Start = attribution.params["start"] if cumulative_maps else "layer"
    if given == start:
        return maps
    return cumulative(maps) if start == "embeddings" else None
