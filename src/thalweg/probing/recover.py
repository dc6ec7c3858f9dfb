"""Recover tokens: map a state and find the nearest candidate in the sentence or in the vocabulary."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.errors import ProofError
from thalweg.models.subject import Subject
from thalweg.numerics import relative_error, tolerance
from thalweg.probing.plan import Candidates, ProbeKey
from thalweg.probing.search import Metric, Nearest, Part, similarity, take
from thalweg.probing.states import HiddenStates, words_at_positions

ProbeMap = Callable[[Tensor], Tensor]


def estimate(
    key: ProbeKey, maps: Mapping[ProbeKey, ProbeMap], states: HiddenStates
) -> Float[Tensor, "token estimated"]:
    """A probe's estimate for every token. The identity keeps the part it reads, e.g. a direction."""
    inputs = take(key.part, states.layers[key.layer])
    return inputs if key.kind == "identity" else maps[key](inputs)


def _compared_part(key: ProbeKey) -> Part:
    """The part of the candidates that a probe's estimate is compared with."""
    return key.part if key.kind == "identity" else "whole"


def search(
    subject: Subject,
    keys: Sequence[ProbeKey],
    maps: Mapping[ProbeKey, ProbeMap],
    states: HiddenStates,
    candidates: Candidates,
) -> dict[ProbeKey, tuple[Nearest, Nearest]]:
    """The nearest candidates of every token for each probe, matched by position (strict) and by id (lenient)."""
    if candidates == "sentence":
        return {key: in_sentence(key, estimate(key, maps, states), states) for key in keys}
    return {key: (nearest, nearest) for key, nearest in in_vocabulary(subject, keys, maps, states).items()}


def in_sentence(
    key: ProbeKey, estimates: Float[Tensor, "token estimated"], states: HiddenStates
) -> tuple[Nearest, Nearest]:
    """Search among the states of all tokens of the same text at the recovered layer."""
    candidates = take(_compared_part(key), states.layers[key.to]).double()
    strict, lenient = [], []
    for text in states.texts:
        near, slack = similarity(key.metric, estimates[text].double(), candidates[text])  # [query candidate]
        ids = states.ids[text]
        strict.append(Nearest.of(near, slack, torch.eye(len(near), dtype=torch.bool)))
        lenient.append(Nearest.of(near, slack, ids[:, None] == ids[None]))
    return Nearest.joined(strict), Nearest.joined(lenient)


def in_vocabulary(
    subject: Subject, keys: Sequence[ProbeKey], maps: Mapping[ProbeKey, ProbeMap], states: HiddenStates
) -> dict[ProbeKey, Nearest]:
    """Search among all words of the vocabulary, embedded by the model at the position of the token.

    Each word occurs once in the vocabulary, so strict and lenient matches agree.
    """
    positions = torch.cat([torch.arange(text.stop - text.start) for text in states.texts])  # [token]
    texts = torch.cat([torch.full((text.stop - text.start,), n) for n, text in enumerate(states.texts)])
    shape = int(positions.max()) + 1, len(states.texts)

    def by_position(rows: Tensor) -> Tensor:
        """[token …] as [position text …], so that one product serves all tokens at a position."""
        table = rows.new_zeros(*shape, *rows.shape[1:])
        table[positions, texts] = rows
        return table

    groups: dict[tuple[Metric, Part], list[ProbeKey]] = {}  # probes with the same candidates share a search
    for key in keys:
        groups.setdefault((key.metric, _compared_part(key)), []).append(key)
    estimates = {  # [position key_and_text estimated]
        group: torch.cat([by_position(estimate(key, maps, states)) for key in members], 1)
        for group, members in groups.items()
    }
    ids = by_position(states.ids)
    best: dict[tuple[Metric, Part], Nearest] = {}
    for words, embedded in words_at_positions(subject, states):
        _check_embeddings(states, positions, words, embedded)
        candidates = embedded.transpose(0, 1)  # [position word width]
        right = ids[:, None, :, None] == torch.arange(words.start, words.stop)  # [position 1 text word]
        for group, members in groups.items():
            metric, part = group
            near, slack = similarity(metric, estimates[group], take(part, candidates))
            near, slack = (t.unflatten(1, (len(members), -1)) for t in (near, slack))  # [position key text …]
            nearest = Nearest.of(near, slack, right, words.start)
            best[group] = best[group].merged(nearest, slack) if group in best else nearest
    return {
        key: best[group].at(positions, number, texts)
        for group, members in groups.items()
        for number, key in enumerate(members)
    }


def _check_embeddings(states: HiddenStates, positions: Tensor, words: slice, embedded: Tensor) -> None:
    """Raise unless the embedding of each token's own word is the state that the model had."""
    inside = (states.ids >= words.start) & (states.ids < words.stop)
    candidates, actual = embedded[states.ids[inside] - words.start, positions[inside]], states.layers[0][inside]
    error = relative_error(candidates, actual)
    if not error <= tolerance(actual.dtype, actual.shape[-1]):
        raise ProofError(
            f"a word embedded alone differs from the same word in its text by {error:.1e} (relative): the embedding "
            'stage depends on more than word and position. Use candidates="sentence"'
        )
