"""A classifier that another one learns from: its logits for every text, and its own figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from thalweg.capture.run import check_ready
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import Data, listed
from thalweg.encoders.training.loop import Loss
from thalweg.encoders.training.measure import Asked, figures, gold_of
from thalweg.encoders.training.result import Figures
from thalweg.encoders.training.storage import Folder
from thalweg.encoders.training.tokenizer import token_ids
from thalweg.errors import InputError
from thalweg.models.encode import pad_id, position_limit
from thalweg.models.load import Subject


@dataclass(frozen=True, eq=False)
class Taught:
    """What a teacher says to the training texts, and how good it is itself."""

    logits: Float[Tensor, "text label"]
    figures: Figures


def label_names(subject: Subject) -> tuple[str, ...]:
    """The labels of a classifier, in the order of its outputs; none of anything else."""
    names = getattr(subject.model.config, "id2label", None) or {}
    return tuple(names[number] for number in sorted(names)) if subject.task == "classification" else ()


def check_teacher(subject: Subject, labels: Sequence[str]) -> None:
    """Refuse what cannot teach these labels, before anything long begins."""
    if subject.task != "classification":
        raise InputError(f"{subject.name!r} does {subject.task!r}; only a text classifier can be distilled")
    if sorted(label_names(subject)) != sorted(labels):
        raise InputError(
            f"{subject.name!r} has the labels {listed(label_names(subject))}, the examples {listed(labels)}; to learn "
            "from it they must have the same names"
        )
    if subject.tokenizer is None:
        raise InputError(f"{subject.name!r} has no tokenizer, without which it cannot read the texts")
    check_ready(subject.model)


def teach(subject: Subject, data: Data, labels: Sequence[str], store: Folder) -> Taught:
    """Let the teacher read every text once; what it says is kept in the folder."""
    assert subject.tokenizer is not None
    parts = {"training": data.training, "validation": data.validation, **({"test": data.test} if data.test else {})}
    limit = position_limit(subject.model)
    validation = token_ids(subject.tokenizer, data.validation.texts, limit)
    kept = store.read("teacher")
    said = {} if kept is None else kept[0]
    if kept is None:
        order = [label_names(subject).index(label) for label in labels]
        pad = pad_id(subject.model, subject.tokenizer)
        for name, examples in parts.items():
            ids = validation if name == "validation" else token_ids(subject.tokenizer, examples.texts, limit)
            said[name] = predict(subject.model, ids, pad, f"asking the teacher ({name})")[:, order]
        store.keep("teacher", said, {})
    asked = {name: Asked(said[name], gold_of(examples.labels, labels)) for name, examples in parts.items()}
    found = figures(subject, data.validation.texts, validation, asked["validation"], asked.get("test"))
    return Taught(said["training"], found)


def learning_loss(gold: Tensor, taught: Taught | None) -> Loss:
    """Cross-entropy with the labels, and with a teacher the squared distance to its logits besides."""

    def loss(logits: Tensor, rows: list[int]) -> Tensor:
        plain = cross_entropy(logits, gold[rows])
        return plain if taught is None else plain + mse_loss(logits, taught.logits[rows])

    return loss
