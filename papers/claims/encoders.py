"""P2: keys bind attention, and encoders with small keys and added heads are as accurate and more identifiable.

One-layer encoders of width 64 with 4 heads are trained from scratch, with concatenated heads (con, values of 16) and
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
from papers.claims.ledger import Effect, Figure, Finding, Mean, claim, mean_of
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
CERTIFIED = 16  # test texts with certificates, the same for all models of a dataset
MARGIN = 0.01  # accuracies within this margin count as equal
MEASURED = "measured.json"
SETS, SIZES, SEEDS = ("trec6", "sst2_sentences"), (1, 4, 16, 64), (0, 1, 2)
LONG = "sst2_sentences"  # most of its texts are longer than a concatenated head is wide


@dataclass(frozen=True)
class Measured:
    """A trained model on the test texts: correct predictions, and certificates of some texts averaged over heads."""

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


def measured(folder: Path, test: LabelledTexts) -> Measured:
    """Evaluate a trained model on the test texts, or read what the same version of the library measured."""
    key = {"thalweg": thalweg.__version__, "texts": test.digest()}
    if (folder / MEASURED).exists():
        cached = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
        if cached.get("key") == key:
            return Measured(**cached["figures"])
    subject = load(folder)
    assert subject.tokenizer is not None
    ids = token_ids(subject.tokenizer, test.texts, LENGTH)
    pad = subject.model.config.pad_token_id
    assert isinstance(pad, int)
    names = [label for _, label in sorted((subject.model.config.id2label or {}).items())]
    right = predict(subject.model, ids, pad).argmax(1) == gold_of(test.labels, names)
    chosen = random.Random(0).sample(range(len(ids)), CERTIFIED)
    certificates = [trust(subject, ids[place]) for place in chosen]
    heads = [head for certificate in certificates for head in certificate.heads]
    layers = [layer for certificate in certificates for layer in certificate.layers]

    def mean(values: Sequence[float | int | None]) -> float:
        return float(np.mean([value for value in values if value is not None]))

    figures = Measured(
        right=right.int().tolist(),
        tokens=mean([len(certificate.tokens) for certificate in certificates]),
        ambiguity=mean([head.ambiguity for head in heads]),
        given_keys=mean([head.ambiguity_given_keys for head in heads]),
        keys_free=mean([head.ambiguity_keys_free for head in heads]),
        together=mean([layer.ambiguity_together for layer in layers]),
        apart=mean([layer.ambiguity_apart for layer in layers]),
        identifiable=mean([head.determined for head in heads]),
        identifiable_given_keys=mean([head.verdict != "not identifiable" for head in heads]),
    )
    with draft_of(folder / MEASURED) as draft:
        Path(draft).write_text(json.dumps({"key": key, "figures": asdict(figures)}), encoding="utf-8")
    return figures


def interval(hits: Float[np.ndarray, "run text"]) -> tuple[float, float]:
    """Mean of [run text] numbers and the half width of its 95 % interval over texts and runs.

    Runs and texts are crossed; the variances of the two means are added, which is conservative.
    """
    runs, texts = hits.shape
    tail = 0.5 + LEVEL / 2
    by_text = student.ppf(tail, texts - 1) ** 2 * hits.mean(0).var(ddof=1) / texts
    by_run = student.ppf(tail, runs - 1) ** 2 * hits.mean(1).var(ddof=1) / runs
    return float(hits.mean()), float((by_text + by_run) ** 0.5)


@dataclass(frozen=True)
class Trained:
    """Trained encoders by dataset, combination, key size and seed."""

    models: dict[tuple[str, Combine, int, int], Measured]
    sets: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]

    def right(self, name: str, combine: Combine, sizes: Sequence[int]) -> Float[np.ndarray, "seed text"]:
        """How often each text was classified correctly, averaged over key sizes."""
        return np.array(
            [np.mean([self.models[name, combine, size, seed].right for size in sizes], 0) for seed in self.seeds]
        )

    def figures(self, combine: Combine, sizes: Sequence[int], figure: Callable[[Measured], float]) -> list[float]:
        """A figure for every seed, averaged over key sizes, on the dataset with longer texts."""
        return [
            float(np.mean([figure(self.models[LONG, combine, size, seed]) for size in sizes])) for seed in self.seeds
        ]


def _trained(lab: Lab) -> Trained:
    def get() -> Trained:
        sets, sizes, seeds = (SETS, SIZES, SEEDS) if not lab.quick else ((LONG,), (16, 64), (0, 1))
        models = {}
        for name in sets:
            training, test = (
                LabelledTexts(*read_labelled(lab.file(name, f"{part}.tsv"))) for part in ("train", "test")
            )
            if lab.quick:
                training, test = training.at(range(200)), test.at(range(CERTIFIED))
            for size, seed, combine in product(sizes, seeds, COMBINES):
                folder = lab.folder(name) / f"{combine}-{size}-{seed}"
                plan = plan_of(combine, size, seed)
                train(training, folder, replace(plan, epochs=1) if lab.quick else plan, test=test)
                models[name, combine, size, seed] = measured(folder, test)
        return Trained(models, sets, sizes, seeds)

    return lab.once("encoders", get)


def _on(trained: Trained, sets: Sequence[str]) -> str:
    return (
        f"one-layer encoders trained on {' and '.join(sets)}, key sizes {', '.join(map(str, trained.sizes))}, "
        f"{len(trained.seeds)} seeds"
    )


@claim(
    "keys-bind",
    "P2",
    "abstract; section on the role of keys",
    "Attention is more identifiable than its null space suggests: the head's own keys cannot produce most other "
    "weights.",
)
def _(lab: Lab) -> Finding:
    length = 4 * HEAD

    def free(certificate: Certificate) -> float:
        return float(np.mean([head.ambiguity for head in certificate.heads]))

    def given_keys(certificate: Certificate) -> list[tuple[int, int]]:
        seen = [(head.ambiguity_given_keys, head.ambiguity) for head in certificate.heads]
        return [(left, whole) for left, whole in seen if left is not None]

    def left(certificate: Certificate) -> float:
        return float(np.mean([left / whole for left, whole in given_keys(certificate)]))

    def none(certificate: Certificate) -> float:
        return float(np.mean([left == 0 for left, _ in given_keys(certificate)]))

    return Finding(
        f"{MINILM}, {lab.many(8, 2)} {NOVEL} of {length} tokens; fixed keys, small changes of the query",
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
def _(lab: Lab) -> Finding:
    trained = _trained(lab)
    small, large = [size for size in trained.sizes if size <= WIDTH // HEADS], [trained.sizes[-1]]
    few, many = (np.array(trained.figures("con", sizes, lambda model: model.given_keys)) for sizes in (small, large))
    return Finding(
        f"{_on(trained, [LONG])}; con, values of {WIDTH // HEADS}; fixed keys, small changes of the query",
        (Effect(f"free dimensions of a row, keys of {large[0]} − keys up to {small[-1]}", mean_of(many - few)),),
        (Figure(f"keys up to {small[-1]}", mean_of(few)),),
    )


@claim(
    "added-heads",
    "P2",
    "proposed layer",
    "With values as wide as the model and added heads, heads are identifiable on inputs where concatenated ones "
    "are not.",
)
def _(lab: Lab) -> Finding:
    trained = _trained(lab)
    add, con = (
        np.array(trained.figures(kind, trained.sizes, lambda model: model.identifiable)) for kind in ("add", "con")
    )
    return Finding(
        f"{_on(trained, [LONG])}; {CERTIFIED} test texts",
        (Effect("share of identifiable heads, add − con", mean_of(add - con)),),
        (Figure("add", mean_of(add)), Figure("con", mean_of(con))),
    )


def _gains(
    trained: Trained, hits: Callable[[str], Float[np.ndarray, "seed text"]], label: Callable[[str], str]
) -> tuple[Effect, ...]:
    effects = []
    for name in trained.sets:
        gain, reach = interval(hits(name))
        count = hits(name).shape[1]
        effects.append(Effect(label(name), Mean(gain, gain - reach, gain + reach, count), -MARGIN))
    return tuple(effects)


@claim(
    "equal-accuracy",
    "P2",
    "title; accuracy tables",
    f"Encoders with added heads are as accurate as concatenated ones (tested: not more than {MARGIN:.0%} worse).",
)
def _(lab: Lab) -> Finding:
    trained = _trained(lab)

    def hits(name: str) -> Float[np.ndarray, "seed text"]:
        return trained.right(name, "add", trained.sizes) - trained.right(name, "con", trained.sizes)

    return Finding(_on(trained, trained.sets), _gains(trained, hits, lambda name: f"accuracy on {name}, add − con"))


@claim(
    "small-keys-accuracy",
    "P2",
    "title; accuracy tables",
    f"Small keys cost no accuracy (tested: keys of 4 not more than {MARGIN:.0%} worse than keys of 16).",
)
def _(lab: Lab) -> Finding:
    trained = _trained(lab)
    small, usual = (4, 16) if 4 in trained.sizes else trained.sizes[:2]

    def hits(name: str) -> Float[np.ndarray, "seed text"]:
        return trained.right(name, "add", [small]) - trained.right(name, "add", [usual])

    return Finding(
        f"{_on(trained, trained.sets)}; add",
        _gains(trained, hits, lambda name: f"accuracy on {name}, {small} − {usual}"),
    )
