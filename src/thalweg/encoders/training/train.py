"""From labelled texts to a classifier in a folder, in one short function.

examples → split → tokenizer → model, new or inherited → epochs, from the last checkpoint on → figures → folder
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from thalweg.digests import config_digest, tokenizer_digest, weights_digest
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import Data, LabelledTexts
from thalweg.encoders.training.loop import Score, fit
from thalweg.encoders.training.measure import Asked, figures, gold_of
from thalweg.encoders.training.model import built, configured
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import Training
from thalweg.encoders.training.storage import Folder
from thalweg.encoders.training.teacher import check_teacher, label_names, learning_loss, teach
from thalweg.encoders.training.tokenizer import learn_tokenizer, prepared, token_ids
from thalweg.errors import InputError
from thalweg.models.encode import position_limit
from thalweg.models.load import Subject
from thalweg.version import __version__


def train(
    examples: LabelledTexts,
    out: str | Path,
    plan: TrainingPlan | None = None,
    *,
    validation: LabelledTexts | None = None,
    test: LabelledTexts | None = None,
    init_from: Subject | None = None,
    teacher: Subject | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    config: PreTrainedConfig | None = None,
) -> Training:
    """Train a classifier, and say up to which length its attention is identifiable.

    Without `validation` examples a share of the examples is kept apart to choose the best epoch by. The tokenizer is
    that of `init_from`, or the one that is given, or is learnt from the training texts. `init_from` gives its sizes,
    and its weights where shapes allow; from a `teacher`, a classifier of the same labels, its logits are learnt too.
    Both may be the same model: that makes it more identifiable. A `config` of transformers asks for a classifier of
    another architecture instead, from nothing, with the config's own sizes and dropout.

    The folder `out` ends as a model folder that `load` reads, with `training.json` in it. A run that was killed goes
    on when it is asked for again, and ends with the same weights as if it had not been; one that is finished is only
    read. Needs no GPU and uses none.

    >>> import tempfile, thalweg as tw
    >>> examples = LabelledTexts(["so good", "so bad"] * 20, ["positive", "negative"] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(examples, folder, TrainingPlan(width=16, key_size=4, vocabulary=100, epochs=3))
    ...     tw.load(folder).task, result.labels
    ('classification', ('negative', 'positive'))
    """
    plan = plan or TrainingPlan()
    data = Data.of(examples, validation, test, plan.validation_share, plan.seed)
    plan = plan.settled(init_from is not None, None if init_from is None else position_limit(init_from.model))
    longest = plan.max_length
    assert longest is not None
    labels = _order(data.labels, init_from)
    asked_for = config
    config = configured(plan, labels, init_from, config)
    started = None if init_from is None else built(config, plan.seed, init_from)
    tokenizer = _tokenizer(init_from, tokenizer, longest)
    if teacher is not None:
        check_teacher(teacher, labels)
    store = Folder(Path(out), _configuration(plan, data, labels, init_from, teacher, tokenizer, asked_for))
    with store.alone():
        if store.finished() is not None:
            store.drop_unfinished()
            return Training.load(out)

        if tokenizer is None:
            tokenizer = prepared(learn_tokenizer(data.training.texts, plan.vocabulary), longest)
        pad: Any = tokenizer.pad_token_id
        if started is None:
            config.vocab_size, config.pad_token_id = 1 + max(tokenizer.get_vocab().values()), pad
        model, inherited = started or built(config, plan.seed, None)
        positions = position_limit(model)
        if positions is not None and longest > positions:
            raise InputError(f"max_length was given {longest}, but the model has positions for {positions}")
        parts = {"training": data.training, "validation": data.validation, **({"test": test} if test else {})}
        ids = {name: token_ids(tokenizer, one.texts, longest) for name, one in parts.items()}
        gold = {name: gold_of(one.labels, labels) for name, one in parts.items()}
        taught = None if teacher is None else teach(teacher, data, labels, store)

        def asked(name: str) -> Asked:
            return Asked(predict(model, ids[name], pad), gold[name])

        def validate() -> Score:
            return asked("validation").score()

        loss = learning_loss(gold["training"], taught)
        learner, seconds = fit(model, ids["training"], pad, loss, validate, plan, store, inherited is not None)
        subject = Subject(model, tokenizer, "classification", str(out))
        result = Training(
            folder=str(out),
            figures=figures(
                subject, data.validation.texts, ids["validation"], asked("validation"), asked("test") if test else None
            ),
            teacher=None if taught is None else taught.figures,
            history=tuple(learner.history),
            best_epoch=learner.best_epoch.number,
            seconds=seconds,
            labels=labels,
            counts={
                **{f"{name} examples": len(rows) for name, rows in ids.items()},
                "training texts at the length limit": sum(len(row) >= longest for row in ids["training"]),
                "pieces of the tokenizer": len(tokenizer),
            },
            inherited=inherited,
            configuration=store.configuration,
            provenance={
                "thalweg": __version__,
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
        )
        _save(model, tokenizer, store.path)
        store.finish(result.to_dict())
        return result


def _tokenizer(
    source: Subject | None, given: PreTrainedTokenizerBase | None, longest: int
) -> PreTrainedTokenizerBase | None:
    """The tokenizer of the model to start from, or the one that was given, or none: then one is learnt."""
    if source is None:
        return None if given is None else prepared(given, longest)
    if given is not None:
        raise InputError(
            "a model to start from has its own tokenizer, which its weights belong to: give one of the two"
        )
    if source.tokenizer is None:
        raise InputError(f"{source.name!r} has no tokenizer, without which nothing can be trained from it")
    if len(source.tokenizer) > source.model.config.vocab_size:
        raise InputError(
            f"the tokenizer of {source.name!r} has {len(source.tokenizer)} pieces, its model embeddings for "
            f"{source.model.config.vocab_size} only; is it the model's own?"
        )
    return prepared(source.tokenizer, longest)


def _order(labels: tuple[str, ...], source: Subject | None) -> tuple[str, ...]:
    """The labels in the order of the model to start from where it has the same, so that its last layer fits."""
    own = () if source is None else label_names(source)
    return own if sorted(own) == sorted(labels) else labels


def _configuration(
    plan: TrainingPlan,
    data: Data,
    labels: tuple[str, ...],
    source: Subject | None,
    teacher: Subject | None,
    tokenizer: PreTrainedTokenizerBase | None,
    config: PreTrainedConfig | None,
) -> dict[str, Any]:
    """All that the outcome depends on: choices as they are, examples and weights by a digest."""
    chosen = asdict(plan)
    if config is not None:  # which says these itself
        chosen |= dict.fromkeys(("combine", "key_size", "value_size", "layers", "heads", "width", "dropout"))
    return {
        **chosen,
        "labels": list(labels),
        "training examples": data.training.digest(),
        "validation examples": data.validation.digest(),
        "test examples": None if data.test is None else data.test.digest(),
        "tokenizer": None if tokenizer is None else tokenizer_digest(tokenizer),
        "weights to start from": None if source is None else weights_digest(source.model),
        "teacher": None if teacher is None else weights_digest(teacher.model),
        "architecture": None if config is None else config_digest(config),
    }


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """A folder as transformers reads it, its files readable like any others."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "model.safetensors").chmod(0o644)
    except OSError as error:
        raise InputError(f"cannot write into {str(folder)!r}: {error.strerror or error}") from error
