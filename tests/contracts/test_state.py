"""The model is left unchanged: after an exception, with several threads, in any mode."""

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

import thalweg as tw
from tests.families import BY_NAME, Family
from tests.tiny import SENTENCE, snapshot, tiny_subject, wordpiece
from thalweg.capture.attention import Call
from thalweg.capture.record import Capture

# Post-norm; encoder, decoder and cross-attention; bypassing the registry.
FAMILIES = [BY_NAME[name] for name in ("bert", "bart", "bloom")]
each = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
SHORT = "a cat is not a dog."


class BoomError(Exception):
    """Raised by the tests; unknown to the library."""


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Switch threads as often as Python allows, so that everything that can interleave does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def raise_at(model: PreTrainedModel, error: BaseException, call: int) -> Callable[[], None]:
    """Make a module in the middle of the model raise at its nth call; return a function that undoes this."""
    linears = [module for module in model.modules() if not list(module.children())]
    calls = 0

    def boom(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error

    return linears[len(linears) // 2].register_forward_hook(boom).remove


def capture_of(subject: tw.Subject, inputs: Any) -> Capture:
    capture = subject.capture(inputs)
    assert isinstance(capture, Capture)
    return capture


@cache
def alone(name: str, text: str) -> Capture:
    """The capture of a model that nothing else was done to."""
    return tiny_subject(name).capture(text)


def numbers(capture: Capture) -> list[Tensor]:
    kept = [tensor for block in capture.blocks for tensor in (block.weights(), block.output)]
    return kept if capture.logits is None else [*kept, capture.logits]


def assert_same(actual: Capture, expected: Capture) -> None:
    assert actual.tokens == expected.tokens
    for tensor, wanted in zip(numbers(actual), numbers(expected), strict=True):
        torch.testing.assert_close(tensor, wanted, atol=1e-6, rtol=1e-5)


@each
@pytest.mark.parametrize(
    ("error", "call"),
    [(BoomError(), 1), (BoomError(), 2), (KeyboardInterrupt(), 2)],
    ids=["while_learning", "while_capturing", "interrupted"],
)
def test_model_when_a_module_raises_then_is_left_unchanged(family: Family, error: BaseException, call: int) -> None:
    model, inputs = family.build(), family.inputs(1, 9)
    undo = raise_at(model, error, call)
    before = snapshot(model)
    subject = tw.load(model)
    with pytest.raises(type(error)) as caught:
        subject.capture(inputs)
    assert caught.value is error
    assert snapshot(model) == before
    undo()
    assert_same(capture_of(subject, inputs), untouched(family))


@cache
def untouched(family: Family) -> Capture:
    return capture_of(tw.load(family.build()), family.inputs(1, 9))


@each
def test_model_when_a_replay_handler_raises_then_is_left_unchanged(family: Family) -> None:
    model = family.build()
    capture = capture_of(tw.load(model), family.inputs(1, 9))
    before = snapshot(model)
    calls = 0

    def handle(call: Call) -> tuple[Tensor, Tensor | None]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BoomError
        return call.run()

    with pytest.raises(BoomError):
        capture.replay(handle)
    assert calls == 2
    assert snapshot(model) == before


@each
def test_model_when_captured_well_then_is_left_unchanged(family: Family) -> None:
    model = family.build()
    before = snapshot(model)
    subject = tw.load(model)
    for _ in range(2):  # the first learns, the second only captures
        subject.capture(family.inputs(1, 9))
        assert snapshot(model) == before


def test_model_when_input_or_proof_fails_then_is_left_unchanged() -> None:
    for name, error in [
        ("bert", tw.InputError),
        ("bitnet", tw.ProofError),
        ("mamba", tw.ModelError),
    ]:
        subject = tiny_subject(name)
        before = snapshot(subject.model)
        with pytest.raises(error):
            subject.capture("" if name == "bert" else SENTENCE)
        assert snapshot(subject.model) == before


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_implementation_when_chosen_by_the_user_then_is_kept(implementation: str) -> None:
    subject = tiny_subject("bart")
    subject.model.set_attn_implementation(implementation)
    before = snapshot(subject.model)
    assert set(before["implementations"]) == {implementation}  # pyright: ignore[reportArgumentType]
    subject.capture(SENTENCE)
    assert snapshot(subject.model) == before


def test_hooks_of_the_user_when_captured_then_survive_and_fire() -> None:
    subject = tiny_subject()
    seen: list[str] = []
    layer = subject.model.get_submodule("bert.encoder.layer.1")
    layer.register_forward_pre_hook(lambda *_: seen.append("before"))
    layer.register_forward_hook(lambda *_: seen.append("after"))
    before = snapshot(subject.model)
    subject.capture(SENTENCE)
    assert snapshot(subject.model) == before
    assert seen[:2] == ["before", "after"]
    seen.clear()
    with torch.no_grad():
        subject.model(input_ids=torch.tensor([[1, 5, 3]]))
    assert seen == ["before", "after"]


def test_hook_of_the_user_that_changes_an_output_when_captured_then_is_part_of_the_pass() -> None:
    subject, plain = tiny_subject(), tiny_subject()

    def enlarge(_: nn.Module, __: Any, output: Any) -> Any:
        return output * 1.5

    subject.model.get_submodule("bert.encoder.layer.0").register_forward_hook(enlarge)
    changed, unchanged = subject.capture(SENTENCE), plain.capture(SENTENCE)
    torch.testing.assert_close(changed.blocks[0].output, unchanged.blocks[0].output)
    assert not torch.allclose(changed.blocks[1].input, unchanged.blocks[1].input)
    with torch.no_grad():
        ids = torch.tensor([changed.tokens.ids])
        own = subject.model(input_ids=ids).logits[0]
    torch.testing.assert_close(changed.logits, own)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.enable_grad, torch.inference_mode], ids=lambda mode: mode.__name__
)
@pytest.mark.parametrize("name", ["bert", "bloom"])
def test_capture_when_taken_inside_a_gradient_mode_then_works_or_the_error_says_so(
    mode: Callable[[], AbstractContextManager[None]], name: str
) -> None:
    expected = alone(name, SENTENCE)
    subject = tiny_subject(name)
    with mode():
        before = snapshot(subject.model)
        capture = captured_or_refused(subject, "inference" if mode is torch.inference_mode else "")
        assert snapshot(subject.model) == before
    if capture is not None:
        assert_same(capture, expected)
    assert_same(subject.capture(SENTENCE), expected)


def test_model_when_its_weights_were_made_in_inference_mode_then_is_refused_with_the_reason() -> None:
    with torch.inference_mode():
        model = BY_NAME["bert"].build()
    with pytest.raises(tw.ModelError, match=r"made under torch\.inference_mode"):
        tw.load(model)


def captured_or_refused(subject: tw.Subject, reason: str) -> Capture | None:
    """A capture, or None after an error of ours that names the reason; without a reason it must work."""
    if not reason:
        return subject.capture(SENTENCE)
    try:
        return subject.capture(SENTENCE)
    except tw.ThalwegError as error:
        if reason not in str(error):
            raise
    return None


def test_capture_when_parameters_are_frozen_then_has_the_same_numbers() -> None:
    subject = tiny_subject()
    subject.model.requires_grad_(False)
    before = snapshot(subject.model)
    assert_same(subject.capture(SENTENCE), alone("bert", SENTENCE))
    assert snapshot(subject.model) == before


def test_gradients_when_captured_with_gradients_on_then_do_not_accumulate() -> None:
    subject = tiny_subject()
    with torch.enable_grad():
        subject.model(input_ids=torch.tensor([[1, 5, 3]])).logits.sum().backward()
        held = {n: p.grad.clone() for n, p in subject.model.named_parameters() if p.grad is not None}
        assert held
        capture = subject.capture(SENTENCE)
        tw.explain(subject, capture)
    for name, parameter in subject.model.named_parameters():
        assert (parameter.grad is None) == (name not in held)
        assert parameter.grad is None or torch.equal(parameter.grad, held[name])
    assert not any(tensor.requires_grad for tensor in numbers(capture))


@pytest.mark.parametrize("switch", ["output_hidden_states", "output_attentions", "use_cache"])
def test_capture_when_config_asks_for_other_outputs_then_has_the_same_numbers(switch: str) -> None:
    subject, plain = tiny_subject("gpt2"), tiny_subject("gpt2")
    for each_subject in (subject, plain):  # the fused kernel returns no attention weights
        each_subject.model.set_attn_implementation("eager")
    setattr(subject.model.config, switch, not getattr(subject.model.config, switch, True))
    with torch.no_grad():  # transformers sets hooks of its own on the first call
        subject.model(input_ids=torch.tensor([[5, 6, 7]]))
    before = snapshot(subject.model)
    assert_same(subject.capture(SENTENCE), plain.capture(SENTENCE))
    assert snapshot(subject.model) == before


def together(work: Mapping[str, Callable[[], Any]], rounds: int = 3) -> dict[str, list[Any]]:
    """Run each piece of work several times in its own thread, all starting at once."""
    gate = Barrier(len(work))

    def repeat(piece: Callable[[], Any]) -> list[Any]:
        results = []
        try:
            for _ in range(rounds):
                gate.wait(timeout=60)
                results.append(piece())
        except BrokenBarrierError:
            pass  # another thread has failed and raises the reason
        except BaseException:
            gate.abort()
            raise
        return results

    with ThreadPoolExecutor(len(work)) as pool:
        jobs = {name: pool.submit(repeat, piece) for name, piece in work.items()}
        return {name: job.result() for name, job in jobs.items()}


def assert_as_alone(subjects: list[tw.Subject], expected: list[Capture], texts: list[str]) -> None:
    work = {
        str(number): (lambda subject=subject, text=text: subject.capture(text))
        for number, (subject, text) in enumerate(zip(subjects, texts, strict=True))
    }
    before = [snapshot(subject.model) for subject in subjects]
    captures_by_thread = together(work)
    assert [snapshot(subject.model) for subject in subjects] == before
    for captures, wanted in zip(captures_by_thread.values(), expected, strict=True):
        for capture in captures:
            assert_same(capture, wanted)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("names", [("bert", "gpt2"), ("bloom", "bloom"), ("bert", "bloom")])
def test_captures_when_two_models_run_in_two_threads_then_have_their_own_numbers(
    names: tuple[str, str],
) -> None:
    texts = [SENTENCE, SHORT]
    expected = [alone(n, t) for n, t in zip(names, texts, strict=True)]
    assert_as_alone([tiny_subject(name) for name in names], expected, texts)


@pytest.mark.usefixtures("eager_switching")
def test_captures_when_models_share_a_config_in_two_threads_then_have_their_own_numbers() -> None:
    first = BY_NAME["bert"].build()
    config = first.config
    second = AutoModelForSequenceClassification.from_config(config).eval()
    second.config = config  # the library copies it when it builds; users do share it
    for module in second.modules():
        if hasattr(module, "config"):
            module.config = config
    subjects = [tw.load(first, wordpiece()), tw.load(second, wordpiece())]
    expected = [subjects[0].capture(SENTENCE), subjects[1].capture(SHORT)]
    assert_as_alone([tw.load(s.model, s.tokenizer) for s in subjects], expected, [SENTENCE, SHORT])
    assert config._attn_implementation_internal == "sdpa"


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("name", ["bert", "bloom"])
@pytest.mark.parametrize("shared", [True, False], ids=["one_subject", "two_subjects"])
def test_captures_when_one_model_runs_in_two_threads_then_have_their_own_numbers(name: str, shared: bool) -> None:
    texts = [SENTENCE, SHORT]
    expected = [alone(name, text) for text in texts]
    first = tiny_subject(name)
    second = first if shared else tw.load(first.model, first.tokenizer)
    assert_as_alone([first, second], expected, texts)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("lie", ["always", "in long texts"])
def test_mixing_model_when_two_threads_run_it_then_is_refused_in_both(lie: str) -> None:
    def mix(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        return output + 0.2 * output.roll(1, 1) if lie == "always" or output.shape[1] > 10 else output

    def attempt(subject: tw.Subject) -> str:
        try:
            subject.capture(SENTENCE)
        except tw.ProofError as error:
            return str(error)
        return "accepted"

    first = tiny_subject()
    first.model.get_submodule("bert.encoder.layer.1.output.dense").register_forward_hook(mix)
    second = tw.load(first.model, first.tokenizer)
    work = {"shared": lambda: attempt(first), "same": lambda: attempt(first), "other": lambda: attempt(second)}
    results = [result for results in together(work, rounds=6).values() for result in results]
    assert len(results) == 18
    assert all("not attention" in result for result in results), results


@pytest.mark.usefixtures("eager_switching")
def test_plain_calls_when_another_thread_captures_then_answer_as_ever() -> None:
    subject = tiny_subject()
    ids = torch.tensor([[1, 5, 28, 3]])
    with torch.no_grad():
        expected = subject.model(input_ids=ids).logits
    capture = alone("bert", SENTENCE)

    def plain() -> Tensor:
        with torch.no_grad():
            return subject.model(input_ids=ids).logits

    results = together({"capture": lambda: subject.capture(SENTENCE), "plain": plain})
    for logits in results["plain"]:
        torch.testing.assert_close(logits, expected)
    for watched in results["capture"]:
        assert_same(watched, capture)


def test_hooks_when_another_thread_meets_them_half_registered_then_do_nothing() -> None:
    """torch registers a hook before it notes that the hook takes keyword arguments; other threads may see it so."""
    subject = tiny_subject()
    before = snapshot(subject.model)
    met: list[int] = []

    def meet(*_: Any) -> None:
        def elsewhere() -> int:
            hooks = [(m, h) for m in subject.model.modules() for h in m._forward_pre_hooks.values()]
            for module, hook in hooks:
                hook(module, ())
            return len(hooks)

        with ThreadPoolExecutor(1) as pool:
            met.append(pool.submit(elsewhere).result())

    undo = subject.model.get_submodule("bert.encoder.layer.1").register_forward_hook(meet)
    capture = subject.capture(SENTENCE)
    undo.remove()
    assert max(met) > 0
    assert_same(capture, alone("bert", SENTENCE))
    assert snapshot(subject.model) == before


@pytest.mark.usefixtures("eager_switching")
def test_capture_when_another_thread_fails_on_the_same_model_then_is_not_disturbed() -> None:
    subject = tiny_subject()
    expected = alone("bert", SENTENCE)
    before = snapshot(subject.model)
    subject.capture(SHORT)

    def fail() -> None:
        def handle(call: Call) -> tuple[Tensor, Tensor | None]:
            raise BoomError

        with pytest.raises(BoomError):
            short.replay(handle)

    short = subject.capture(SHORT)
    results = together({"capture": lambda: subject.capture(SENTENCE), "fail": fail})
    for capture in results["capture"]:
        assert_same(capture, expected)
    assert snapshot(subject.model) == before


def test_tensors_of_a_capture_when_the_model_changes_afterwards_then_stay() -> None:
    subject = tiny_subject()
    capture = subject.capture(SENTENCE)
    before = [tensor.clone() for tensor in numbers(capture)]
    for parameter in subject.model.parameters():
        nn.init.zeros_(parameter)
    for kept, wanted in zip(numbers(capture), before, strict=True):
        assert torch.equal(kept, wanted)
