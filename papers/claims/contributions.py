"""P3: ALTI finds the tokens that matter, ignores special ones, and is robust across seeds.

RoBERTa and BERT on SST-2 are not available: a MiniLM fine-tuned here on SST-2 replaces them. Quick runs use the bundled
model, which was distilled from one.
"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float

from papers.claims import agreement
from papers.claims.lab import Lab
from papers.claims.ledger import Effect, Figure, Finding, Side, claim, mean_of
from thalweg.attribution.explain import explain
from thalweg.capture.record import Block
from thalweg.decompose.parts import decompose
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.train import train
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.result import Bench
from thalweg.files.tables import read_labelled, read_texts
from thalweg.models.load import load
from thalweg.models.subject import Subject

GRADIENTS = ("gradient_norm", "gradient_x_input", "integrated_gradients")
OTHERS = ("raw_attention", "attention_rollout", "attention_flow", "globenc")
L2 = "alti:measure=l2"
TEXTS = 100
SEEDS = 4


def sentiment(lab: Lab) -> tuple[Subject, str]:
    """A pretrained encoder fine-tuned on SST-2, and its description."""

    def get() -> tuple[Subject, str]:
        training, validation, test = (
            LabelledTexts(*read_labelled(lab.file("sst2_sentences", f"{part}.tsv")))
            for part in ("train", "dev", "test")
        )
        if lab.quick:
            return lab.bundled(), f"the bundled model, {lab.many(TEXTS)} test sentences of SST-2"
        folder = lab.folder("sentiment") / "minilm"
        plan = TrainingPlan(combine="con", epochs=3, patience=1, max_length=64)
        minilm = lab.packaged("all-MiniLM-L6-v2")
        figures = train(training, folder, plan, validation=validation, test=test, init_from=minilm).figures
        assert figures.test is not None
        on = f"MiniLM fine-tuned on SST-2 (test accuracy {figures.test.rate:.3f}), {TEXTS} test sentences"
        return load(folder), on

    return lab.once("sentiment", get)


def _sentences(lab: Lab, count: int = TEXTS) -> list[BenchExample]:
    return [BenchExample(text) for text in read_texts(lab.file("sst2_sentences", "test.tsv"))[: lab.many(count)]]


def sentiment_bench(lab: Lab) -> Bench:
    """All benchmarks on sentiment, in one run."""
    return lab.once(
        "sentiment bench",
        lambda: bench(
            sentiment(lab)[0],
            _sentences(lab),
            ["alti", L2, *OTHERS, *GRADIENTS, "random"],
            ["comprehensiveness", "sufficiency", "deletion_area", "gradient_agreement"],
            folder=lab.folder("bench") / "sentiment",
        ),
    )


def _against(
    values: Mapping[str, Float[np.ndarray, " input"]], others: tuple[str, ...], side: Side, metric: str
) -> tuple[Effect, ...]:
    """Compare ALTI with each of the others on the same inputs; `side` is the side on which ALTI should be."""
    return tuple(
        Effect(f"{metric}, ALTI − {other}", mean_of(values["alti"] - values[other]), 0.0, side) for other in others
    )


@claim(
    "comprehensiveness",
    "P3",
    "faithfulness tables",
    "Removing the tokens that ALTI ranks highest lowers the prediction more than removing those of rollout, "
    "GlobEnc, gradients "
    "and integrated gradients (RoBERTa, SST-2: 0.269 against 0.076, 0.161, 0.190, 0.223).",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("comprehensiveness_delete")
    rivals = ("attention_rollout", "globenc", *GRADIENTS)
    return Finding(sentiment(lab)[1], _against(values, rivals, "above", "comprehensiveness"))


@claim(
    "sufficiency",
    "P3",
    "faithfulness tables",
    "Fewer of the tokens that ALTI ranks highest suffice than of those of rollout, GlobEnc, gradients and integrated "
    "gradients (RoBERTa, SST-2: 0.057 against 0.179, 0.119, 0.075, 0.074; lower is better).",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("sufficiency_delete")
    rivals = ("attention_rollout", "globenc", *GRADIENTS)
    return Finding(sentiment(lab)[1], _against(values, rivals, "below", "sufficiency"))


@claim(
    "attention-methods",
    "P3",
    "faithfulness tables",
    "Among methods without gradients, ALTI is the most faithful: above rollout, GlobEnc and raw attention.",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("comprehensiveness_delete")
    rivals = ("raw_attention", "attention_rollout", "globenc")
    return Finding(sentiment(lab)[1], _against(values, rivals, "above", "comprehensiveness"))


@claim(
    "l1-over-l2",
    "P3",
    "faithfulness tables",
    "L1 distances are better than L2 distances (RoBERTa, SST-2: comprehensiveness 0.269 against 0.230).",
)
def _(lab: Lab) -> Finding:
    result = sentiment_bench(lab)
    more = _against(result.values("comprehensiveness_delete"), (L2,), "above", "comprehensiveness")
    less = _against(result.values("sufficiency_delete"), (L2,), "below", "sufficiency")
    return Finding(sentiment(lab)[1], more + less)


@claim(
    "deletion",
    "P3",
    "deletion curves",
    "When tokens are removed one by one, highest first, the prediction falls faster with ALTI than with rollout "
    "and gradients.",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("deletion_area_delete")
    rivals = ("attention_rollout", *GRADIENTS)
    return Finding(sentiment(lab)[1], _against(values, rivals, "below", "area under the curve"))


@claim(
    "gradient-correlation",
    "P3",
    "correlations (first version)",
    "ALTI correlates with gradients on SST-2 (0.55 on BERT), raw attention less (0.29), rollout not (−0.03).",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("gradient_agreement")
    rivals = ("raw_attention", "attention_rollout")
    return Finding(
        sentiment(lab)[1],
        _against(values, rivals, "above", "ρ"),
        tuple(Figure(name, mean_of(values[name])) for name in ("alti", *rivals)),
    )


@claim(
    "blank-out-correlation",
    "P3",
    "correlations (first version)",
    "On subject-verb agreement ALTI correlates with blank-out (0.40 on BERT) more than raw attention (0.24) and "
    "rollout (−0.02).",
)
def _(lab: Lab) -> Finding:
    values = agreement.correlations(lab, agreement.BLANK_OUT)
    top = {name: agreement.at(name, agreement.LAYERS) for name in ("raw_attention", "attention_rollout")}
    return Finding(
        f"the encoder trained here for verb number, {lab.many(agreement.TEXTS)} test sentences",
        tuple(Effect(f"ρ, ALTI − {name}", mean_of(values["alti"] - values[method])) for name, method in top.items()),
        (Figure("alti", mean_of(values["alti"])),),
    )


@claim(
    "special-tokens",
    "P3",
    "share of special tokens (released data)",
    "ALTI gives [CLS] and [SEP] little (0.05 on BERT, SST-2), rollout more (0.48).",
)
def _(lab: Lab) -> Finding:
    subject, on = sentiment(lab)
    shares = []
    for example in _sentences(lab):
        capture = subject.capture(example.text)
        special = np.array(capture.tokens.special)
        rows = [explain(subject, capture, method).scores[0] for method in ("alti", "attention_rollout")]
        shares.append([float(row[special].sum()) for row in rows])
    alti, rollout = np.array(shares).T
    return Finding(
        on,
        (
            Effect("share of special tokens, rollout − ALTI", mean_of(rollout - alti)),
            Effect("ALTI", mean_of(alti), 0.2, "below"),
        ),
        (Figure("rollout", mean_of(rollout)),),
    )


@claim(
    "robust",
    "P3",
    "robustness across seeds",
    "ALTI is more alike across seeds of a model than gradient methods (MultiBERTs, median ρ 0.91; gradient 0.73, "
    "gradient × input 0.66, integrated gradients 0.65).",
)
def _(lab: Lab) -> Finding:
    seeds = _seeds(lab)
    values = bench(
        seeds[0],
        _sentences(lab),
        ["alti", "attention_rollout", *GRADIENTS, "random"],
        ["seed_robustness"],
        other_seeds=seeds[1:],
        folder=lab.folder("bench") / "seeds",
    ).values("seed_robustness")
    return Finding(
        f"{len(seeds)} encoders of 4 layers trained from scratch on SST-2, the first against the others where they "
        f"make the same prediction, {lab.many(TEXTS)} test sentences",
        _against(values, GRADIENTS, "above", "ρ across seeds"),
        tuple(Figure(name, mean_of(values[name])) for name in ("alti", "attention_rollout", *GRADIENTS)),
    )


def _seeds(lab: Lab) -> list[Subject]:
    """Small classifiers that differ only in their seed, with one tokenizer."""

    def get() -> list[Subject]:
        training, validation = (
            LabelledTexts(*read_labelled(lab.file("sst2_phrases", f"{part}.tsv"))) for part in ("train", "dev")
        )
        if lab.quick:
            training, validation = training.at(range(300)), validation.at(range(100))
        subjects = []
        for seed in range(lab.many(SEEDS, 2)):
            folder = lab.folder("seeds") / str(seed)
            plan = TrainingPlan(
                combine="con",
                layers=4,
                heads=4,
                width=128,
                max_length=64,
                epochs=lab.many(2, 1),
                batch_tokens=2048,
                seed=seed,
            )
            train(training, folder, plan, validation=validation, tokenizer=lab.bundled().tokenizer)
            subjects.append(load(folder))
        return subjects

    return lab.once("seeds", get)


@claim(
    "anisotropy",
    "P3",
    "anisotropy figure",
    "Hidden states of different tokens point in similar directions, the transformed vectors that ALTI compares much "
    "less.",
)
def _(lab: Lab) -> Finding:
    subject, on = sentiment(lab)
    chance = np.random.default_rng(0)
    drawn = [_drawn(subject, example.text, chance) for example in _sentences(lab)]
    states, parts = (torch.stack([pair[kind] for pair in drawn]) for kind in (0, 1))  # [text layer width]
    first, second = (slice(start, len(drawn) // 2 * 2, 2) for start in (0, 1))

    def cosines(vectors: torch.Tensor) -> Float[np.ndarray, "pair layer"]:
        return torch.cosine_similarity(vectors[first], vectors[second], dim=-1).double().numpy()

    apart = cosines(states) - cosines(parts)
    layers = range(apart.shape[1])
    return Finding(
        f"{on}; one token of each, in pairs",
        (Effect("cosine of states − of transformed vectors, mean over layers", mean_of(apart.mean(1))),),
        tuple(Figure(f"layer {layer + 1}", mean_of(apart[:, layer])) for layer in layers),
    )


def _drawn(subject: Subject, text: str, chance: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The input state of a random query, and a random key's transformed vector, at each layer: two [layer width]."""
    blocks = subject.capture(text).blocks
    query, key = chance.integers(0, len(blocks[0].input), 2)
    return torch.stack([block.input[query] for block in blocks]), torch.stack(
        [_transformed(block, int(query), int(key)) for block in blocks]
    )


def _transformed(block: Block, query: int, key: int) -> torch.Tensor:
    """T_i(x_j) of one query and one key."""
    parts = decompose(block)
    attended = block.weights()[:, query, key] @ parts.vectors[:, key]  # [width]
    return attended * parts.factor[query] + (parts.own[query] if query == key else 0)
