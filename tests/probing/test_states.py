"""States between layers: those that the model itself returns, whatever else is in the batch."""

import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from tests.probing.corpus import sentences
from tests.tiny import SENTENCE, snapshot, tiny_subject
from thalweg.probing.states import read_states, words_at_positions

TEXTS = [SENTENCE, "the old man.", "a cat sees the dog and it runs."]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "gpt2", "llama", "opt", "gemma2", "phi"])
def test_states_when_read_then_are_the_models_own_hidden_states(family: str) -> None:
    subject = tiny_subject(family)
    states = read_states(subject, [SENTENCE])
    with torch.no_grad():
        own = subject.model(**states.encoded.inputs, output_hidden_states=True).hidden_states
    assert len(states.layers) == len(own)
    normed_top = family in ("gpt2", "llama", "opt", "gemma2", "phi")  # they return the last state after the final norm
    for state, expected in list(zip(states.layers, own, strict=True))[: -1 if normed_top else None]:
        torch.testing.assert_close(state, expected[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_states_when_texts_are_padded_together_then_are_those_of_each_alone(family: str) -> None:
    subject = tiny_subject(family)
    together = read_states(subject, TEXTS)
    assert len({text.stop - text.start for text in together.texts}) > 1
    for text, tokens in zip(TEXTS, together.texts, strict=True):
        alone = read_states(subject, [text])
        torch.testing.assert_close(together.layers[:, tokens], alone.layers, atol=2e-5, rtol=1e-4)
        assert torch.equal(together.ids[tokens], alone.ids)
        assert torch.equal(together.special[tokens], alone.special)


def test_last_state_when_a_decoder_norms_it_then_is_the_input_of_the_norm() -> None:
    subject = tiny_subject("llama")
    states = read_states(subject, [SENTENCE])
    with torch.no_grad():
        own = subject.model(**states.encoded.inputs, output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(subject.model.get_submodule("model.norm")(states.layers[-1]), own[0])


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama", "albert"])
def test_words_when_embedded_at_every_position_then_equal_the_model_embeddings(family: str) -> None:
    subject = tiny_subject(family)
    states = read_states(subject, [SENTENCE])
    before = snapshot(subject.model)
    words = torch.cat([embedded for _, embedded in words_at_positions(subject, states)])
    assert snapshot(subject.model) == before
    places = torch.arange(len(states.ids))
    torch.testing.assert_close(words[states.ids, places], states.layers[0])


@pytest.mark.parametrize("family", ["t5", "bart", "vit"])
def test_states_when_the_model_is_not_one_stack_over_text_then_are_refused(family: str) -> None:
    subject = tw.load(BY_NAME[family].build(), tiny_subject().tokenizer)
    with pytest.raises(tw.InputError, match=r"encoder-decoder|does not read text"):
        read_states(subject, sentences(2))
