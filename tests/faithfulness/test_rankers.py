"""Rankers by name: methods, baselines, options and inverses."""

from collections.abc import Sequence

import numpy as np
import pytest

import thalweg as tw
from tests.faithfulness.cases import scores_of, tiny_case
from tests.tiny import snapshot, tiny_subject
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.rankers import base_name, find_rankers, inverse_name, is_floor, is_inverse
from thalweg.faithfulness.registry import list_baselines

ANSWER_METHODS = ("gradient_norm", "gradient_x_input", "integrated_gradients", "leave_one_out", "occlusion")


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2", "llama", "electra"])
@pytest.mark.parametrize("name", ["random", *ANSWER_METHODS])
def test_ranker_when_run_then_scores_every_token_and_leaves_the_model_alone(name: str, family: str) -> None:
    case = tiny_case(family)
    before = snapshot(case.subject.model)
    scores = scores_of(name, case)
    assert scores.shape == (len(case.original),)
    assert np.isfinite(scores).all()
    assert len(set(scores[list(case.removable)].round(12))) > 1
    assert snapshot(case.subject.model) == before


def test_inverse_when_ranked_then_reverses_the_order() -> None:
    case = tiny_case("bert")
    plain, inverse = find_rankers(["gradient_norm"], inverses=True)
    assert inverse.name == "inverse_gradient_norm"
    assert plain(case).order == inverse(case).order[::-1]
    assert find_rankers([inverse.name])[0](case).order == inverse(case).order


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alchemy", "unknown method 'alchemy'"),
        ("leave_one", "did you mean 'leave_one_out'"),
        ("occlusion:window", "options of 'occlusion:window'"),
        ("occlusion:width=3", "has no parameter 'width'"),
        ("inverse_alchemy", "unknown method 'alchemy'"),
        ("inverse_inverse_alti", "use 'alti'"),
    ],
)
def test_ranker_when_unknown_then_the_error_has_the_name_and_a_hint(name: str, message: str) -> None:
    with pytest.raises(tw.InputError, match=message):
        find_rankers([name])


@pytest.mark.parametrize(("names", "message"), [([], "at least one method"), ("alti", "list of names, got 'alti'")])
def test_rankers_when_not_a_list_of_names_then_are_refused(as_a_user: None, names: Sequence[str], message: str) -> None:
    with pytest.raises(tw.InputError, match=message):
        find_rankers(names)


def test_rankers_when_named_twice_then_are_listed_once() -> None:
    names = [ranker.name for ranker in find_rankers(["random", "all", "inverse_alti", "random"], inverses=True)]
    assert len(names) == len(set(names)) == 2 * (len(tw.list_methods()) + len(list_baselines()))
    assert names[:2] == ["random", "inverse_random"]


def test_params_when_listed_then_include_defaults() -> None:
    (ranker,) = find_rankers(["integrated_gradients:steps=7"])
    assert ranker.params == {"steps": 7}
    assert ranker.all_params() == {
        "output": None, "foil": None, "quantity": "probability", "reduction": "sum", "steps": 7, "start": "blank",
    }  # fmt: skip


def test_name_when_taken_apart_then_gives_the_method_and_its_kind() -> None:
    name = inverse_name("random:seed=1")
    assert (is_inverse(name), base_name(name), is_floor(name)) == (True, "random", True)
    assert (is_inverse("alti"), is_floor("alti"), is_floor("leave_one_out")) == (False, False, False)


@pytest.mark.parametrize("method", ["alti_logit", *ANSWER_METHODS])
def test_method_when_it_explains_a_logit_then_explains_the_word_of_the_example(method: str) -> None:
    case = make_case(tiny_subject("gpt2"), BenchExample("the key", good="the", bad="key"))
    (ranker,) = find_rankers([method])
    expected = tw.explain(
        case.subject, case.capture, method, "prediction", output=case.answer.output, foil=case.answer.foil
    )
    assert ranker(case).scores == pytest.approx(expected.scores[0])


def test_method_when_the_user_sets_an_output_then_it_is_explained_instead() -> None:
    case = make_case(tiny_subject("gpt2"), BenchExample("the key", good="the"))
    (ranker,) = find_rankers(["alti_logit:output=7"])
    expected = tw.explain(case.subject, case.capture, "alti_logit", "prediction", output=7)
    assert ranker(case).scores == pytest.approx(expected.scores[0])


def test_ranker_when_its_output_is_a_class_name_then_explains_that_class(bundled: tw.Subject) -> None:
    case = make_case(bundled, BenchExample("a witty movie."))
    by_name, by_number = scores_of("decompx:output=negative", case), scores_of("decompx:output=0", case)
    np.testing.assert_array_equal(by_name, by_number)
    assert not np.array_equal(by_name, scores_of("decompx", case))
