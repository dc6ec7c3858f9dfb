"""From labelled texts to a classifier in a folder.

examples → splits → tokenizer → model, new or inherited → epochs, from the last checkpoint on → figures → folder
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from thalweg.digests import config_digest, tokenizer_digest
from thalweg.encoders.inherit import Inherited
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledSplits, LabelledTexts
from thalweg.encoders.training.loop import CHECKPOINT, DivergedError, ValidationScore, fit
from thalweg.encoders.training.measure import Predictions, figures, gold_of
from thalweg.encoders.training.model import build_config, build_model
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import KIND, RESULT, Training, is_finished, write_training
from thalweg.encoders.training.teacher import TEACHER, check_teacher, label_names, run_teacher, training_loss
from thalweg.encoders.training.tokenizer import learn_tokenizer, prepare_tokenizer, token_ids
from thalweg.errors import InputError
from thalweg.files.run_folder import RunFolder, files_below, open_run
from thalweg.models.encode import position_limit
from thalweg.models.subject import Subject
from thalweg.version import __version__

ARCHITECTURE = ("combine", "key_size", "value_size", "layers", "heads", "width", "dropout")  # options a config replaces


@torch.inference_mode(False)  # also if the caller disabled gradients
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
    """Train a classifier, and measure up to which length its attention is identifiable.

    Without `validation` examples, a share of the examples is held out to choose the best epoch. The tokenizer is that
    of `init_from`, or `tokenizer`, or is learnt from the training texts. `init_from` provides sizes, and weights where
    shapes allow. With a `teacher`, a classifier with the same labels, the model also learns the teacher's logits. Both
    may be the same model, to make it more identifiable. A transformers `config` trains a classifier of another
    architecture from scratch, with the config's own sizes and dropout.

    The folder `out` becomes a model folder for `load`, with the result in `training.json`. An interrupted run resumes
    when called again and ends with the same weights; a finished one is only read. Runs on the CPU.

    >>> import tempfile, thalweg as tw
    >>> examples = LabelledTexts(["so good", "so bad"] * 20, ["positive", "negative"] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(examples, folder, TrainingPlan(width=16, key_size=4, vocabulary=100, epochs=3))
    ...     tw.load(folder).task, result.labels
    ('classification', ('negative', 'positive'))
    """
    plan = plan or TrainingPlan()
    splits = LabelledSplits.of(examples, validation, test, plan.validation_share, plan.seed)
    plan = plan.settled(init_from is not None, None if init_from is None else position_limit(init_from.model))
    assert plan.max_length is not None
    labels = _label_order(splits.labels, init_from)
    model_config = build_config(plan, labels, init_from, config)
    start = None if init_from is None else build_model(model_config, plan.seed, init_from)
    tokenizer = _tokenizer(init_from, tokenizer, plan.max_length)
    if teacher is not None:
        check_teacher(teacher, labels)
    identity = _identity(plan, splits, labels, init_from, teacher, tokenizer, config)
    provenance = {"thalweg": __version__, "transformers": transformers.__version__, "torch": torch.__version__}
    with open_run(Path(out), KIND, identity, provenance) as run, _freed_on_divergence(run):
        if not is_finished(run):
            run.remove(RESULT)  # of a damaged model
            prepared = _prepare(plan, splits, model_config, start, tokenizer)
            training = _train(str(out), plan, splits, labels, prepared, teacher, identity, run)
            write_training(run, training, _save(prepared.model, prepared.tokenizer, run))
        run.remove(CHECKPOINT, TEACHER)
        return Training.load(out)


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model with its initial weights, its tokenizer, and the token ids of each split."""

    model: PreTrainedModel
    inherited: Inherited | None
    tokenizer: PreTrainedTokenizerBase
    ids: dict[str, list[list[int]]]

    @property
    def pad(self) -> int:
        pad: Any = self.tokenizer.pad_token_id
        return pad


def _prepare(
    plan: TrainingPlan,
    splits: LabelledSplits,
    config: PreTrainedConfig,
    start: tuple[PreTrainedModel, Inherited | None] | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> PreparedModel:
    """Learn a tokenizer and build the model unless they are inherited, and encode all texts."""
    longest = plan.max_length
    assert longest is not None
    if tokenizer is None:
        tokenizer = prepare_tokenizer(learn_tokenizer(splits.training.texts, plan.vocabulary), longest)
    if start is None:
        config.vocab_size = 1 + max(tokenizer.get_vocab().values())
        config.pad_token_id = tokenizer.pad_token_id
    model, inherited = start or build_model(config, plan.seed, None)
    positions = position_limit(model)
    if positions is not None and longest > positions:
        raise InputError(f"max_length must be at most {positions}, the positions of the model, got {longest}")
    ids = {name: token_ids(tokenizer, examples.texts, longest) for name, examples in splits.by_name.items()}
    return PreparedModel(model, inherited, tokenizer, ids)


def _train(
    out: str,
    plan: TrainingPlan,
    splits: LabelledSplits,
    labels: tuple[str, ...],
    prepared: PreparedModel,
    teacher: Subject | None,
    identity: dict[str, Any],
    run: RunFolder,
) -> Training:
    """Train from the last checkpoint on, and measure the model."""
    assert plan.max_length is not None
    model, tokenizer, ids = prepared.model, prepared.tokenizer, prepared.ids
    gold = {name: gold_of(examples.labels, labels) for name, examples in splits.by_name.items()}
    taught = None if teacher is None else run_teacher(teacher, splits, labels, run)

    def predictions(name: str) -> Predictions:
        return Predictions(predict(model, ids[name], prepared.pad), gold[name])

    def validate() -> ValidationScore:
        return predictions("validation").score()

    loss, inherited = training_loss(gold["training"], taught), prepared.inherited
    state, seconds = fit(model, ids["training"], prepared.pad, loss, validate, plan, run, inherited is not None)
    subject = Subject(model, tokenizer, "classification", out)
    test = predictions("test") if splits.test else None
    measured = figures(subject, splits.validation.texts, ids["validation"], predictions("validation"), test)
    return Training(
        folder=out,
        figures=measured,
        teacher=None if taught is None else taught.figures,
        history=tuple(state.history),
        best_epoch=state.best_epoch.number,
        seconds=seconds,
        labels=labels,
        counts={
            **{f"{name} examples": len(rows) for name, rows in ids.items()},
            "training texts at the length limit": sum(len(row) >= plan.max_length for row in ids["training"]),
            "vocabulary": len(tokenizer),
        },
        inherited=inherited,
        configuration=identity,
        provenance=run.header.provenance,
    )


@contextmanager
def _freed_on_divergence(run: RunFolder) -> Iterator[None]:
    """Free the folder for another run if training diverged, because resuming would diverge again."""
    try:
        yield
    except DivergedError:
        run.remove(CHECKPOINT, TEACHER)
        raise


def _tokenizer(
    source: Subject | None, tokenizer: PreTrainedTokenizerBase | None, longest: int
) -> PreTrainedTokenizerBase | None:
    """The tokenizer of the initial model, or the supplied one, or None if one is to be learnt."""
    if source is None:
        return None if tokenizer is None else prepare_tokenizer(tokenizer, longest)
    if tokenizer is not None:
        raise InputError("tokenizer cannot be combined with init_from, whose weights need its own tokenizer; omit it")
    if source.tokenizer is None:
        raise InputError(f"init_from needs a tokenizer, but {source.name!r} has none")
    if len(source.tokenizer) > source.model.config.vocab_size:
        raise InputError(
            f"the tokenizer of {source.name!r} has {len(source.tokenizer)} pieces, but the model has embeddings for "
            f"{source.model.config.vocab_size}; use the model's own tokenizer"
        )
    return prepare_tokenizer(source.tokenizer, longest)


def _label_order(labels: tuple[str, ...], source: Subject | None) -> tuple[str, ...]:
    """The labels in the order of the initial model if it has the same ones, so that its classifier can be inherited."""
    own = () if source is None else label_names(source)
    return own if sorted(own) == sorted(labels) else labels


def _identity(
    plan: TrainingPlan,
    splits: LabelledSplits,
    labels: tuple[str, ...],
    source: Subject | None,
    teacher: Subject | None,
    tokenizer: PreTrainedTokenizerBase | None,
    config: PreTrainedConfig | None,
) -> dict[str, Any]:
    """Everything the result depends on: options, and digests of examples, models and tokenizer."""
    options = asdict(plan)
    if config is not None:
        options |= dict.fromkeys(ARCHITECTURE)
    models = {"init_from": source, "teacher": teacher}
    return {
        **options,
        "labels": list(labels),
        **{f"{name} examples": examples.digest() for name, examples in splits.by_name.items()},
        "tokenizer": None if tokenizer is None else tokenizer_digest(tokenizer),
        "config": None if config is None else config_digest(config),
        **{
            f"{role} {part}": digest
            for role, subject in models.items()
            if subject is not None
            for part, digest in subject.identity().items()
        },
    }


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, run: RunFolder) -> list[str]:
    """Write model and tokenizer to the run folder, for transformers to load; returns the names of the files."""
    with run.draft_files() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return files_below(folder)
