"""The chain of blocks is proved by intervention: what goes around it, or mixes tokens, is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.families import BY_NAME
from thalweg.capture.record import Capture
from thalweg.models.subject import Subject

CHAINED = ("attention_rollout", "attention_flow", "norm_based", "alti")
Hook = Callable[[Any, Any, Tensor], Tensor]


def bert() -> Any:
    return BY_NAME["bert"].build()


def after(name: str, hook: Hook) -> Any:
    """A BERT with a hook that changes what a module returns."""
    model = bert()
    model.get_submodule(name).register_forward_hook(hook)
    return model


def captured(subject: Subject, length: int = 12, **options: Any) -> Capture:
    capture = subject.capture(BY_NAME["bert"].inputs(1, length), **options)
    assert isinstance(capture, Capture)
    return capture


def to_first(source: int, where: Callable[[Tensor], bool] = lambda _: True) -> Hook:
    """Give the first position something of another one."""

    def hook(_: Any, __: Any, output: Tensor) -> Tensor:
        if output.shape[1] <= source or not where(output):
            return output
        changed = output.clone()
        changed[:, 0] += output.detach()[:, source]
        return changed

    return hook


MLP = "bert.encoder.layer.1.output.dense"
LIES: dict[str, Callable[[], Any]] = {
    "mean in the MLP": lambda: after(MLP, lambda _, __, x: x + x.mean(1, keepdim=True)),
    "little of the mean in the MLP": lambda: after(MLP, lambda _, __, x: x + 0.001 * x.mean(1, keepdim=True)),
    "neighbours through detach": lambda: after(MLP, lambda _, __, x: x + x.detach().roll(1, 1)),
    "neighbours through numpy": lambda: after(MLP, lambda _, __, x: x + torch.from_numpy(x.numpy()).roll(1, 1)),
    "cumsum in the MLP": lambda: after(MLP, lambda _, __, x: x + 0.1 * x.cumsum(1)),
    "one token to the first": lambda: after(MLP, to_first(5)),
    "shifted values": lambda: after("bert.encoder.layer.1.attention.self.value", lambda _, __, x: x.roll(1, 1)),
    "shifted embeddings": lambda: after("bert.embeddings", lambda _, __, x: x + 0.5 * x.roll(1, 1)),
    "noise": lambda: after(MLP, lambda _, __, x: x + 0.01 * torch.randn_like(x)),
}


@pytest.mark.parametrize("lie", LIES, ids=lambda name: name.replace(" ", "_"))
def test_model_when_tokens_mix_outside_of_attention_then_every_chained_method_refuses_it(lie: str) -> None:
    subject = tw.load(LIES[lie]())
    for method in CHAINED:
        with pytest.raises(
            tw.ProofError, match=r"moved when only other positions|tokens are mixed|differed between two equal passes"
        ):
            tw.explain(subject, BY_NAME["bert"].inputs(1, 12), method)


def test_model_when_a_layer_starts_again_from_the_embeddings_then_is_refused() -> None:
    model, kept = bert(), []
    model.get_submodule("bert.embeddings").register_forward_hook(lambda _, __, x: kept.append(x))
    model.get_submodule("bert.encoder.layer.1").register_forward_hook(lambda _, __, x: kept[-1])
    with pytest.raises(tw.ProofError):
        captured(tw.load(model))


def test_model_when_the_head_reads_a_lower_layer_then_is_refused() -> None:
    model, kept = bert(), []
    model.get_submodule("bert.encoder.layer.0").register_forward_hook(lambda _, __, x: kept.append(x))
    model.get_submodule("bert.pooler").register_forward_hook(lambda _, __, x: x + kept[-1][:, 0])
    with pytest.raises(tw.ProofError, match="goes around the chain of blocks"):
        captured(tw.load(model))


@pytest.mark.parametrize("seed", range(8))
def test_single_pass_when_one_token_reaches_one_position_in_long_texts_only_then_sees_it(seed: int) -> None:
    """The audit at learning cannot see it, so that the pass itself has to: at any seed."""
    subject = tw.load(after(MLP, to_first(40)))
    captured(subject, 12)
    ids = torch.randint(5, 99, (1, 50), generator=torch.Generator().manual_seed(seed))
    with pytest.raises(tw.ProofError, match="moved when only other positions were changed"):
        subject.capture({"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_examples_of_a_batch_when_they_mix_then_are_refused() -> None:
    subject = tw.load(after(MLP, lambda _, __, x: x + 0.1 * x.mean(0, keepdim=True)))
    captured(subject)  # alone there is nothing to mix with
    with pytest.raises(tw.ProofError, match="moved when only other positions were changed"):
        subject.capture(BY_NAME["bert"].inputs(3, 9))


def test_hook_when_added_after_the_first_capture_then_is_noticed() -> None:
    subject = tw.load(bert())
    captured(subject)
    handle = subject.model.get_submodule(MLP).register_forward_hook(lambda _, __, x: x + x.roll(1, 1))
    for level in ("quick", "default"):
        with pytest.raises(tw.ProofError):
            captured(subject, level=level)
    handle.remove()
    captured(subject)


@pytest.mark.parametrize("lie", [False, True], ids=["honest", "lying"])
@pytest.mark.parametrize("level", ["default", "audit"])
def test_position_dependent_layer_when_it_mixes_nothing_then_is_accepted(lie: bool, level: Any) -> None:
    def add_positions(_: Any, __: Any, output: Tensor) -> Tensor:
        places = torch.linspace(0, 1, output.shape[1])[:, None].expand(output.shape[1:])
        return output + places + (0.1 * output.mean(1, keepdim=True) if lie else 0.0)

    subject = tw.load(after(MLP, add_positions))
    if lie:
        with pytest.raises(tw.ProofError):
            captured(subject, level=level)
    else:
        assert all(block.chain_error is not None for block in captured(subject, 30, level=level).blocks)


def test_receipt_when_the_capture_was_quick_then_has_no_chain_of_this_pass() -> None:
    subject, text = tw.load(bert()), BY_NAME["bert"].inputs(1, 9)
    proved = tw.explain(subject, text).receipt
    assert proved.checks["chain"].worst <= proved.checks["chain"].allowed
    assert "chain" in proved.learnt[0]
    quick = tw.explain(subject, captured(subject, level="quick")).receipt
    assert "chain" not in quick.checks
    assert "chain" in quick.learnt[0]


def test_level_when_unknown_then_the_error_lists_the_levels() -> None:
    with pytest.raises(tw.InputError, match=r"quick, default, audit.*'deep'"):
        captured(tw.load(bert()), level="deep")


def test_logits_when_positions_count_differently_then_there_is_no_single_prediction() -> None:
    family = BY_NAME["dinov2"]  # class token and mean of the patches side by side
    subject = tw.load(family.build())
    with pytest.raises(tw.InputError, match="weighs several positions differently"):
        tw.explain(subject, family.inputs(1, 0), target="prediction")
