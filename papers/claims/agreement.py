"""The verb-number task of P4: sentences up to the verb, singular or plural, and the encoder that learns it.

The paper trains on more than a million sentences of Wikipedia (Linzen et al. 2016). Of those some thousand are at
hand, chosen to be hard: most have nouns of the other number before the verb. 2,000 of them are kept for a test of their
own. The others are learnt from, with three corpora of agreement, and with what is cut from running text wherever is,
was, has, are or were stands, since the form says its number. Methods are compared on sentences as they come: those that
the three corpora keep for tests.
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
from thalweg.models.load import Subject, load

NUMBERS = {"is": "singular", "was": "singular", "has": "singular", "are": "plural", "were": "plural"}
CORPORA = ("agreement_brown", "agreement_ewt", "agreement_gum")
HARD, CHOSEN_BY = 2000, 1500
SINGULAR = 45_000  # of running text; there are far more of them than plural ones
LONGEST = 40  # words before the verb
BLANKED = 0.05  # of the words that are learnt from, so that the model knows what a missing word looks like
WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
LENGTH, LAYERS, HEADS, WIDTH = 64, 6, 8, 128
METHODS = ("raw_attention", "attention_rollout", "attention_flow")
BLANK_OUT, GRADIENTS = "blank_out_size_agreement_mask", "gradient_agreement"
TEXTS = 300  # of the test that correlations are measured on

Row = tuple[str, str]  # what stands before the verb, and the verb's number
Values = Mapping[str, Float[np.ndarray, " input"]]


@dataclass(frozen=True)
class Texts:
    """What is learnt from (some words blanked), what chooses the best epoch, and hard texts to test on.

    No text of a test is among the `seen`, blanked or not.
    """

    learnt: LabelledTexts
    chosen: LabelledTexts
    hard: LabelledTexts
    seen: frozenset[str]


def texts_of(lab: Lab) -> Texts:
    return lab.once("agreement texts", lambda: _read(lab))


def _read(lab: Lab) -> Texts:
    wikipedia = _labelled(lab, "agreement_linzen", "all.jsonl")
    random.Random(0).shuffle(wikipedia)
    hard, rows = wikipedia[: lab.many(HARD, 100)], wikipedia[HARD:]
    if not lab.quick:
        for name in CORPORA:
            rows += _labelled(lab, name, "train.jsonl")
        rows += _cut_from_text(lab)
    unseen = {text for text, _ in hard}
    rows = [row for row in dict.fromkeys(rows) if row[0] not in unseen]
    random.Random(1).shuffle(rows)
    chosen, learnt = rows[: lab.many(CHOSEN_BY, 100)], rows[CHOSEN_BY:][: lab.many(len(rows), 400)]
    chance = random.Random(2)
    blanked = [(" ".join(_blanked(text.split(" "), chance)), number) for text, number in learnt]
    seen = frozenset(text for text, _ in (*learnt, *chosen))
    return Texts(_examples(blanked), _examples(chosen), _examples(hard), seen)


def _examples(rows: list[Row]) -> LabelledTexts:
    return LabelledTexts([text for text, _ in rows], [number for _, number in rows])


def _blanked(words: list[str], chance: random.Random) -> list[str]:
    """Some words missing, never all of them."""
    found = ["[MASK]" if chance.random() < BLANKED else word for word in words]
    return found if set(found) != {"[MASK]"} else words


def _labelled(lab: Lab, *parts: str) -> list[Row]:
    found = []
    for line in lab.file(*parts).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        before = row["text"].lower().split(" ")[: row["verb_index"]]
        if 2 <= len(before) <= LONGEST:
            found.append((" ".join(before), row["verb_number"]))
    return found


def _cut_from_text(lab: Lab) -> list[Row]:
    chance, found = random.Random(3), dict[Row, None]()
    for text in _running_text(lab):
        for sentence in SENTENCE_END.split(text):
            words = WORD.findall(sentence.lower())
            places = [place for place, word in enumerate(words) if word in NUMBERS and 2 <= place <= LONGEST]
            if places and "unk" not in words:
                place = chance.choice(places)
                found[" ".join(words[:place]), NUMBERS[words[place]]] = None
    rows = list(found)
    chance.shuffle(rows)
    singular = [row for row in rows if row[1] == "singular"]
    return singular[:SINGULAR] + [row for row in rows if row[1] == "plural"]


def _running_text(lab: Lab) -> Iterator[str]:
    with gzip.open(lab.file("imdb25k", "train.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield re.sub(r"<br\s*/?>", " ", json.loads(line)["text"])
    for name in ("valid", "test"):
        yield from read_texts(lab.file("wikitext2", f"{name}.txt"))
    for name in ("ag_news", "dbpedia14", "yelp_polarity"):
        yield from read_texts(lab.file(name, "train.tsv"))


def learnt(lab: Lab) -> tuple[Subject, Training]:
    """The paper's encoder: blocks as in GPT-2 (norms before attention and MLP) without a causal mask, read at [CLS]."""

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
        found = train(texts.learnt, folder, plan, validation=texts.chosen, test=texts.hard, config=config)
        return load(folder), found

    return lab.once("agreement", get)


def natural(lab: Lab) -> LabelledTexts:
    """Test sentences as they come, in random order, none of which was learnt from."""

    def get() -> LabelledTexts:
        seen = texts_of(lab).seen
        rows = [row for name in CORPORA for row in _labelled(lab, name, "test.jsonl") if row[0] not in seen]
        random.Random(4).shuffle(rows)
        return _examples(list(dict.fromkeys(rows)))

    return lab.once("natural", get)


def tested(lab: Lab, count: int) -> list[BenchExample]:
    return [BenchExample(text) for text in natural(lab).texts[: lab.many(count)]]


def at(method: str, layer: int) -> str:
    """A method at a layer, counted from 1 as the papers do."""
    return f"{method}:layer={layer - 1}"


def correlations(lab: Lab, metric: str) -> Values:
    """By method and layer, for every sentence."""

    def get() -> Mapping[str, Values]:
        subject, _ = learnt(lab)
        found = bench(
            subject,
            tested(lab, TEXTS),
            [*(at(method, layer) for method in METHODS for layer in range(1, LAYERS + 1)), "alti", "globenc"],
            [BLANK_OUT, GRADIENTS],
            folder=lab.folder("bench") / "agreement",
        )
        return {name: found.values(name) for name in (BLANK_OUT, GRADIENTS)}

    return lab.once("correlations", get)[metric]
