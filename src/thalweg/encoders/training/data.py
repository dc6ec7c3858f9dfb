"""Labelled texts, and their split into training, validation and test examples."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.files.tables import is_unicode

SHOWN_LABELS = 8  # in an error


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, each with its label.

    >>> LabelledTexts(["a witty movie", "dull"], ["good", "bad"]).labels
    ('good', 'bad')
    """

    texts: Sequence[str]
    labels: Sequence[str]

    def __post_init__(self) -> None:
        for name in ("texts", "labels"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise InputError(f"{name} must be a list of strings, got {type(values).__name__}")
            object.__setattr__(self, name, tuple(values))
            for fault, rows in (
                ("are not valid Unicode", [row for row, value in enumerate(values) if not is_unicode(value)]),
                ("are empty", [row for row, value in enumerate(values) if not value.strip()]),
            ):
                if rows:
                    raise InputError(f"{len(rows)} {name} {fault}, the first at index {rows[0]}; remove them")
        if len(self.texts) != len(self.labels) or not self.texts:
            raise InputError(
                f"expected as many texts as labels, and at least one, got {len(self.texts)} texts and "
                f"{len(self.labels)} labels"
            )

    def at(self, rows: Sequence[int]) -> "LabelledTexts":
        """Select examples by index."""
        return LabelledTexts([self.texts[row] for row in rows], [self.labels[row] for row in rows])

    def digest(self) -> str:
        """Digest of the examples in their order."""
        return text_digest([*self.texts, *self.labels])


@dataclass(frozen=True)
class LabelledSplits:
    """Training, validation and test examples; every label occurs in training."""

    training: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts | None

    def __post_init__(self) -> None:
        known = dict.fromkeys(self.training.labels)
        if len(known) < 2:
            raise InputError(
                f"a classifier needs at least two labels, but all {len(self.training.texts)} training examples have "
                f"the label {next(iter(known))!r}"
            )
        for name, examples in (("validation", self.validation), ("test", self.test)):
            unseen = [label for label in dict.fromkeys(examples.labels if examples else ()) if label not in known]
            if unseen:
                raise InputError(
                    f"the {name} examples have labels that the training examples lack: {listed(unseen)}; training has "
                    f"{listed(sorted(known))}"
                )

    @staticmethod
    def of(
        examples: LabelledTexts, validation: LabelledTexts | None, test: LabelledTexts | None, share: float, seed: int
    ) -> "LabelledSplits":
        """Use the validation examples, or without them hold out a random share of the examples."""
        if validation is not None:
            return LabelledSplits(examples, validation, test)
        training, validation = split(examples, share, seed)
        return LabelledSplits(training, validation, test)

    @property
    def by_name(self) -> dict[str, LabelledTexts]:
        """The splits that exist, by name."""
        splits = {"training": self.training, "validation": self.validation, "test": self.test}
        return {name: examples for name, examples in splits.items() if examples is not None}

    @property
    def labels(self) -> tuple[str, ...]:
        """The sorted labels, in numerical order if all are integers."""
        labels = set(self.training.labels)
        integers = all(re.fullmatch(r"-?[0-9]+", label) for label in labels)
        return tuple(sorted(labels, key=lambda label: (int(label) if integers else 0, label)))


def split(examples: LabelledTexts, share: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """(training, validation): a random share of each label, with at least one training example of each."""
    rows_by_label: dict[str, list[int]] = {}
    for row, label in enumerate(examples.labels):
        rows_by_label.setdefault(label, []).append(row)
    rng = random.Random(seed)
    held_out: list[int] = []
    for label in sorted(rows_by_label):
        rows = rows_by_label[label]
        rng.shuffle(rows)
        held_out += rows[: min(round(share * len(rows)), len(rows) - 1)]
    if not held_out:
        largest = max(sorted(rows_by_label), key=lambda label: len(rows_by_label[label]))
        if len(rows_by_label[largest]) < 2:
            raise InputError(
                f"a split needs a label with at least two examples, but all {len(examples.texts)} examples have "
                "different labels"
            )
        held_out = rows_by_label[largest][:1]
    excluded = set(held_out)
    kept = [row for row in range(len(examples.texts)) if row not in excluded]
    return examples.at(kept), examples.at(sorted(held_out))


def listed(labels: Sequence[str]) -> str:
    """Labels in an error, the first few of many."""
    rest = len(labels) - SHOWN_LABELS
    return ", ".join(map(repr, labels[:SHOWN_LABELS])) + (f" and {rest} more" if rest > 0 else "")
