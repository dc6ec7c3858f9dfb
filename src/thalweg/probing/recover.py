"""Ask probes for tokens: map a state, and look for the nearest candidate in the sentence or in the vocabulary."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.errors import ProofError
from thalweg.models.load import Subject
from thalweg.numerics import relative_error, tolerance
from thalweg.probing.plan import Candidates, Key
from thalweg.probing.search import Nearest, similarity, take
from thalweg.probing.states import States, words_at_positions

Map = Callable[[Tensor], Tensor]


def recovered(key: Key, maps: Mapping[Key, Map], states: States) -> Float[Tensor, "token found"]:
    """What a probe makes of each state. The identity compares like with like: a direction with directions."""
    given = take(key.part, states.layers[key.layer])
    return given if key.kind == "identity" else maps[key](given)


def _comparable(key: Key, candidates: Float[Tensor, "*token width"]) -> Float[Tensor, "*token found"]:
    return take(key.part, candidates) if key.kind == "identity" else candidates


def search(
    subject: Subject, keys: Sequence[Key], maps: Mapping[Key, Map], states: States, candidates: Candidates
) -> dict[Key, tuple[Nearest, Nearest]]:
    """For each probe the nearest candidates of every token, matched by position (strict) and by id (lenient)."""
    if candidates == "sentence":
        return {key: in_sentence(key, recovered(key, maps, states), states) for key in keys}
    return {key: (found, found) for key, found in in_vocabulary(subject, keys, maps, states).items()}


def in_sentence(key: Key, found: Float[Tensor, "token found"], states: States) -> tuple[Nearest, Nearest]:
    """Among the states of all tokens of the same text at the layer that is asked for."""
    wanted = _comparable(key, states.layers[key.to]).double()
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

    given = {key: spread(recovered(key, maps, states)) for key in keys}
    ids = spread(states.ids)
    best: dict[Key, Nearest] = {}
    for words, candidates in words_at_positions(subject, states):
        _check(states, places, words, candidates)
        at = candidates.transpose(0, 1)  # [position word width]
        right = ids[..., None] == torch.arange(words.start, words.stop)  # [position text word]
        for key in keys:
            near, slack = similarity(key.metric, given[key], _comparable(key, at))
            found = Nearest.of(near, slack, right, words.start)
            best[key] = best[key].merged(found, slack) if key in best else found
    return {key: found.at(places, texts) for key, found in best.items()}


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
