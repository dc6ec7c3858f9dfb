"""Labelled texts, and which of them a model learns from, is chosen by, and is tested on."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.files.tables import is_unicode

SHOWN = 8  # labels that an error names


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
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(one, str) for one in given):
                raise InputError(f"{name} were given as {type(given).__name__}; expected a list of texts")
            object.__setattr__(self, name, tuple(given))
            odd = [place for place, one in enumerate(given) if not is_unicode(one)]
            if odd:
                raise InputError(f"{len(odd)} {name} are not valid Unicode, the first at place {odd[0]}")
            empty = [place for place, one in enumerate(given) if not one.strip()]
            if empty:
                raise InputError(f"{len(empty)} {name} are empty, the first at place {empty[0]}: leave them out")
        if len(self.texts) != len(self.labels) or not self.texts:
            raise InputError(f"{len(self.texts)} texts and {len(self.labels)} labels were given; expected one for each")

    def at(self, places: Sequence[int]) -> "LabelledTexts":
        return LabelledTexts([self.texts[place] for place in places], [self.labels[place] for place in places])

    def digest(self) -> str:
        """The same for the same examples in the same order."""
        return text_digest([*self.texts, *self.labels])


@dataclass(frozen=True)
class Data:
    """Examples by what they are for; every label of any of them is learnt."""

    training: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts | None

    def __post_init__(self) -> None:
        known = dict.fromkeys(self.training.labels)
        if len(known) < 2:
            raise InputError(
                f"all {len(self.training.texts)} training examples have the label {next(iter(known))!r}; a classifier "
                "needs two labels or more"
            )
        for name, examples in (("validation", self.validation), ("test", self.test)):
            unseen = [label for label in dict.fromkeys(examples.labels if examples else ()) if label not in known]
            if unseen:
                raise InputError(
                    f"the {name} examples have labels that training has not: {listed(unseen)}; training has "
                    f"{listed(sorted(known))}"
                )

    @staticmethod
    def of(
        examples: LabelledTexts, validation: LabelledTexts | None, test: LabelledTexts | None, share: float, seed: int
    ) -> "Data":
        """As they were given; without validation examples, a share of the examples is kept apart for it by lot."""
        if validation is not None:
            return Data(examples, validation, test)
        training, validation = split(examples, share, seed)
        return Data(training, validation, test)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in order: as numbers where all are whole numbers."""
        found = set(self.training.labels)
        whole = all(re.fullmatch(r"-?[0-9]+", label) for label in found)
        return tuple(sorted(found, key=lambda label: (int(label) if whole else 0, label)))


def split(examples: LabelledTexts, share: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """(training, validation): of each label its share by lot, and at least one example of each to learn from."""
    places: dict[str, list[int]] = {}
    for place, label in enumerate(examples.labels):
        places.setdefault(label, []).append(place)
    chance = random.Random(seed)
    held: list[int] = []
    for label in sorted(places):
        chance.shuffle(places[label])
        held += places[label][: min(round(share * len(places[label])), len(places[label]) - 1)]
    if not held:
        largest = max(sorted(places), key=lambda label: len(places[label]))
        if len(places[largest]) < 2:
            raise InputError(
                f"{len(examples.texts)} examples were given, none of them with the same label; expected enough of each "
                "to learn from some and choose by others"
            )
        held = places[largest][:1]
    apart = set(held)
    kept = [place for place in range(len(examples.texts)) if place not in apart]
    return examples.at(kept), examples.at(sorted(held))


def listed(labels: Sequence[str]) -> str:
    """Labels as an error names them."""
    return ", ".join(map(repr, labels[:SHOWN])) + (f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else "")
