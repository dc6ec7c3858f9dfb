"""Recovering tokens: in the sentence and in the vocabulary, against a search by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.probing.corpus import sentences
from thalweg.errors import ProofError
from thalweg.probing import recover, states
from thalweg.probing.plan import ProbeKey
from thalweg.probing.recover import in_sentence, in_vocabulary
from thalweg.probing.states import HiddenStates, read_states, words_at_positions

TEXTS = sentences(60)


def test_states_when_rotated_then_linear_recovers_them_and_identity_does_not(bert: tw.Subject) -> None:
    original = read_states(bert, TEXTS[:10])
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0))).Q
    turned = replace(original, layers=torch.stack([original.layers[0], original.layers[0] @ turn]))
    identity, linear = ProbeKey(1, 0, "identity", "cosine", "whole"), ProbeKey(1, 0, "linear", "cosine", "whole")
    assert float(in_sentence(identity, turned.layers[1], turned)[0].hits.mean()) < 0.5
    assert float(in_sentence(linear, turned.layers[1] @ turn.T, turned)[0].hits.mean()) == 1.0


def test_vocabulary_when_searched_in_chunks_then_nearest_words_are_those_of_a_search_by_hand(
    bert: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "CANDIDATE_ELEMENTS", 10_000)  # several chunks
    batch = read_states(bert, TEXTS[:3])
    key = ProbeKey(3, 0, "identity", "l2", "whole")
    nearest = in_vocabulary(bert, [key], {}, batch)[key]
    words = torch.cat([embedded for _, embedded in words_at_positions(bert, batch)])
    for text in batch.texts:
        for position in range(text.stop - text.start):
            distances = (words[:, position] - batch.layers[3][text][position]).norm(dim=1)
            assert int(nearest.first[text][position]) == int(distances.argmin())


def test_vocabulary_when_embeddings_depend_on_the_context_then_is_refused(
    bert: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(subject: tw.Subject, batch: HiddenStates) -> Iterator[tuple[slice, Tensor]]:
        return ((words, embedded + 0.1) for words, embedded in words_at_positions(subject, batch))

    monkeypatch.setattr(recover, "words_at_positions", shifted)
    with pytest.raises(ProofError, match='candidates="sentence"'):
        in_vocabulary(bert, [ProbeKey(0, 0, "identity", "l2", "whole")], {}, read_states(bert, TEXTS[:1]))
