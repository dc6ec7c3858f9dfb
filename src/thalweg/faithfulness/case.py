"""A case: one example captured on one model, with its answer and the tokens that can be removed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.capture.record import Blanks, Capture
from thalweg.capture.target import Target, find_target
from thalweg.decompose.answers import Answer
from thalweg.decompose.edits import Operator, TokenSequence, original_sequence, remove_tokens
from thalweg.errors import InputError
from thalweg.faithfulness.examples import BenchExample, Spans
from thalweg.faithfulness.scoring import Scorer
from thalweg.models.subject import Subject

SUPPORTED_TASKS = ("classification", "causal_lm", "masked_lm")


@dataclass(frozen=True, eq=False)
class Case:
    """An example on a model.

    `removable` are the positions that are ranked and removed: not special tokens, nor the position that a language
    model reads its answer from. `shuffled` makes the same case on the model with shuffled weights, `other_seeds` on
    other seeds of the model. They are called by the metrics that need them, so that a failure is that metric's error
    alone. `cache` holds results that methods and metrics share.
    """

    subject: Subject
    example: BenchExample
    number: int
    seed: int
    capture: Capture
    target: Target
    answer: Answer
    original: TokenSequence
    removable: tuple[int, ...]
    blanks: Blanks
    scorer: Scorer
    shuffled: "Callable[[], Case] | None" = None
    other_seeds: "tuple[Callable[[], Case], ...]" = ()
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def prediction(self) -> str:
        """The explained output: a label or a token."""
        return self.subject.output_name(self.answer.output) or ""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The removable tokens."""
        return tuple(self.capture.tokens.pieces[position] for position in self.removable)

    @property
    def rationale(self) -> set[int]:
        """The removable tokens that people marked; empty if they marked all of them or none."""
        spans = self.example.rationale
        marked = set(self.positions_in(spans)) if spans else set()
        return set() if len(marked) == len(self.removable) else marked

    def without(self, positions: "list[int] | tuple[int, ...]", operator: Operator) -> TokenSequence:
        """The input without these positions."""
        return remove_tokens(self.original, positions, operator, self.blanks)

    def positions_in(self, spans: Spans) -> list[int]:
        """The removable tokens that overlap one of the spans."""
        own_spans = self.capture.tokens.spans
        return [
            position
            for position in self.removable
            if (own := own_spans[position]) and any(own[0] < end and start < own[1] for start, end in spans)
        ]

    def logit_params(self) -> dict[str, int]:
        """The explained output and foil as parameters of a method; empty if the model's own choice is explained."""
        if self.example.good is None or self.subject.task == "classification":
            return {}
        foil = {} if self.answer.foil is None else {"foil": self.answer.foil}
        return {"output": self.answer.output, **foil}


@dataclass(frozen=True, eq=False)
class Ranking:
    """The scores of one method for one case.

    `rank_again` applies the same method to another case. `sum_error` is the relative error of scores that should sum
    to a known value, None if the method makes no such promise.
    """

    case: Case
    scores: Float[np.ndarray, " token"]
    rank_again: "Callable[[Case], Ranking]" = field(repr=False)
    sum_error: float | None = None

    @cached_property
    def order(self) -> list[int]:
        """Removable positions by descending score, so that evidence against the answer comes last.

        Ties keep the order of the text.
        """
        return [self.case.removable[place] for place in np.argsort(-self.removable_scores, kind="stable")]

    @property
    def removable_scores(self) -> Float[np.ndarray, " removable"]:
        return self.scores[list(self.case.removable)]


def check_subject(subject: Subject) -> None:
    """Raise for a model without a single answer whose probability can fall."""
    if subject.tokenizer is None:
        raise InputError(f"{subject.name!r} has no tokenizer, which bench needs to rank tokens; pass one to load")
    if subject.task not in SUPPORTED_TASKS:
        raise InputError(
            f"{subject.name!r} has the task {subject.task!r}; bench supports classifiers, causal and masked language "
            "models"
        )
    config = subject.model.config
    one_choice = getattr(config, "problem_type", None) not in ("regression", "multi_label_classification")
    if subject.task == "classification" and not (one_choice and (config.num_labels or 0) > 1):
        raise _no_single_choice(subject)


def _no_single_choice(subject: Subject) -> InputError:
    return InputError(
        f"the outputs of {subject.name!r} are not probabilities of one choice among several (it has a single logit, is "
        "a regression, or assigns several labels at once), so a drop in probability is undefined"
    )


def make_case(
    subject: Subject, example: BenchExample, number: int = 0, seed: int = 0, max_tokens: int | None = None
) -> Case:
    """Capture an example and find its answer. Texts of more than `max_tokens` tokens raise."""
    check_subject(subject)
    capture = subject.capture(_input_text(subject, example))
    tokens = capture.tokens
    if max_tokens is not None and len(tokens) > max_tokens:
        raise InputError(f"the text has {len(tokens)} tokens, more than max_tokens={max_tokens}")
    target = find_target(capture, "prediction")
    answer_position = _answer_position(subject, capture, target)
    answer = _answer(subject, example, target)
    removable = tuple(
        position for position in range(len(tokens)) if not tokens.special[position] and position != answer_position
    )
    if not removable:
        raise InputError("the text has no token that can be removed")
    assert capture.rerun is not None
    blanks = capture.rerun.blanks
    return Case(
        subject=subject,
        example=example,
        number=number,
        seed=seed,
        capture=capture,
        target=Target(target.positions, answer.output),
        answer=answer,
        original=replace(original_sequence(capture), answer_position=answer_position),
        removable=removable,
        blanks=blanks,
        scorer=Scorer(subject.model, answer, blanks.pad),
    )


def _names_words(subject: Subject, example: BenchExample) -> bool:
    """Whether the example names the word to explain, and the model predicts words."""
    return example.good is not None and subject.task != "classification"


def is_contrastive(subject: Subject, example: BenchExample) -> bool:
    """Whether the answer is a difference of two probabilities."""
    return example.bad is not None and _names_words(subject, example)


def _input_text(subject: Subject, example: BenchExample) -> str:
    assert subject.tokenizer is not None
    if _names_words(subject, example) and subject.task == "masked_lm":
        return f"{example.text} {subject.tokenizer.mask_token} {example.rest}".rstrip()
    return example.text


def _answer_position(subject: Subject, capture: Capture, target: Target) -> int | None:
    """The position whose logits are the answer; None if there is one row of logits per text."""
    assert capture.logits is not None
    if capture.logits.shape[-1] < 2:
        raise _no_single_choice(subject)
    if capture.logits.dim() != 2:
        return None
    if len(target.positions) > 1:
        raise InputError(f"the text has {len(target.positions)} mask tokens, expected 1")
    return next(iter(target.positions), None)


def _answer(subject: Subject, example: BenchExample, target: Target) -> Answer:
    if not _names_words(subject, example):
        if target.output is None:
            raise InputError("the model makes no single prediction for this text")
        return Answer(target.output)
    output = _continuation(subject, example, example.good)
    foil = None if example.bad is None else _continuation(subject, example, example.bad)
    if output == foil:
        raise InputError(f"{example.good!r} and {example.bad!r} start with the same token and cannot be compared")
    return Answer(output, foil)


def _continuation(subject: Subject, example: BenchExample, word: str | None) -> int:
    """The first token of a word that continues the text. For a masked language model it must be the only one."""
    assert subject.tokenizer is not None
    before = subject.tokenizer(example.text, add_special_tokens=False)["input_ids"]
    both = subject.tokenizer(f"{example.text} {word}", add_special_tokens=False)["input_ids"]
    more = len(both) - len(before)
    if more < 1 or both[: len(before)] != before or (subject.task == "masked_lm" and more > 1):
        raise InputError(f"{word!r} is not a single token of this tokenizer after {example.text[-20:]!r}")
    return int(both[len(before)])
