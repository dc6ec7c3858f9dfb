"""Cases for tests: tiny random models, and models with a known answer."""

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
from thalweg.decompose.edits import Operator
from thalweg.faithfulness.case import Case, Ranking, make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.scoring import Scorer

TEXT = "the old dog sees a new cat and runs"
SHORT_TEXT = "the old dog runs"
FAMILY_TEXTS = {"gpt2": "the key is the key", "llama": "the keys to the", "electra": "the old [MASK] is good ."}


@cache
def subject_of(family: str) -> tw.Subject:
    return tiny_subject(family)


def tiny_case(family: str) -> Case:
    """A text on a tiny random model of the family."""
    return make_case(subject_of(family), BenchExample(FAMILY_TEXTS.get(family, "the old dog sees a new cat .")))


class AdditiveConfig(PreTrainedConfig):
    model_type = "additive"


class Additive(PreTrainedModel):
    """Logits (0, Σ w_i) over the visible tokens; `answer` replaces the probability by a function of their ids."""

    config_class = AdditiveConfig

    def __init__(self, seed: int = 0, answer: Callable[[list[int]], float] | None = None) -> None:
        super().__init__(AdditiveConfig())
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.Parameter(torch.randn(VOCABULARY, generator=generator, dtype=torch.float64))
        self.answer = answer
        self.batch_sizes: list[int] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> SequenceClassifierOutput:
        self.batch_sizes.append(len(input_ids))
        total = (self.weights[input_ids] * attention_mask).sum(1)
        if self.answer is not None:
            rows = [row[mask.bool()].tolist() for row, mask in zip(input_ids, attention_mask, strict=True)]
            probability = torch.tensor([self.answer(row) for row in rows], dtype=torch.float64)
            total = torch.log(probability) - torch.log1p(-probability)
        logits: Any = torch.stack([torch.zeros_like(total), total], 1)
        return SequenceClassifierOutput(logits=logits)


def additive_case(seed: int = 0, answer: Callable[[list[int]], float] | None = None, text: str = TEXT) -> Case:
    """The tokens of a text by BERT's tokenizer, scored by an additive model."""
    case = make_case(subject_of("bert"), BenchExample(text))
    explained, model = replace(case.answer, output=1), Additive(seed, answer)
    assert case.capture.rerun is not None
    rerun = replace(case.capture.rerun, run=lambda inputs: model(**inputs))
    capture = replace(case.capture, logits=Additive(seed, answer)(**rerun.inputs).logits[0].detach(), rerun=rerun)
    return replace(case, capture=capture, answer=explained, scorer=Scorer(model, explained, case.blanks.pad))


def key_word_case() -> Case:
    """Four words; the answer is 0.9 with "old", the second one, and 0.3 without it."""
    key = make_case(subject_of("bert"), BenchExample(SHORT_TEXT)).original.ids[2]  # behind [CLS] and "the"
    return additive_case(answer=lambda ids: 0.9 if key in ids else 0.3, text=SHORT_TEXT)


def linear_case(words: int = 10) -> Case:
    """The answer falls by 0.05 with every token that is removed."""
    text = " ".join(["the old dog sees a new cat and runs .".split()[place] for place in range(words)])
    return additive_case(answer=lambda ids: 0.1 + 0.05 * len(ids), text=text)


def ranking_of(case: Case, scores: np.ndarray) -> Ranking:
    """Scores of the removable tokens as a ranking."""
    padded = np.zeros(len(case.original))
    padded[list(case.removable)] = scores
    return Ranking(case, padded, lambda other: ranking_of(other, scores))


def first_and_last() -> tuple[Ranking, Ranking]:
    """The key word ranked first, and ranked last."""
    case = key_word_case()
    return ranking_of(case, np.array([0.0, 1, 0, 0])), ranking_of(case, np.array([0.0, -1, 0, 0]))


def metric_value(name: str, ranking: Ranking, operator: Operator = "delete") -> float:
    value = find_metrics([name], operator)[0](ranking)
    assert value is not None
    return value


def scores_of(name: str, case: Case) -> np.ndarray:
    """The scores of a method or baseline by name."""
    return find_rankers([name])[0](case).scores
