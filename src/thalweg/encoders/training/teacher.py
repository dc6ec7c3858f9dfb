"""Knowledge distillation: the logits of a teacher for every text, and its own figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from thalweg.capture.run import check_ready
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledSplits, listed
from thalweg.encoders.training.loop import Loss
from thalweg.encoders.training.measure import Predictions, figures, gold_of
from thalweg.encoders.training.result import ClassifierFigures
from thalweg.encoders.training.tokenizer import token_ids
from thalweg.errors import InputError
from thalweg.files.run_folder import RunFolder
from thalweg.models.encode import pad_id, position_limit
from thalweg.models.subject import Subject

TEACHER = "teacher.safetensors"


@dataclass(frozen=True, eq=False)
class TeacherOutput:
    """The logits of a teacher for the training texts, and its figures."""

    logits: Float[Tensor, "text label"]
    figures: ClassifierFigures


def label_names(subject: Subject) -> tuple[str, ...]:
    """The labels of a classifier in the order of its outputs; empty for other models."""
    names = getattr(subject.model.config, "id2label", None) or {}
    return tuple(names[number] for number in sorted(names)) if subject.task == "classification" else ()


def check_teacher(subject: Subject, labels: Sequence[str]) -> None:
    """Raise if a model cannot teach these labels."""
    if subject.task != "classification":
        raise InputError(f"a teacher must be a text classifier, but the task of {subject.name!r} is {subject.task!r}")
    if sorted(label_names(subject)) != sorted(labels):
        raise InputError(
            f"the teacher must have the labels of the examples, {listed(labels)}, but {subject.name!r} has "
            f"{listed(label_names(subject))}"
        )
    if subject.tokenizer is None:
        raise InputError(f"a teacher needs a tokenizer, but {subject.name!r} has none")
    check_ready(subject.model)


def run_teacher(subject: Subject, splits: LabelledSplits, labels: Sequence[str], run: RunFolder) -> TeacherOutput:
    """Run the teacher once on every text; its logits are stored in the run folder."""
    assert subject.tokenizer is not None
    limit = position_limit(subject.model)
    validation_ids = token_ids(subject.tokenizer, splits.validation.texts, limit)
    stored = run.read_tensors(TEACHER)
    if stored is not None:
        logits = stored[0]
    else:
        logits = {}
        order = [label_names(subject).index(label) for label in labels]
        pad = pad_id(subject.model, subject.tokenizer)
        for name, examples in splits.by_name.items():
            ids = validation_ids if name == "validation" else token_ids(subject.tokenizer, examples.texts, limit)
            logits[name] = predict(subject.model, ids, pad, f"running the teacher ({name})")[:, order]
        run.write_tensors(TEACHER, logits, {})
    predictions = {
        name: Predictions(logits[name], gold_of(examples.labels, labels)) for name, examples in splits.by_name.items()
    }
    measured = figures(
        subject, splits.validation.texts, validation_ids, predictions["validation"], predictions.get("test")
    )
    return TeacherOutput(logits["training"], measured)


def training_loss(gold: Tensor, teacher: TeacherOutput | None) -> Loss:
    """Cross-entropy with the gold labels, plus with a teacher the squared distance to its logits."""

    def loss(logits: Tensor, rows: list[int]) -> Tensor:
        supervised = cross_entropy(logits, gold[rows])
        return supervised if teacher is None else supervised + mse_loss(logits, teacher.logits[rows])

    return loss
