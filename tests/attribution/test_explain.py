"""From a text to an attribution: targets, pooled predictions, assumptions, refusals."""

import numpy as np
import pytest

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import SENTENCE, tiny_subject
from thalweg.attribution.explain import DEFAULT_METHOD

IDS = [5, 9, 6, 17, 8]


def test_explain_when_only_a_text_is_passed_then_explains_the_prediction_by_alti(bundled: tw.Subject) -> None:
    result = tw.explain(bundled, "a witty movie.")
    assert result.method == DEFAULT_METHOD == "alti"
    assert result.targets.pieces == ("[CLS]",)
    assert result.prediction == "positive"
    assert result.scores.sum() == pytest.approx(1)
    assert result.chain == "product"
    assert {"parity", "sum_of_parts"} <= set(result.receipt.checks)


def test_explain_when_a_capture_is_passed_then_equals_the_explanation_of_its_text() -> None:
    subject = tiny_subject()
    capture = subject.capture_one(SENTENCE)
    np.testing.assert_array_equal(
        tw.explain(subject, capture, "alti", "all").scores, tw.explain(subject, SENTENCE, "alti", "all").scores
    )


def test_explain_when_a_word_is_the_target_then_has_no_prediction(bundled: tw.Subject) -> None:
    result = tw.explain(bundled, "a witty movie.", target="movie")
    assert result.targets.pieces == ("movie",)
    assert result.prediction is None


def test_explain_when_the_prediction_is_pooled_then_has_the_mean_row_and_the_assumption(pooling: tw.Subject) -> None:
    result = tw.explain(pooling, IDS, "attention_rollout")
    rows = tw.explain(pooling, IDS, "attention_rollout", [0, 1, 2, 3, 4])
    assert result.targets.pieces == ("[mean of all]",)
    np.testing.assert_allclose(result.scores, rows.scores.mean(0, keepdims=True))
    assert any("pooled" in sentence for sentence in result.receipt.assumed)
    assert not any("pooled" in sentence for sentence in rows.receipt.assumed)


def test_explain_when_output_and_foil_are_chosen_then_the_receipt_names_both(bundled: tw.Subject) -> None:
    result = tw.explain(bundled, "a witty movie.", "decompx", output=0, foil=1)
    assumed = " ".join(result.receipt.assumed)
    assert "output" in assumed
    assert "negative" in assumed
    assert "foil" in assumed
    assert "positive" in assumed


def test_chain_when_parameters_break_the_product_or_maps_are_missing_then_is_none(bundled: tw.Subject) -> None:
    assert tw.explain(bundled, "a witty movie.", "attention_flow").chain == "flow"
    assert tw.explain(bundled, "a witty movie.", "raw_attention").chain is None


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"method": "alt"}, ("'alt'", "'alti'")),
        ({"method": "alti", "mesure": "l2"}, ("alti", "'mesure'")),
        ({"target": 99}, ("99", "0 to 5")),
        ({"target": "film"}, ("'film'", "movie")),
    ],
)
def test_explain_when_an_option_is_wrong_then_the_error_has_the_value_and_a_hint(
    bundled: tw.Subject, options: dict, facts: tuple[str, ...]
) -> None:
    with pytest.raises(tw.InputError) as error:
        tw.explain(bundled, "a witty movie.", **options)
    for fact in facts:
        assert fact in str(error.value)


def test_explain_when_the_method_is_unknown_then_raises_before_the_model_runs() -> None:
    subject = tw.load(BY_NAME["bert"].build())  # without a tokenizer, no text can be captured
    with pytest.raises(tw.InputError, match="alti"):
        tw.explain(subject, SENTENCE, "altii")


def test_compare_when_methods_are_omitted_then_explains_the_same_target_by_each(bundled: tw.Subject) -> None:
    comparison = tw.compare(bundled, "a witty movie.")
    assert comparison.methods == ("raw_attention", "attention_rollout", "alti")
    assert len({attribution.targets for attribution in comparison.attributions}) == 1
    assert np.diag(comparison.agreement()) == pytest.approx(1)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("methods", ["alti", [], ["alti"], ["alti", "alti"], {"alti", "globenc"}, 3])
def test_compare_when_methods_are_not_two_or_more_different_ones_then_the_error_has_them(
    bundled: tw.Subject, methods: object
) -> None:
    with pytest.raises(tw.InputError, match="two or more") as error:
        tw.compare(bundled, "a witty movie.", methods)  # pyright: ignore[reportArgumentType]
    assert repr(methods) in str(error.value)


@pytest.mark.parametrize("name", ["negative", "NEGATIVE", "0", 0])
def test_output_when_named_then_is_the_class_with_that_number(bundled: tw.Subject, name: object) -> None:
    result = tw.explain(bundled, "a witty movie.", "alti_logit", output=name, foil="positive")
    assert (result.params["output"], result.params["foil"]) == (0, 1)
    assert result.explained is not None and result.explained.name == "negative"
    assert result.foil is not None and result.foil.probability == result.answer.probability  # pyright: ignore
    assert result.prediction == "positive"


def test_output_when_misspelt_then_the_nearest_class_is_suggested(bundled: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="unknown class 'negativ'; did you mean 'negative'"):
        tw.explain(bundled, "a witty movie.", "decompx", output="negativ")


def test_output_when_it_is_a_token_then_is_looked_up_by_its_text() -> None:
    subject = tiny_subject("gpt2")
    result = tw.explain(subject, "the key", "alti_logit", output="the")
    assert result.params["output"] == subject.tokenizer("the")["input_ids"][0]  # pyright: ignore
    with pytest.raises(tw.InputError, match="'the key' is not a single token"):
        tw.explain(subject, "the key", "alti_logit", output="the key")
