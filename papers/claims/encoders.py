"""P2: keys bind attention, and encoders with small keys and added heads are as accurate and more identifiable.

One-layer encoders of width 64 with 4 heads are trained from nothing, with concatenated heads (con, values of 16) and
added ones (add, values of 64), as the paper does.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

import thalweg
from papers.claims.identifiability import HEAD, MINILM, NOVEL, by_piece
from papers.claims.lab import Lab
from papers.claims.ledger import Effect, Figure, Found, Mean, claim, mean_of
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.measure import gold_of
from thalweg.encoders.training.plan import Combine, TrainingPlan
from thalweg.encoders.training.tokenizer import token_ids
from thalweg.encoders.training.train import train
from thalweg.files.atomic import draft_of
from thalweg.files.tables import read_labelled
from thalweg.identifiability.result import Certificate
from thalweg.identifiability.trust import trust
from thalweg.models.load import load
from thalweg.rates import LEVEL

COMBINES: tuple[Combine, Combine] = ("con", "add")
WIDTH, HEADS, LENGTH = 64, 4, 64
CERTIFIED = 16  # test texts, the same for all models of a set
MARGIN = 0.01  # of accuracy: what lies within it is called equal
MEASURED = "measured.json"
SETS, SIZES, SEEDS = ("trec6", "sst2_sentences"), (1, 4, 16, 64), (0, 1, 2)
LONG = "sst2_sentences"  # whose texts are mostly longer than concatenated heads are wide


@dataclass(frozen=True)
class Measured:
    """One trained model on the test texts: which it got right, and means over heads of certificates of some texts."""

    right: list[int]
    tokens: float
    ambiguity: float
    given_keys: float
    keys_free: float
    together: float
    apart: float
    identifiable: float
    identifiable_given_keys: float


def plan_of(combine: Combine, key_size: int, seed: int) -> TrainingPlan:
    return TrainingPlan(
        combine=combine,
        key_size=key_size,
        width=WIDTH,
        heads=HEADS,
        layers=1,
        max_length=LENGTH,
        epochs=8,
        patience=2,
        batch_tokens=2048,
        seed=seed,
    )


def measured(folder: Path, tested: LabelledTexts) -> Measured:
    """Ask a trained model about the test texts, or read what it said to the same version of the library."""
    asked = {"thalweg": thalweg.__version__, "texts": tested.digest()}
    if (folder / MEASURED).exists():
        there = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
        if there.get("asked") == asked:
            return Measured(**there["found"])
    subject = load(folder)
    assert subject.tokenizer is not None
    ids = token_ids(subject.tokenizer, tested.texts, LENGTH)
    pad = subject.model.config.pad_token_id
    assert isinstance(pad, int)
    names = [label for _, label in sorted((subject.model.config.id2label or {}).items())]
    right = predict(subject.model, ids, pad).argmax(1) == gold_of(tested.labels, names)
    chosen = random.Random(0).sample(range(len(ids)), CERTIFIED)
    found = [trust(subject, ids[place]) for place in chosen]
    heads = [head for one in found for head in one.heads]
    layers = [layer for one in found for layer in one.layers]

    def mean(values: Sequence[float | int | None]) -> float:
        return float(np.mean([value for value in values if value is not None]))

    answer = Measured(
        right=right.int().tolist(),
        tokens=mean([len(one.tokens) for one in found]),
        ambiguity=mean([head.ambiguity for head in heads]),
        given_keys=mean([head.ambiguity_given_keys for head in heads]),
        keys_free=mean([head.ambiguity_keys_free for head in heads]),
        together=mean([layer.ambiguity_together for layer in layers]),
        apart=mean([layer.ambiguity_apart for layer in layers]),
        identifiable=mean([head.determined for head in heads]),
        identifiable_given_keys=mean([head.verdict != "not identifiable" for head in heads]),
    )
    with draft_of(folder / MEASURED) as draft:
        Path(draft).write_text(json.dumps({"asked": asked, "found": asdict(answer)}), encoding="utf-8")
    return answer


def interval(hits: Float[np.ndarray, "run text"]) -> tuple[float, float]:
    """The mean of [run text] numbers and how far it may be off, at 95 %: chance of the texts and chance of the runs.

    Runs and texts are crossed; their two variances of the mean are added, which is rather too much than too little.
    """
    runs, texts = hits.shape
    tail = 0.5 + LEVEL / 2
    by_text = student.ppf(tail, texts - 1) ** 2 * hits.mean(0).var(ddof=1) / texts
    by_run = student.ppf(tail, runs - 1) ** 2 * hits.mean(1).var(ddof=1) / runs
    return float(hits.mean()), float((by_text + by_run) ** 0.5)


@dataclass(frozen=True)
class Trained:
    """Encoders by set, combination, key size and seed."""

    models: dict[tuple[str, Combine, int, int], Measured]
    sets: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]

    def right(self, name: str, combine: Combine, sizes: Sequence[int]) -> Float[np.ndarray, "seed text"]:
        """How often each text was told right, over key sizes."""
        return np.array(
            [np.mean([self.models[name, combine, size, seed].right for size in sizes], 0) for seed in self.seeds]
        )

    def figures(self, combine: Combine, sizes: Sequence[int], figure: Callable[[Measured], float]) -> list[float]:
        """Of every seed a mean over key sizes, on the set of longer texts."""
        return [
            float(np.mean([figure(self.models[LONG, combine, size, seed]) for size in sizes])) for seed in self.seeds
        ]


def _trained(lab: Lab) -> Trained:
    def get() -> Trained:
        sets, sizes, seeds = (SETS, SIZES, SEEDS) if not lab.quick else ((LONG,), (16, 64), (0, 1))
        models = {}
        for name in sets:
            learnt, tested = (
                LabelledTexts(*read_labelled(lab.file(name, f"{part}.tsv"))) for part in ("train", "test")
            )
            if lab.quick:
                learnt, tested = learnt.at(range(200)), tested.at(range(CERTIFIED))
            for size, seed, combine in product(sizes, seeds, COMBINES):
                folder = lab.folder(name) / f"{combine}-{size}-{seed}"
                plan = plan_of(combine, size, seed)
                train(learnt, folder, replace(plan, epochs=1) if lab.quick else plan, test=tested)
                models[name, combine, size, seed] = measured(folder, tested)
        return Trained(models, sets, sizes, seeds)

    return lab.once("encoders", get)


def _on(found: Trained, sets: Sequence[str]) -> str:
    return (
        f"one-layer encoders trained on {' and '.join(sets)}, key sizes {', '.join(map(str, found.sizes))}, "
        f"{len(found.seeds)} seeds"
    )


@claim(
    "keys-bind",
    "P2",
    "abstract; section on the role of keys",
    "Attention is more identifiable than its null space says: most other weights cannot come from the head's own keys.",
)
def _(lab: Lab) -> Found:
    length = 4 * HEAD

    def free(one: Certificate) -> float:
        return float(np.mean([head.ambiguity for head in one.heads]))

    def given_keys(one: Certificate) -> list[tuple[int, int]]:
        seen = [(head.ambiguity_given_keys, head.ambiguity) for head in one.heads]
        return [(left, whole) for left, whole in seen if left is not None]

    def left(one: Certificate) -> float:
        return float(np.mean([left / whole for left, whole in given_keys(one)]))

    def none(one: Certificate) -> float:
        return float(np.mean([left == 0 for left, _ in given_keys(one)]))

    return Found(
        f"{MINILM}, {lab.many(8, 2)} {NOVEL} of {length} tokens; keys as they are, small changes of the query",
        (
            Effect(
                "share of a row's free dimensions left, given the keys",
                mean_of(by_piece(lab, length, left)),
                0.5,
                "below",
            ),
        ),
        (
            Figure("free dimensions by its output alone", mean_of(by_piece(lab, length, free))),
            Figure("share of heads with none left", mean_of(by_piece(lab, length, none))),
        ),
    )


@claim(
    "small-keys",
    "P2",
    "abstract; proposed layer",
    "Smaller keys leave fewer other attention weights that a head could have produced.",
)
def _(lab: Lab) -> Found:
    found = _trained(lab)
    small, large = [size for size in found.sizes if size <= WIDTH // HEADS], [found.sizes[-1]]
    few, many = (np.array(found.figures("con", sizes, lambda one: one.given_keys)) for sizes in (small, large))
    return Found(
        f"{_on(found, [LONG])}; con, values of {WIDTH // HEADS}; keys as they are, small changes of the query",
        (Effect(f"free dimensions of a row, keys of {large[0]} − keys up to {small[-1]}", mean_of(many - few)),),
        (Figure(f"keys up to {small[-1]}", mean_of(few)),),
    )


@claim(
    "added-heads",
    "P2",
    "proposed layer",
    "Values as wide as the model, with heads added, make heads identifiable for inputs that concatenated ones are not.",
)
def _(lab: Lab) -> Found:
    found = _trained(lab)
    add, con = (np.array(found.figures(one, found.sizes, lambda m: m.identifiable)) for one in ("add", "con"))
    return Found(
        f"{_on(found, [LONG])}; {CERTIFIED} test texts",
        (Effect("share of heads identifiable, add − con", mean_of(add - con)),),
        (Figure("add", mean_of(add)), Figure("con", mean_of(con))),
    )


def _gains(
    found: Trained, hits: Callable[[str], Float[np.ndarray, "seed text"]], what: Callable[[str], str]
) -> tuple[Effect, ...]:
    effects = []
    for name in found.sets:
        gain, reach = interval(hits(name))
        count = hits(name).shape[1]
        effects.append(Effect(what(name), Mean(gain, gain - reach, gain + reach, count), -MARGIN))
    return tuple(effects)


@claim(
    "equal-accuracy",
    "P2",
    "title; accuracy tables",
    f"Encoders with added heads are as accurate as concatenated ones (tested: not more than {MARGIN:.0%} worse).",
)
def _(lab: Lab) -> Found:
    found = _trained(lab)

    def hits(name: str) -> Float[np.ndarray, "seed text"]:
        return found.right(name, "add", found.sizes) - found.right(name, "con", found.sizes)

    return Found(_on(found, found.sets), _gains(found, hits, lambda name: f"accuracy on {name}, add − con"))


@claim(
    "small-keys-accuracy",
    "P2",
    "title; accuracy tables",
    f"Small keys cost no accuracy (tested: keys of 4 not more than {MARGIN:.0%} worse than keys of 16).",
)
def _(lab: Lab) -> Found:
    found = _trained(lab)
    small, usual = (4, 16) if 4 in found.sizes else found.sizes[:2]

    def hits(name: str) -> Float[np.ndarray, "seed text"]:
        return found.right(name, "add", [small]) - found.right(name, "add", [usual])

    return Found(
        f"{_on(found, found.sets)}; add", _gains(found, hits, lambda name: f"accuracy on {name}, {small} − {usual}")
    )
