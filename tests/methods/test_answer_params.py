"""Parameters of the methods that explain an answer reach the answer."""

import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.capture.target import find_target
from thalweg.decompose.answers import Answer
from thalweg.methods.answer_params import AnswerParams, GradientParams

METHODS = [name for name, method in tw.list_methods().items() if issubclass(method.params, AnswerParams)]


def test_params_when_set_then_choose_the_answer_and_are_stated() -> None:
    capture = tiny_subject("bert").capture("the old dog")
    params, target = GradientParams(output=1, foil=2, quantity="logit"), find_target(capture, None)
    assert [answer.answer for answer in params.answers(capture, target)] == [Answer(1, 2, "logit")]
    assert params.assumptions(capture, target) == ("scores explain the logit of the output minus that of the foil",)


@pytest.mark.parametrize("method", METHODS)
def test_method_when_the_logit_is_explained_then_its_value_is_in_the_receipt(method: str) -> None:
    subject = tiny_subject("bert")
    capture = subject.capture("the old dog")
    assert capture.logits is not None
    result = tw.explain(subject, capture, method, quantity="logit", output=2)
    name = "at the end" if method == "integrated_gradients" else "logit"
    assert result.receipt.figures[name] == pytest.approx(float(capture.logits[2]), abs=1e-5)
    assert any("the logit of the output" in sentence for sentence in result.receipt.assumed)


def test_methods_when_counted_then_are_the_five_that_run_the_model() -> None:
    expected = ["gradient_norm", "gradient_x_input", "integrated_gradients", "leave_one_out", "occlusion"]
    assert expected == METHODS
