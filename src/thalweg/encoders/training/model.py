"""The classifier to train: its config, checked before training, and its initial weights, random or inherited."""

from collections.abc import Sequence
from copy import deepcopy

from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from thalweg.encoders import IdentifiableConfig, Inherited, config_like, inherit
from thalweg.encoders.training.loop import preserved_randomness, seed_step
from thalweg.encoders.training.plan import DEFAULT_HEADS, DEFAULT_LAYERS, DEFAULT_WIDTH, TrainingPlan
from thalweg.errors import InputError
from thalweg.models.subject import Subject


def build_config(
    plan: TrainingPlan, labels: Sequence[str], source: Subject | None, custom: PreTrainedConfig | None
) -> PreTrainedConfig:
    """The custom config, or one like the source's, or one from the plan; raises if sizes conflict."""
    names = dict(enumerate(labels))
    indices = {name: index for index, name in names.items()}
    if custom is not None:
        sizes = ("key_size", "value_size", "layers", "heads", "width")
        conflicts = ["init_from"] if source is not None else [name for name in sizes if getattr(plan, name) is not None]
        if conflicts:
            raise InputError(f"{conflicts[0]} cannot be combined with a config, which defines the model; omit it")
        config = deepcopy(custom)
        config.id2label, config.label2id = names, indices
        return config
    if source is not None:
        conflicts = [name for name in ("heads", "width") if getattr(plan, name) is not None]
        if conflicts:
            raise InputError(f"{conflicts[0]} cannot be combined with init_from, whose {conflicts[0]} is used; omit it")
        config = config_like(
            source.model,
            combine=plan.combine,
            key_size=plan.key_size,
            value_size=plan.value_size,
            layers=plan.layers,
            dropout=plan.dropout,
            id2label=names,
        )
        config.label2id = indices
        return config
    width, longest = plan.width or DEFAULT_WIDTH, plan.max_length
    assert longest is not None
    return IdentifiableConfig(
        vocab_size=plan.vocabulary,
        hidden_size=width,
        num_hidden_layers=plan.layers or DEFAULT_LAYERS,
        num_attention_heads=plan.heads or DEFAULT_HEADS,
        key_size=plan.key_size,
        value_size=plan.value_size,
        combine=plan.combine,
        intermediate_size=4 * width,
        max_position_embeddings=longest,
        dropout=plan.dropout,
        id2label=names,
        label2id=indices,
    )


def build_model(
    config: PreTrainedConfig, seed: int, source: Subject | None
) -> tuple[PreTrainedModel, Inherited | None]:
    """The model with its initial weights, which depend on the seed and the source alone, and what it inherited."""
    with preserved_randomness():
        seed_step(seed, -1)
        model = AutoModelForSequenceClassification.from_config(config)
        return model, None if source is None else inherit(model, source.model)
