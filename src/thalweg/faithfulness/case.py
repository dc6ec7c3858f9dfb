"""One example as every method and every metric sees it: the pass, the answer, and which tokens may be taken away."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.capture.record import Capture
from thalweg.capture.target import Target, find_target
from thalweg.errors import InputError
from thalweg.faithfulness.data import BenchExample, Spans
from thalweg.faithfulness.operators import Blanks, Operator, Reading, without
from thalweg.faithfulness.scoring import Answer, Scorer
from thalweg.models.encode import encode
from thalweg.models.load import Subject

TASKS = ("classification", "causal_lm", "masked_lm")


@dataclass(frozen=True, eq=False)
class Case:
    """An example on a model.

    `movable` are the positions that are ranked and taken away: no special tokens, and of a language model not the
    position that the answer is read from. `shuffled` is the same example on the model with its weights in disorder,
    `seeds` on other seeds of the model, where these were asked for: made when a metric wants them, so that what is
    wrong with them is that metric's error alone.
    """

    subject: Subject
    example: BenchExample
    number: int
    seed: int
    capture: Capture
    target: Target
    answer: Answer
    whole: Reading
    movable: tuple[int, ...]
    blanks: Blanks
    scorer: Scorer
    shuffled: "Callable[[], Case] | None" = None
    seeds: "tuple[Callable[[], Case], ...]" = ()
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)  # what all methods share, such as bounds

    @property
    def prediction(self) -> str:
        return self.subject.output_name(self.answer.output) or ""

    @property
    def pieces(self) -> tuple[str, ...]:
        return tuple(self.capture.tokens.pieces[place] for place in self.movable)

    def without(self, positions: "list[int] | tuple[int, ...]", operator: Operator) -> Reading:
        return without(self.whole, positions, operator, self.blanks)

    @property
    def marked(self) -> set[int]:
        """The movable tokens that people marked; none where they marked all, or nothing is known."""
        spans = self.example.rationale
        found = set(self.touched(spans)) if spans else set()
        return set() if len(found) == len(self.movable) else found

    def touched(self, spans: Spans) -> list[int]:
        """The movable tokens that share a character with one of the spans."""
        places = self.capture.tokens.spans
        return [
            place
            for place in self.movable
            if (own := places[place]) and any(own[0] < end and start < own[1] for start, end in spans)
        ]

    def options(self, known: Mapping[str, Any]) -> dict[str, int]:
        """The answer as options of a method that can be asked for another one than the model's choice."""
        if self.example.good is None or self.subject.task == "classification":
            return {}
        asked = {"output": self.answer.output, "foil": self.answer.foil}
        return {name: value for name, value in asked.items() if name in known and value is not None}


def check_subject(subject: Subject) -> None:
    """Refuse a model that has no single answer whose fall could be measured."""
    if subject.tokenizer is None:
        raise InputError(
            f"{subject.name!r} was loaded without a tokenizer: give it one, since texts are ranked by token"
        )
    if subject.task not in TASKS:
        raise InputError(
            f"{subject.name!r} does {subject.task!r}; faithfulness is measured on classifiers, causal and masked "
            "language models"
        )
    config = subject.model.config
    several = getattr(config, "problem_type", None) not in ("regression", "multi_label_classification")
    if subject.task == "classification" and not (several and (config.num_labels or 0) > 1):
        raise _no_choice(subject)


def _no_choice(subject: Subject) -> InputError:
    return InputError(
        f"the outputs of {subject.name!r} are no probabilities of one choice among several (a single logit, a "
        "regression or several labels at once): how far an answer falls is not defined"
    )


def case_of(subject: Subject, example: BenchExample, number: int = 0, seed: int = 0, limit: int | None = None) -> Case:
    """Capture the example and settle what is asked; `limit` refuses longer texts."""
    check_subject(subject)
    assert subject.tokenizer is not None
    asks = example.good is not None and subject.task != "classification"
    text = example.text
    if asks and subject.task == "masked_lm":
        text = f"{text} {subject.tokenizer.mask_token} {example.rest}".rstrip()
    capture = subject.capture(text)
    if limit is not None and len(capture.tokens) > limit:
        raise InputError(f"the text has {len(capture.tokens)} tokens, more than the {limit} that were allowed")
    target = find_target(capture, "prediction")
    assert capture.logits is not None
    if capture.logits.shape[-1] < 2:
        raise _no_choice(subject)
    reads = capture.logits.dim() == 2  # one row of logits for each position
    if reads and len(target.positions) > 1:
        raise InputError(f"the text has {len(target.positions)} masks; one answer is explained at a time")
    read = next(iter(target.positions), None) if reads else None
    output = target.output if not asks else _continuation(subject, example, example.good)
    foil = None if not asks or example.bad is None else _continuation(subject, example, example.bad)
    if output is None or output == foil:
        raise InputError(f"{example.good!r} and {example.bad!r} begin with the same token: neither can be preferred")
    tokens = capture.tokens
    movable = tuple(p for p in range(len(tokens)) if not tokens.special[p] and p != read)
    if not movable:
        raise InputError("no token of this text can be taken away")
    blanks = Blanks.of(subject.model, subject.tokenizer)
    types = encode(subject.model, subject.tokenizer, text).inputs.get("token_type_ids")
    answer = Answer(output, foil)
    return Case(
        subject=subject,
        example=example,
        number=number,
        seed=seed,
        capture=capture,
        target=Target(target.positions, output),
        answer=answer,
        whole=Reading(
            tuple(int(i) for i in tokens.ids if i is not None),
            None if types is None else tuple(types[0].tolist()),
            (),
            read,
        ),
        movable=movable,
        blanks=blanks,
        scorer=Scorer(subject.model, answer, blanks.pad),
    )


def _continuation(subject: Subject, example: BenchExample, word: str | None) -> int:
    """The token that a text goes on with when the word follows it: the first, and of a masked model the only one."""
    assert subject.tokenizer is not None
    before = subject.tokenizer(example.text, add_special_tokens=False)["input_ids"]
    both = subject.tokenizer(f"{example.text} {word}", add_special_tokens=False)["input_ids"]
    more = len(both) - len(before)
    if more < 1 or both[: len(before)] != before or (subject.task == "masked_lm" and more > 1):
        raise InputError(f"{word!r} is no single token of this tokenizer behind {example.text[-20:]!r}")
    return int(both[len(before)])


@dataclass(frozen=True, eq=False)
class Ranked:
    """A method's scores for a case. `again` asks the same method about the same example on another model."""

    case: Case
    scores: Float[np.ndarray, " token"]
    again: "Callable[[Case], Ranked]" = field(repr=False)

    @cached_property
    def order(self) -> list[int]:
        """Movable positions, the largest score first; a score below zero speaks against the answer and comes late.

        Equal scores stay in the order of the text.
        """
        own = self.movable_scores
        return [self.case.movable[i] for i in np.argsort(-own, kind="stable")]

    @property
    def movable_scores(self) -> Float[np.ndarray, " movable"]:
        return self.scores[list(self.case.movable)]
