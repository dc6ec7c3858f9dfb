"""The verb-number task of P4: predict from the words before a verb whether it is singular or plural.

The paper trains on more than a million sentences of Wikipedia (Linzen et al. 2016). Only a few thousand of them are
available, and these were selected to be hard: most have nouns of the other number before the verb. 2,000 of them form a
hard test set. The rest is used for training, together with three agreement corpora and with running text truncated
before is, was, has, are or were, whose form tells their number. Methods are compared on the unselected test sentences
of the three corpora.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from transformers import RobertaPreLayerNormConfig

from papers.claims.lab import Lab
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import Training
from thalweg.encoders.training.train import train
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.examples import BenchExample
from thalweg.files.tables import read_texts
from thalweg.models.load import load
from thalweg.models.subject import Subject

NUMBERS = {"is": "singular", "was": "singular", "has": "singular", "are": "plural", "were": "plural"}
CORPORA = ("agreement_brown", "agreement_ewt", "agreement_gum")
HARD_TEXTS, VALIDATION_TEXTS = 2000, 1500
MAX_SINGULAR = 45_000  # sentences from running text, where singular verbs are far more frequent
MAX_WORDS = 40  # before the verb
BLANKED = 0.05  # share of training words replaced by [MASK], so that the model has seen missing words
WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
LENGTH, LAYERS, HEADS, WIDTH = 64, 6, 8, 128
METHODS = ("raw_attention", "attention_rollout", "attention_flow")
BLANK_OUT, GRADIENTS = "blank_out_size_agreement_mask", "gradient_agreement"
TEXTS = 300  # test sentences for correlations

Row = tuple[str, str]  # the words before the verb, and the number of the verb
Values = Mapping[str, Float[np.ndarray, " input"]]


@dataclass(frozen=True)
class Texts:
    """Training texts (some words blanked), validation texts, and hard test texts.

    No test text is in `seen`, blanked or not.
    """

    training: LabelledTexts
    validation: LabelledTexts
    hard: LabelledTexts
    seen: frozenset[str]


def texts_of(lab: Lab) -> Texts:
    return lab.once("agreement texts", lambda: _read(lab))


def _read(lab: Lab) -> Texts:
    wikipedia = _labelled(lab, "agreement_linzen", "all.jsonl")
    random.Random(0).shuffle(wikipedia)
    hard, rows = wikipedia[: lab.many(HARD_TEXTS, 100)], wikipedia[HARD_TEXTS:]
    if not lab.quick:
        for name in CORPORA:
            rows += _labelled(lab, name, "train.jsonl")
        rows += _cut_from_text(lab)
    unseen = {text for text, _ in hard}
    rows = [row for row in dict.fromkeys(rows) if row[0] not in unseen]
    random.Random(1).shuffle(rows)
    validation, training = rows[: lab.many(VALIDATION_TEXTS, 100)], rows[VALIDATION_TEXTS:][: lab.many(len(rows), 400)]
    chance = random.Random(2)
    blanked = [(" ".join(_blanked(text.split(" "), chance)), number) for text, number in training]
    seen = frozenset(text for text, _ in (*training, *validation))
    return Texts(_examples(blanked), _examples(validation), _examples(hard), seen)


def _examples(rows: list[Row]) -> LabelledTexts:
    return LabelledTexts([text for text, _ in rows], [number for _, number in rows])


def _blanked(words: list[str], chance: random.Random) -> list[str]:
    """Replace some words by [MASK], never all of them."""
    masked = ["[MASK]" if chance.random() < BLANKED else word for word in words]
    return masked if set(masked) != {"[MASK]"} else words


def _labelled(lab: Lab, *parts: str) -> list[Row]:
    rows = []
    for line in lab.file(*parts).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        before = row["text"].lower().split(" ")[: row["verb_index"]]
        if 2 <= len(before) <= MAX_WORDS:
            rows.append((" ".join(before), row["verb_number"]))
    return rows


def _cut_from_text(lab: Lab) -> list[Row]:
    chance, unique = random.Random(3), dict[Row, None]()
    for text in _running_text(lab):
        for sentence in SENTENCE_END.split(text):
            words = WORD.findall(sentence.lower())
            places = [place for place, word in enumerate(words) if word in NUMBERS and 2 <= place <= MAX_WORDS]
            if places and "unk" not in words:
                place = chance.choice(places)
                unique[" ".join(words[:place]), NUMBERS[words[place]]] = None
    rows = list(unique)
    chance.shuffle(rows)
    singular = [row for row in rows if row[1] == "singular"]
    return singular[:MAX_SINGULAR] + [row for row in rows if row[1] == "plural"]


def _running_text(lab: Lab) -> Iterator[str]:
    with gzip.open(lab.file("imdb25k", "train.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield re.sub(r"<br\s*/?>", " ", json.loads(line)["text"])
    for name in ("valid", "test"):
        yield from read_texts(lab.file("wikitext2", f"{name}.txt"))
    for name in ("ag_news", "dbpedia14", "yelp_polarity"):
        yield from read_texts(lab.file(name, "train.tsv"))


def trained_encoder(lab: Lab) -> tuple[Subject, Training]:
    """The paper's encoder: GPT-2 blocks (pre-norm) without a causal mask, read at [CLS]."""

    def get() -> tuple[Subject, Training]:
        texts = texts_of(lab)
        folder = lab.folder("agreement") / "encoder"
        config = RobertaPreLayerNormConfig(
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            hidden_act="gelu_new",
            max_position_embeddings=LENGTH + 2,
        )
        plan = TrainingPlan(max_length=LENGTH, epochs=lab.many(6, 1), patience=3, batch_tokens=4096)
        training = train(texts.training, folder, plan, validation=texts.validation, test=texts.hard, config=config)
        return load(folder), training

    return lab.once("agreement", get)


def natural(lab: Lab) -> LabelledTexts:
    """Unselected test sentences in random order, none of them seen in training."""

    def get() -> LabelledTexts:
        seen = texts_of(lab).seen
        rows = [row for name in CORPORA for row in _labelled(lab, name, "test.jsonl") if row[0] not in seen]
        random.Random(4).shuffle(rows)
        return _examples(list(dict.fromkeys(rows)))

    return lab.once("natural", get)


def test_examples(lab: Lab, count: int) -> list[BenchExample]:
    return [BenchExample(text) for text in natural(lab).texts[: lab.many(count)]]


def at(method: str, layer: int) -> str:
    """A method at a layer, counted from 1 as in the papers."""
    return f"{method}:layer={layer - 1}"


def correlations(lab: Lab, metric: str) -> Values:
    """Correlations of every sentence, by method and layer."""

    def get() -> Mapping[str, Values]:
        subject, _ = trained_encoder(lab)
        result = bench(
            subject,
            test_examples(lab, TEXTS),
            [*(at(method, layer) for method in METHODS for layer in range(1, LAYERS + 1)), "alti", "globenc"],
            [BLANK_OUT, GRADIENTS],
            folder=lab.folder("bench") / "agreement",
        )
        return {name: result.values(name) for name in (BLANK_OUT, GRADIENTS)}

    return lab.once("correlations", get)[metric]
