"""Models whose answer is known: each token adds a weight of its own, or the answer is whatever a function says."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

import thalweg as tw
from tests.families import VOCABULARY
from tests.tiny import tiny_subject
from thalweg.faithfulness.case import Case, Ranked, case_of
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.scoring import Scorer

TEXT = "the old dog sees a new cat and runs"


class AdditiveConfig(PreTrainedConfig):
    model_type = "additive"


class Additive(PreTrainedModel):
    """Logits (0, Σ w_i) over the tokens that attention sees; `answer` replaces the sum by a function of the ids."""

    config_class = AdditiveConfig

    def __init__(self, seed: int = 0, answer: Callable[[list[int]], float] | None = None) -> None:
        super().__init__(AdditiveConfig())
        chance = torch.Generator().manual_seed(seed)
        self.weights = nn.Parameter(torch.randn(VOCABULARY, generator=chance, dtype=torch.float64))
        self.answer = answer
        self.seen: list[int] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> SequenceClassifierOutput:
        self.seen.append(len(input_ids))
        total = (self.weights[input_ids] * attention_mask).sum(1)
        if self.answer is not None:
            rows = [row[mask.bool()].tolist() for row, mask in zip(input_ids, attention_mask, strict=True)]
            chance = torch.tensor([self.answer(row) for row in rows], dtype=torch.float64)
            total = torch.log(chance) - torch.log1p(-chance)
        logits: Any = torch.stack([torch.zeros_like(total), total], 1)
        return SequenceClassifierOutput(logits=logits)


@cache
def _tokens() -> tw.Subject:
    return tiny_subject("bert")


def additive_case(seed: int = 0, answer: Callable[[list[int]], float] | None = None, text: str = TEXT) -> Case:
    """The tokens of a text as BERT's tokenizer has them, asked about an additive model."""
    case = case_of(_tokens(), BenchExample(text))
    model = Additive(seed, answer)
    wanted = replace(case.answer, output=1)
    return replace(case, answer=wanted, scorer=Scorer(model, wanted, case.blanks.pad))


def ranked(case: Case, scores: np.ndarray) -> Ranked:
    """Scores of the movable tokens as a ranking."""
    whole = np.zeros(len(case.whole))
    whole[list(case.movable)] = scores
    return Ranked(case, whole, lambda other: ranked(other, scores))
