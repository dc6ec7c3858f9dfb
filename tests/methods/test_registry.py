"""The registry: methods by name, traits that fit together, and the checks before a method runs."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.methods.params import option, options
from thalweg.methods.registry import (
    Maps,
    Method,
    NameClashError,
    Traits,
    find_method,
    list_methods,
    method,
    model_kind,
)
from thalweg.tokens import anonymous


@dataclass(frozen=True)
class Params:
    count: int = option(3, "how many")


def toy(capture: Capture, target: Target, params: Params) -> Maps:
    """Equal scores.

    And then some more.
    """
    return Maps(torch.ones(len(target.positions), len(capture.tokens)))


TOY = Method("toy", toy, Params, Traits(), "a paper", "nothing", "none")


@pytest.mark.parametrize("name", ["", "Attention", "raw attention 2", "__init__"])
def test_method_when_unknown_then_the_error_names_it_and_a_known_one(name: str) -> None:
    with pytest.raises(tw.InputError) as caught:
        find_method(name)
    assert repr(name) in str(caught.value)
    assert any(known in str(caught.value) for known in list_methods())


def test_method_when_misspelt_then_the_error_suggests_the_closest() -> None:
    with pytest.raises(tw.InputError, match="did you mean 'attention_rollout'"):
        find_method("atention_rollout")


def test_summary_when_there_are_more_lines_then_is_the_first() -> None:
    assert TOY.summary == "Equal scores."


def test_methods_when_listed_then_are_sorted_complete_and_cannot_be_changed() -> None:
    known = list_methods()
    assert list(known) == sorted(known)
    assert len(known) >= 11
    for name, entry in known.items():
        assert name == entry.name == entry.function.__name__
        assert entry.summary.endswith(".")
        assert entry.paper
        assert entry.cost
        assert entry.guarantee
        assert find_method(name) is entry
        assert entry.params() == entry.make_params({})
        assert all(choice.meaning for choice in options(entry.params))
    with pytest.raises(TypeError):
        known["mine"] = TOY  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize(
    ("traits", "words"),
    [
        ({"signed": True, "rows_sum_to_one": True}, "signed"),
        ({"chain": "product"}, "chain='product'"),
        ({"layer_maps": "steps"}, "layer_maps='steps'"),
        ({"layer_maps": "cumulative", "chain": "product"}, "cumulative"),
        ({"serves": frozenset()}, "encoder-decoder, single sequence"),
        ({"serves": frozenset({"images"})}, "images"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_traits_when_they_contradict_each_other_then_are_refused(traits: dict[str, Any], words: str) -> None:
    with pytest.raises(tw.InputError, match=words):
        Traits(**traits)


def test_traits_when_lengths_are_limited_then_say_what_is_affordable() -> None:
    limited = Traits(max_tokens=10, max_tokens_all_targets=5)
    assert [limited.affordable(count) for count in (10, 11)] == [True, False]
    assert [limited.affordable_for_all_targets(count) for count in (5, 6)] == [True, False]
    assert Traits().affordable(10**6)
    assert Traits().affordable_for_all_targets(10**6)


def test_model_kind_when_there_are_two_sequences_then_is_encoder_decoder() -> None:
    assert model_kind(captured(BY_NAME["bert"])) == "single sequence"
    assert model_kind(captured(BY_NAME["bart"])) == "encoder-decoder"


def test_run_when_traits_rule_the_model_out_then_the_function_is_not_called() -> None:
    single = replace(TOY, traits=Traits(serves=frozenset({"single sequence"})))
    with pytest.raises(tw.InputError, match="toy does not support encoder-decoder"):
        single.run(captured(BY_NAME["bart"]), Target((0,)), Params())
    logit = replace(TOY, traits=Traits(signed=True, explains_logit=True))
    with pytest.raises(tw.InputError, match="toy explains a logit, but the model returns no logits"):
        logit.run(captured(BY_NAME["nomic_bert"]), Target((0,)), Params())
    assert single.run(captured(BY_NAME["bert"]), Target((0,)), Params()).scores.shape == (1, 12)


def test_run_when_scores_have_the_wrong_shape_then_is_refused_with_both_shapes() -> None:
    def narrow(capture: Capture, target: Target, params: Params) -> Maps:
        return Maps(torch.ones(1, 3))

    with pytest.raises(tw.ProofError, match=r"\(1, 3\).*\(2, 12\)"):
        replace(TOY, function=narrow).run(captured(BY_NAME["bert"]), Target((0, 1)), Params())


@pytest.mark.parametrize("name", ["scores", "per_layer", "errors"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_run_when_numbers_are_not_finite_then_is_refused_with_their_name(name: str, number: float) -> None:
    numbers: dict[str, Any] = {
        "scores": torch.ones(1, 12),
        "per_layer": torch.ones(2, 12, 12),
        "errors": torch.ones(1, 12),
    }
    numbers[name].view(-1)[5] = number

    def broken(capture: Capture, target: Target, params: Params) -> Maps:
        return Maps(**numbers)

    with pytest.raises(tw.ProofError, match=f"toy returned NaN or infinite {name}.*float64"):
        replace(TOY, function=broken).run(captured(BY_NAME["bert"]), Target((0,)), Params())


@pytest.mark.usefixtures("own_registry")
def test_decorator_when_a_name_is_taken_by_another_module_then_is_refused_with_both() -> None:
    def alti(capture: Capture, target: Target, params: Params) -> Maps:
        raise NotImplementedError

    with pytest.raises(NameClashError, match=rf"'alti'.*thalweg\.methods\.alti and {__name__}"):
        method(params=Params, traits=Traits(), paper="none", cost="none", guarantee="none")(alti)
    assert list_methods()["alti"].function.__module__ == "thalweg.methods.alti"


@pytest.mark.usefixtures("own_registry")
def test_decorator_when_maps_are_cumulative_then_params_need_a_start() -> None:
    traits = Traits(layer_maps="cumulative")
    with pytest.raises(tw.InputError, match=r"'toy'.*'start'"):
        method(params=Params, traits=traits, paper="none", cost="none", guarantee="none")(toy)
    assert "toy" not in list_methods()


@pytest.mark.parametrize("name", list_methods())
def test_run_when_memory_is_short_then_is_refused_before_anything_is_allocated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = captured(BY_NAME["bert"])

    def unreachable(capture: Capture, target: Target, params: Params) -> Maps:
        raise AssertionError("the method was called")

    chosen = replace(list_methods()[name], function=unreachable)
    monkeypatch.setattr("thalweg.memory.available_bytes", lambda device: 2**10)
    with pytest.raises(tw.InputError, match=rf"^{name} of 12 tokens needs about .* MB of memory, but 0\.0 MB are"):
        chosen.run(capture, Target((0,)), chosen.make_params({}))


def test_memory_when_a_text_is_long_then_decompx_needs_what_was_measured() -> None:
    capture = captured(BY_NAME["bert"])
    long = replace(capture, tokens=anonymous(4096))  # only its length is read
    needed = list_methods()["decompx"].memory(long) * 4
    assert 8 * 4096**2 * capture.width * 4 == needed
    assert list_methods()["alti"].memory(long) * 4 < 2**30
