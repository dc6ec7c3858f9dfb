"""Targets: the positions of a capture that are explained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from thalweg.capture.record import Capture
from thalweg.errors import InputError
from thalweg.tokens import Tokens

Start = Literal["embeddings", "layer"]  # maps start at the embedding output, or at the layer below
TargetLike = int | str | Sequence[int] | Literal["prediction", "all"] | None


@dataclass(frozen=True)
class Target:
    """Positions to explain, and the output (class or token id) that the model predicted there.

    `pooled` marks positions that together form one prediction, such as all tokens under mean pooling.
    """

    positions: tuple[int, ...]
    output: int | None = None
    pooled: bool = False


def find_target(capture: Capture, target: TargetLike) -> Target:
    """Resolve a position, a list of positions, a token, a word, "prediction" or "all" to positions.

    None means the prediction if the model makes a single one, and all positions otherwise.
    """
    if target is None:
        target = "prediction" if capture.readout else "all"
    if isinstance(target, str) and target == "all":
        return _target(capture, tuple(range(len(capture.tokens))))
    if isinstance(target, str) and target == "prediction":
        if not capture.readout:
            raise InputError(
                "the model makes no single prediction for this input (it is a bare encoder, it weighs several "
                "positions differently, or it is a masked language model and the text has no mask token): choose a "
                'position, a token or "all" as the target'
            )
        return _target(capture, capture.readout, pooled=capture.has_single_answer and len(capture.readout) > 1)
    return _target(capture, _positions(capture.tokens, target))


def _positions(tokens: Tokens, target: int | str | Sequence[int]) -> tuple[int, ...]:
    positions = _occurrence(tokens, target) if isinstance(target, str) else target
    count = len(tokens)
    try:
        places = [index(position) for position in (positions if isinstance(positions, Iterable) else [positions])]
    except TypeError:
        places = []
    if not places or not all(-count <= place < count for place in places):
        raise InputError(f"target must be a position from 0 to {count - 1}, a token or a word, got {target!r}")
    return tuple(place % count for place in places)


def _occurrence(tokens: Tokens, name: str) -> list[int]:
    """The positions of the token, or else the word, with this name; it must be unique."""
    wanted = name.strip().lower()
    matches = [[place] for place, piece in enumerate(tokens.pieces) if piece.lower() == wanted]
    matches = matches or [[place] for place in range(len(tokens)) if (tokens.surface(place) or "").lower() == wanted]
    matches = matches or [places for word, places in tokens.word_groups() if word.lower() == wanted]
    if len(matches) == 1:
        return matches[0]
    reason = (
        f"occurs at positions {[places[0] for places in matches]}, choose one of them" if matches else "does not occur"
    )
    raise InputError(f"target {name!r} {reason}; the tokens are {' '.join(tokens.labels())}")


def _target(capture: Capture, positions: tuple[int, ...], pooled: bool = False) -> Target:
    logits = logits_at(capture, positions)
    return Target(positions, None if logits is None else int(logits.argmax()), pooled)


def logits_at(capture: Capture, positions: tuple[int, ...]) -> Float[Tensor, " output"] | None:
    """The logits of a classifier, or those at a single position; None if there are none or several."""
    logits = capture.logits
    if logits is None or logits.dim() == 1:
        return logits
    row = positions[0] - (len(capture.tokens) - len(logits))
    return None if len(positions) > 1 or row < 0 else logits[row]
