"""Read this first: from a text to an explanation, in one short function.

text, model → load → Subject → capture → Capture → method (decompose, aggregate) → Attribution → view
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool

from thalweg.aggregate.mixing import MixingSums, cumulative
from thalweg.axes import LayerArray
from thalweg.capture.record import Capture
from thalweg.errors import InputError
from thalweg.models.encode import Given
from thalweg.models.load import Subject
from thalweg.progress import progress
from thalweg.registry import find_method, make_params, params_as_dict
from thalweg.results.attribution import Attribution
from thalweg.results.comparison import Comparison
from thalweg.results.mixing import Mixing
from thalweg.results.receipt import Receipt, block_checks
from thalweg.target import Start, Target
from thalweg.tokens import Tokens

Asked = int | str | Sequence[int] | Literal["prediction", "all"] | None


def explain(
    subject: Subject,
    text: Given | Capture,
    method: str = "attention_rollout",
    target: Asked = None,
    **params: Any,
) -> Attribution:
    """Say where the information of a target comes from, by one method.

    `target` is a position, a list of positions, a token's text, "prediction" (what the model's answer is
    read from: [CLS] of a classifier, the masked position, the last position of a language model) or
    "all"; left out, it is the prediction where the model makes one, and all positions otherwise.

    >>> import thalweg as tw
    >>> result = tw.explain(tw.load(), "a gorgeous, witty, seductive movie.")
    >>> result.scores.shape[0], round(float(result.scores.sum()), 3)
    (1, 1.0)
    """
    capture = one_capture(subject, text)
    chosen = find_method(method)
    given = make_params(chosen, params)
    goal, pooled = resolve(capture, target)
    maps = chosen.function(capture, goal, given)
    scores = maps.scores.detach().cpu().double().numpy()
    errors = None if maps.errors is None else maps.errors.detach().cpu().double().numpy()
    assumed = maps.assumed
    for name in ("output", "foil"):  # of methods that can explain another output than the model's choice
        if (asked := getattr(given, name, None)) is not None:
            assumed += (f"the {name} was chosen: {predicted(subject, asked)}",)
    rows = capture.tokens.select(goal.positions)
    if pooled:
        scores = scores.mean(0, keepdims=True)
        errors = None if errors is None else errors.mean(0, keepdims=True)
        rows = _pooled(rows)
        assumed += ("the prediction is read from all positions: their rows were averaged",)
    return Attribution(
        scores=scores,
        errors=errors,
        per_layer=None if maps.per_layer is None else maps.per_layer.detach().cpu().numpy(),
        targets=rows,
        sources=capture.tokens,
        method=method,
        params=params_as_dict(given),
        receipt=Receipt(block_checks(capture.blocks, maps.parity), dict(maps.figures), assumed),
        provenance=capture.provenance,
        prediction=predicted(subject, goal.output) if goal.positions == capture.readout else None,
    )


def compare(
    subject: Subject,
    text: Given | Capture,
    methods: Sequence[str] = ("raw_attention", "attention_rollout"),
    target: Asked = None,
) -> Comparison:
    """Explain the same pass by several methods, with how far they agree.

    >>> import thalweg as tw
    >>> tw.compare(tw.load(), "a witty movie.").methods
    ('raw_attention', 'attention_rollout')
    """
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not 2 <= len(set(methods)) == len(methods):
        raise InputError(f"compare takes a list of two or more different methods; {methods!r} was given")
    capture = one_capture(subject, text)
    return Comparison(tuple(explain(subject, capture, name, target) for name in methods))


def mixing(
    subject: Subject,
    text: Given | Capture,
    methods: Sequence[str] = ("hidden_token_attribution", "alti", "norm_based"),
    start: Start = "embeddings",
) -> Mixing:
    """How much of itself a token keeps, and what neighbours and kinds of tokens give, in every layer.

    The maps of several methods lead from the embeddings to each layer (maps of single layers are multiplied), or
    with start="layer" from the layer before. A list of texts gives the means over all their tokens.

    >>> import thalweg as tw
    >>> report = tw.mixing(tw.load(), "a witty movie.", methods=["alti"])
    >>> report.own["alti"].shape
    (4,)
    """
    if start not in get_args(Start):
        raise InputError(f"start was given {start!r}; expected one of {', '.join(get_args(Start))}")
    if isinstance(methods, str) or not methods or len(set(methods)) < len(methods):
        raise InputError(f"mixing takes a list of one or more different methods; {methods!r} was given")
    texts: list[Any] = [text]
    if isinstance(text, list) and text and all(isinstance(one, str) for one in text):
        texts = text
    sums: dict[str, MixingSums] = {}
    tokens, layers, provenance = 0, (), {}
    with progress("mixing") as report:
        for done, one in enumerate(texts):
            capture = one_capture(subject, one)
            tokens += len(capture.tokens)
            layers, provenance = tuple(block.name for block in capture.blocks), capture.provenance
            for name in methods:
                maps, receipt = _layer_maps(subject, capture, name, start)
                sums.setdefault(name, MixingSums(len(maps))).add(maps, capture.tokens, touched(capture), receipt)
            report(done + 1, len(texts))
    means = {name: one.means() for name, one in sums.items()}
    return Mixing(means, layers, start, len(texts), tokens, dict(provenance))


def _layer_maps(subject: Subject, capture: Capture, method: str, start: Start) -> tuple[LayerArray, Receipt]:
    """A map for every layer, from where it is asked for."""
    own_start = "start" in params_as_dict(make_params(find_method(method), {}))
    found = explain(subject, capture, method, "all", **({"start": start} if own_start else {}))
    if found.per_layer is None or len(found.per_layer) != len(capture.blocks):
        raise InputError(f"{method} has no map for every layer; choose methods that have")
    maps = found.per_layer if own_start or start == "layer" else cumulative(found.per_layer)
    return maps, found.receipt


def touched(capture: Capture) -> Bool[np.ndarray, "layer token"]:
    """Which tokens a layer changes: it leaves the other text of an encoder-decoder alone."""
    found = np.zeros((len(capture.blocks), len(capture.tokens)), dtype=bool)
    for row, block in zip(found, capture.blocks, strict=True):
        row[block.queries] = True
    return found


def one_capture(subject: Subject, text: Given | Capture) -> Capture:
    """The capture of one example, or the one that was given."""
    capture = text if isinstance(text, Capture) else subject.capture(text)
    if not isinstance(capture, Capture):
        raise InputError("one example is explained at a time; capture a list with subject.capture(texts)")
    return capture


def resolve(capture: Capture, asked: Asked) -> tuple[Target, bool]:
    """Turn what was asked for into positions; True when they stand for one prediction together."""
    count = len(capture.tokens)
    classifier = capture.logits is not None and capture.logits.dim() == 1
    if asked is None:
        asked = "prediction" if capture.readout else "all"
    if isinstance(asked, str) and asked == "all":
        return Target(tuple(range(count)), _output(capture, tuple(range(count)))), False
    if isinstance(asked, str) and asked == "prediction":
        if not capture.readout:
            raise InputError(
                "this model makes no single prediction here (a bare encoder, or a masked language model "
                'without its mask token in the text): choose a position, a token or "all" as target'
            )
        pooled = classifier and len(capture.readout) > 1
        return Target(capture.readout, _output(capture, capture.readout)), pooled
    if isinstance(asked, str):
        asked = _positions_of(capture.tokens, asked)
    try:
        positions = [index(p) for p in (asked if isinstance(asked, Iterable) else [asked])]
    except TypeError:
        positions = []
    if not positions or not all(-count <= p < count for p in positions):
        raise InputError(f"target {asked!r} was asked for; expected positions from 0 to {count - 1}, a token or a word")
    places = tuple(p % count for p in positions)
    return Target(places, _output(capture, places)), False


def _positions_of(tokens: Tokens, asked: str) -> list[int]:
    """The token, or the tokens of the word, that was named."""
    wanted = asked.strip().lower()
    found = [[i] for i, piece in enumerate(tokens.pieces) if piece.lower() == wanted]
    found = found or [places for word, places in tokens.word_groups() if word.lower() == wanted]
    if len(found) != 1:
        places = [places[0] for places in found]
        many = f"stands at the positions {places}: choose one of them" if found else "is not there"
        raise InputError(f"target {asked!r} {many}; the tokens are {' '.join(tokens.pieces)}")
    return found[0]


def _output(capture: Capture, positions: tuple[int, ...]) -> int | None:
    """The class that the model chooses, or the token it chooses at a single position."""
    logits = capture.logits
    if logits is None:
        return None
    if logits.dim() == 2:
        row = positions[0] - (len(capture.tokens) - len(logits))
        if len(positions) > 1 or row < 0:
            return None
        logits = logits[row]
    return int(logits.argmax())


def predicted(subject: Subject, output: int | None) -> str | None:
    """An output in words: a label, or a token."""
    if output is None:
        return None
    labels: Mapping[int, str] = getattr(subject.model.config, "id2label", None) or {}
    if subject.task.endswith("classification"):
        return labels.get(output, str(output))
    return str(subject.tokenizer.decode([output])) if subject.tokenizer else str(output)


def _pooled(rows: Tokens) -> Tokens:
    from thalweg.tokens import anonymous

    one = anonymous(1)
    return Tokens(("[mean of all]",), one.ids, (True,), one.spans, one.words, one.segments, rows.texts)
