"""Predictions: the outputs that a model finds most probable, by name."""

from dataclasses import dataclass

from thalweg.capture.record import Capture
from thalweg.capture.target import Target, find_target, logits_at
from thalweg.models.subject import Subject
from thalweg.numerics import working

SHOWN_OUTCOMES = 5


@dataclass(frozen=True)
class Outcome:
    """A class or token with its probability; None if the model returns one number only, such as a regression."""

    output: int
    name: str
    probability: float | None

    def __str__(self) -> str:
        return self.name if self.probability is None else f"{self.name} ({percent(self.probability)})"


@dataclass(frozen=True)
class Prediction:
    """The most probable outcomes, the model's answer first."""

    outcomes: tuple[Outcome, ...]

    @property
    def name(self) -> str:
        return self.outcomes[0].name

    @property
    def probability(self) -> float | None:
        return self.outcomes[0].probability

    @property
    def runners_up(self) -> tuple[Outcome, ...]:
        return self.outcomes[1:]

    def find(self, output: int) -> Outcome | None:
        """The outcome with this class number or token id, if it is among them."""
        return next((outcome for outcome in self.outcomes if outcome.output == output), None)


def prediction(
    subject: Subject, capture: Capture, target: Target | None = None, include: tuple[int, ...] = ()
) -> Prediction | None:
    """The outcomes at a target (default: where the model's answer is read), and those of the outputs to `include`.

    None if the model has no logits there, or several answers. Labels of a multi-label classifier have independent
    probabilities; in all other cases the probabilities of all outputs sum to one.

    >>> import thalweg as tw
    >>> subject = tw.load()
    >>> prediction(subject, subject.capture("a gorgeous, witty, seductive movie.")).name
    'positive'
    """
    if target is None:
        target = find_target(capture, None)
    logits = logits_at(capture, target.positions)
    if logits is None:
        return None
    logits = logits.to(working(logits.dtype))
    independent = getattr(subject.model.config, "problem_type", None) == "multi_label_classification"
    chances = logits.sigmoid() if independent else logits.softmax(-1)
    order = logits.topk(min(SHOWN_OUTCOMES, len(logits))).indices.tolist()
    order += [output for output in include if output not in order and 0 <= output < len(logits)]
    return Prediction(
        tuple(
            Outcome(output, subject.output_name(output) or "", float(chances[output]) if len(logits) > 1 else None)
            for output in order
        )
    )


def percent(share: float) -> str:
    """A probability in percent, never rounded to 0 or 100.

    >>> percent(0.973), percent(0.9999), percent(0.0002)
    ('97.3 %', '> 99.9 %', '< 0.1 %')
    """
    if not 0.001 <= share <= 0.999:
        return "< 0.1 %" if share < 0.001 else "> 99.9 %"
    return f"{100 * share:.1f} %"
