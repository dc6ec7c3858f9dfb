"""Parameters of the methods that explain a model's answer by running the model: gradients and removals."""

from dataclasses import dataclass

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.answers import Quantity, TargetAnswer, answer_assumptions, target_answers
from thalweg.decompose.embeddings import Reduction
from thalweg.methods.params import LogitParams, option


@dataclass(frozen=True)
class AnswerParams(LogitParams):
    """Which output is explained, and which of its numbers."""

    quantity: Quantity = option("probability", "number to explain: the output's probability (softmax) or its logit")

    def answers(self, capture: Capture, target: Target) -> list[TargetAnswer]:
        return target_answers(capture, target, self.output, self.foil, self.quantity)

    def assumptions(self, capture: Capture, target: Target) -> tuple[str, ...]:
        return answer_assumptions(capture, target, self.quantity, self.foil)


@dataclass(frozen=True)
class GradientParams(AnswerParams):
    """The same, and how a vector per token becomes a score."""

    reduction: Reduction = option("sum", "score of a token's vector: its signed sum, L2 norm or mean absolute value")
