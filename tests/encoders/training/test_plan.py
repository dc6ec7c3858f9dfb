"""Options of a training run: validated at once, with defaults that depend on the initial model."""

import pytest

import thalweg as tw
from thalweg.encoders.training.plan import TrainingPlan


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"patience": 0},
        {"validation_share": 0.0},
        {"validation_share": 1.0},
        {"rate": 0.0},
        {"rate": float("inf")},
        {"rate": float("nan")},
        {"dropout": 1.0},
        {"max_length": 7},
        {"vocabulary": 3},
        {"batch_tokens": 0},
        {"layers": -1},
        {"seed": 0.5},
        {"epochs": True},
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_option_when_out_of_range_then_is_refused_with_its_value(wrong: dict) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(tw.InputError, match=f"^{name} must be .*, got {value!r}$"):
        TrainingPlan(**wrong)


def test_plan_when_settled_then_length_and_rate_follow_from_the_initial_model() -> None:
    fresh, inherited = TrainingPlan().settled(False, None), TrainingPlan().settled(True, 64)
    assert (fresh.max_length, fresh.rate) == (512, 1e-3)
    assert (inherited.max_length, inherited.rate) == (64, 1e-4)
    assert TrainingPlan(max_length=32, rate=0.5).settled(True, 64) == TrainingPlan(max_length=32, rate=0.5)
    with pytest.raises(tw.InputError, match=r"max_length .*64.*got 65"):
        TrainingPlan(max_length=65).settled(True, 64)
