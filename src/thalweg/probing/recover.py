"""Ask probes for tokens: map a state, and look for the nearest candidate in the sentence or in the vocabulary."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.errors import ProofError
from thalweg.models.load import Subject
from thalweg.numerics import relative_error, tolerance
from thalweg.probing.plan import Candidates, Key
from thalweg.probing.search import Metric, Nearest, Part, similarity, take
from thalweg.probing.states import States, words_at_positions

Map = Callable[[Tensor], Tensor]


def recovered(key: Key, maps: Mapping[Key, Map], states: States) -> Float[Tensor, "token found"]:
    """What a probe makes of each state. The identity compares like with like: a direction with directions."""
    given = take(key.part, states.layers[key.layer])
    return given if key.kind == "identity" else maps[key](given)


def _compared(key: Key) -> Part:
    """The part of candidates that a probe's result is compared with."""
    return key.part if key.kind == "identity" else "whole"


def search(
    subject: Subject, keys: Sequence[Key], maps: Mapping[Key, Map], states: States, candidates: Candidates
) -> dict[Key, tuple[Nearest, Nearest]]:
    """For each probe the nearest candidates of every token, matched by position (strict) and by id (lenient)."""
    if candidates == "sentence":
        return {key: in_sentence(key, recovered(key, maps, states), states) for key in keys}
    return {key: (found, found) for key, found in in_vocabulary(subject, keys, maps, states).items()}


def in_sentence(key: Key, found: Float[Tensor, "token found"], states: States) -> tuple[Nearest, Nearest]:
    """Among the states of all tokens of the same text at the layer that is asked for."""
    wanted = take(_compared(key), states.layers[key.to]).double()
    strict, lenient = [], []
    for text in states.texts:
        near, slack = similarity(key.metric, found[text].double(), wanted[text])  # [query candidate]
        same = states.ids[text]
        strict.append(Nearest.of(near, slack, torch.eye(len(near), dtype=torch.bool)))
        lenient.append(Nearest.of(near, slack, same[:, None] == same[None]))
    return Nearest.joined(strict), Nearest.joined(lenient)


def in_vocabulary(subject: Subject, keys: Sequence[Key], maps: Mapping[Key, Map], states: States) -> dict[Key, Nearest]:
    """Among all words, each as the model's own embedding stage has it at the position of the token.

    A word is in the vocabulary once, so strict and lenient are the same.
    """
    places = torch.cat([torch.arange(text.stop - text.start) for text in states.texts])  # [token]
    texts = torch.cat([torch.full((text.stop - text.start,), n) for n, text in enumerate(states.texts)])
    shape = int(places.max()) + 1, len(states.texts)

    def spread(rows: Tensor) -> Tensor:
        """[token …] as [position text …], so that one product serves all tokens of a position."""
        table = rows.new_zeros(*shape, *rows.shape[1:])
        table[places, texts] = rows
        return table

    groups: dict[tuple[Metric, Part], list[Key]] = {}  # probes that compare with the same candidates, asked together
    for key in keys:
        groups.setdefault((key.metric, _compared(key)), []).append(key)
    given = {
        group: torch.cat([spread(recovered(key, maps, states)) for key in some], 1)  # [position key_and_text found]
        for group, some in groups.items()
    }
    ids = spread(states.ids)
    best: dict[tuple[Metric, Part], Nearest] = {}
    for words, candidates in words_at_positions(subject, states):
        _check(states, places, words, candidates)
        at = candidates.transpose(0, 1)  # [position word width]
        right = ids[:, None, :, None] == torch.arange(words.start, words.stop)  # [position 1 text word]
        for group, some in groups.items():
            metric, part = group
            near, slack = similarity(metric, given[group], take(part, at))
            near, slack = (each.unflatten(1, (len(some), -1)) for each in (near, slack))  # [position key text …]
            found = Nearest.of(near, slack, right, words.start)
            best[group] = best[group].merged(found, slack) if group in best else found
    return {
        key: best[group].at(places, number, texts) for group, some in groups.items() for number, key in enumerate(some)
    }


def _check(states: States, places: Tensor, words: slice, candidates: Tensor) -> None:
    """The candidate that is the right one must be the state that the model had."""
    inside = (states.ids >= words.start) & (states.ids < words.stop)
    made, had = candidates[states.ids[inside] - words.start, places[inside]], states.layers[0][inside]
    error = relative_error(made, had)
    if not error <= tolerance(had.dtype, had.shape[-1]):
        raise ProofError(
            f"a word alone enters the model differently than in its text, by {error:.1e} of its size: its embedding "
            'stage depends on more than word and position, so choose candidates="sentence"'
        )
