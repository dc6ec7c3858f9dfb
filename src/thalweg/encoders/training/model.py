"""The classifier that is trained: its sizes, checked first, and its weights, new or taken from another model."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict

from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from thalweg.encoders.training.loop import same_randomness, seed_step
from thalweg.encoders.training.plan import HEADS, LAYERS, WIDTH, TrainingPlan
from thalweg.errors import InputError
from thalweg.models.load import Subject

Taken = dict[str, tuple[str, ...]]


def configured(
    plan: TrainingPlan, labels: Sequence[str], source: Subject | None, given: PreTrainedConfig | None
) -> PreTrainedConfig:
    """The sizes of the model; those that do not fit together are an error here, before anything long begins."""
    from thalweg.encoders import IdentifiableConfig, config_like

    names = dict(enumerate(labels))
    numbers = {name: number for number, name in names.items()}
    if given is not None:
        sizes = ("key_size", "value_size", "layers", "heads", "width")
        fixed = ["init_from"] if source is not None else [name for name in sizes if getattr(plan, name) is not None]
        if fixed:
            raise InputError(f"{fixed[0]} was given, but the config says what the model is: leave it out")
        config = deepcopy(given)
        config.id2label, config.label2id = names, numbers
        return config
    if source is not None:
        fixed = [name for name in ("heads", "width") if getattr(plan, name) is not None]
        if fixed:
            raise InputError(f"{fixed[0]} was given, but it is that of the model to start from: leave it out")
        config = config_like(
            source.model,
            combine=plan.combine,
            key_size=plan.key_size,
            value_size=plan.value_size,
            layers=plan.layers,
            dropout=plan.dropout,
            id2label=names,
        )
        config.label2id = numbers
        return config
    width, longest = plan.width or WIDTH, plan.max_length
    assert longest is not None
    return IdentifiableConfig(
        vocab_size=plan.vocabulary,
        hidden_size=width,
        num_hidden_layers=plan.layers or LAYERS,
        num_attention_heads=plan.heads or HEADS,
        key_size=plan.key_size,
        value_size=plan.value_size,
        combine=plan.combine,
        intermediate_size=4 * width,
        max_position_embeddings=longest,
        dropout=plan.dropout,
        id2label=names,
        label2id=numbers,
    )


def built(config: PreTrainedConfig, seed: int, source: Subject | None) -> tuple[PreTrainedModel, Taken | None]:
    """The model with its first weights, which depend on the seed alone, and what of them comes from another model."""
    from thalweg.encoders import inherit

    with same_randomness():
        seed_step(seed, -1)
        model = AutoModelForSequenceClassification.from_config(config)
        taken = None if source is None else inherit(model, source.model)
    return model, None if taken is None else {name: tuple(names) for name, names in asdict(taken).items()}
