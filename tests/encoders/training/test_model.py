"""The classifier to train: its config and its initial weights."""

import pytest
import torch

import thalweg as tw
from tests.encoders.training.corpus import TINY, tiny_bert
from thalweg.encoders import IdentifiableConfig
from thalweg.encoders.training.model import build_config, build_model
from thalweg.encoders.training.plan import TrainingPlan

LABELS = ("bad", "good")


def test_config_when_built_from_a_plan_then_has_its_sizes_and_labels() -> None:
    config = build_config(TINY, LABELS, None, None)
    assert isinstance(config, IdentifiableConfig)
    assert (config.hidden_size, config.num_attention_heads, config.key_size, config.value_size) == (16, 2, 4, 8)
    assert config.max_position_embeddings == 32
    assert (config.id2label, config.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


def test_config_when_custom_then_is_copied_with_the_labels() -> None:
    custom = tiny_bert(labels=("a", "b", "c")).config
    config = build_config(TrainingPlan(), LABELS, None, custom)
    assert config.id2label == {0: "bad", 1: "good"}
    assert custom.id2label == {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize(("plan", "name"), [(TrainingPlan(heads=4), "heads"), (TrainingPlan(width=4), "width")])
def test_config_when_a_size_conflicts_with_the_initial_model_then_is_refused(plan: TrainingPlan, name: str) -> None:
    with pytest.raises(tw.InputError, match=f"{name} .*init_from"):
        build_config(plan, LABELS, tw.load(tiny_bert().eval()), None)


def test_model_when_built_then_depends_on_the_seed_alone() -> None:
    before = torch.get_rng_state()
    config = build_config(TINY, LABELS, None, None)
    first, inherited = build_model(config, 0, None)
    assert inherited is None
    torch.rand(3)
    second, third = build_model(config, 0, None)[0], build_model(config, 1, None)[0]
    weights = [model.get_parameter("classifier.weight") for model in (first, second, third)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    torch.set_rng_state(before)


def test_model_when_it_inherits_then_reports_the_origin_of_its_parts() -> None:
    source = tw.load(tiny_bert().eval())
    config = build_config(TrainingPlan(combine="con"), LABELS, source, None)
    _, inherited = build_model(config, 0, source)
    assert inherited is not None
    assert "layers.0.self_attn" in inherited.exact and "classifier" in inherited.exact
    assert inherited.approximate == inherited.fresh == ()
