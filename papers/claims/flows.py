"""P4: followed through the layers, attention agrees better with what removing a token does than taken layer by layer.

Tables 1 and 2 are about an encoder of 6 layers, 8 heads and width 128 that tells a verb's number from the words before
it; it is trained here (`agreement.py`). Table 3 is about DistilBERT on SST-2, replaced here by a fine-tuned MiniLM.
"""

import numpy as np
from jaxtyping import Float

from papers.claims.agreement import (
    BLANK_OUT,
    GRADIENTS,
    LAYERS,
    LENGTH,
    METHODS,
    TEXTS,
    Values,
    at,
    correlations,
    natural,
    test_examples,
    trained_encoder,
)
from papers.claims.contributions import sentiment, sentiment_bench
from papers.claims.lab import Lab
from papers.claims.ledger import Effect, Figure, Finding, NotHereError, Side, as_mean, claim, mean_of
from thalweg.attribution.explain import explain
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.measure import gold_of
from thalweg.encoders.training.tokenizer import token_ids

DECODER = "SmolLM2-135M-Instruct"
BETWEEN: tuple[tuple[float, Side], ...] = ((0.25, "below"), (-0.25, "above"))  # bounds of a weak correlation
SHORT_NAMES = {"raw_attention": "raw", "attention_rollout": "rollout", "attention_flow": "flow"}


def _on(lab: Lab) -> str:
    return f"the encoder trained here, {lab.many(TEXTS)} test sentences, read at [CLS]"


def _row(values: Values, method: str) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{SHORT_NAMES[method]} at layer {layer}", mean_of(values[at(method, layer)]))
        for layer in range(1, LAYERS + 1)
    )


def _difference(values: Values, first: str, second: str) -> Float[np.ndarray, " input"]:
    return values[first] - values[second]


@claim(
    "agreement-encoder",
    "P4",
    "section 2",
    "An encoder of 6 layers, 8 heads and width 128 learns to predict the number of the verb (accuracy 0.96).",
)
def _(lab: Lab) -> Finding:
    subject, training = trained_encoder(lab)
    assert training.figures.test is not None and subject.tokenizer is not None
    texts = natural(lab)
    ids = token_ids(subject.tokenizer, texts.texts, LENGTH)
    predicted = predict(subject.model, ids, int(str(subject.tokenizer.pad_token_id))).argmax(1)
    right = (predicted == gold_of(texts.labels, training.labels)).double().numpy()
    frequent = max(map(texts.labels.count, set(texts.labels))) / len(texts.labels)
    hard = as_mean(training.figures.test, training.counts["test examples"])
    return Finding(
        f"{training.counts['training examples']:,} training sentences (the paper: over a million), "
        f"{len(texts.texts):,} unselected test sentences",
        (Effect("accuracy − share of the more frequent number", mean_of(right - frequent)),),
        (
            Figure("accuracy", mean_of(right)),
            Figure("accuracy on sentences of Linzen et al. selected to be hard", hard),
        ),
    )


@claim(
    "raw-falls",
    "P4",
    "table 1",
    "Raw attention agrees with blank-out in the first layer, and less in the middle (0.69, then −0.11 and −0.09 at "
    "layers 3 and 4).",
)
def _(lab: Lab) -> Finding:
    values = correlations(lab, BLANK_OUT)
    first = values[at("raw_attention", 1)]
    lower = [(layer, mean_of(values[at("raw_attention", layer)] - first)) for layer in (3, 4)]
    return Finding(
        _on(lab),
        (
            Effect("ρ of raw attention at layer 1", mean_of(first)),
            *(Effect(f"layer {layer} − layer 1", less, 0.0, "below") for layer, less in lower),
        ),
        _row(values, "raw_attention"),
    )


@claim(
    "rollout-rises", "P4", "table 1", "The agreement of rollout with blank-out increases with the layer (0.32 to 0.71)."
)
def _(lab: Lab) -> Finding:
    values = correlations(lab, BLANK_OUT)
    gain = _difference(values, at("attention_rollout", LAYERS), at("attention_rollout", 1))
    return Finding(
        _on(lab), (Effect("ρ of rollout, layer 6 − layer 1", mean_of(gain)),), _row(values, "attention_rollout")
    )


@claim(
    "flow-rises",
    "P4",
    "table 1",
    "The agreement of flow with blank-out increases with the layer (0.32 to 0.70), and earlier than that of "
    "rollout (0.70 against "
    "0.51 at layer 3).",
)
def _(lab: Lab) -> Finding:
    values = correlations(lab, BLANK_OUT)
    gain = _difference(values, at("attention_flow", LAYERS), at("attention_flow", 1))
    sooner = _difference(values, at("attention_flow", 3), at("attention_rollout", 3))
    return Finding(
        _on(lab),
        (
            Effect("ρ of flow, layer 6 − layer 1", mean_of(gain)),
            Effect("flow − rollout at layer 3", mean_of(sooner)),
        ),
        _row(values, "attention_flow"),
    )


def _top(lab: Lab, metric: str) -> Finding:
    values = correlations(lab, metric)
    raw = at("raw_attention", LAYERS)
    others = [at(method, LAYERS) for method in METHODS[1:]]
    return Finding(
        _on(lab),
        tuple(
            Effect(f"ρ at the top, {SHORT_NAMES[other.split(':')[0]]} − raw", mean_of(_difference(values, other, raw)))
            for other in others
        ),
        tuple(Figure(SHORT_NAMES[name.split(":")[0]], mean_of(values[name])) for name in (raw, *others)),
    )


@claim(
    "top-blank-out",
    "P4",
    "table 1",
    "At the top, rollout and flow agree with blank-out better than raw attention (0.71, 0.70, 0.29).",
)
def _(lab: Lab) -> Finding:
    return _top(lab, BLANK_OUT)


@claim(
    "top-gradients",
    "P4",
    "table 2",
    "At the top, rollout and flow agree with input gradients better than raw attention (0.54, 0.61, 0.46).",
)
def _(lab: Lab) -> Finding:
    return _top(lab, GRADIENTS)


@claim(
    "flow-gradients",
    "P4",
    "table 2",
    "Flow agrees with input gradients better than rollout at the top (0.61 against 0.54).",
)
def _(lab: Lab) -> Finding:
    values = correlations(lab, GRADIENTS)
    gain = _difference(values, at("attention_flow", LAYERS), at("attention_rollout", LAYERS))
    return Finding(
        _on(lab),
        (Effect("ρ at the top, flow − rollout", mean_of(gain)),),
        (*_row(values, "attention_flow"), *_row(values, "attention_rollout")),
    )


@claim("first-layer", "P4", "section 4", "At the first layer, rollout and flow are identical.")
def _(lab: Lab) -> Finding:
    subject, _ = trained_encoder(lab)
    apart = []
    for example in test_examples(lab, 50):
        capture = subject.capture(example.text)
        rollout, flow = (explain(subject, capture, method, layer=0).scores for method in METHODS[1:])
        apart.append(float(np.abs(rollout - flow).max()))
    on = f"the encoder trained here, {len(apart)} test sentences, read at [CLS]"
    return Finding(on, (Effect("largest difference of a score", mean_of(apart), 1e-6, "below"),))


@claim(
    "weak-on-sentiment",
    "P4",
    "table 3",
    "On DistilBERT for SST-2 all correlations with input gradients are weak (0.08 to 0.14).",
)
def _(lab: Lab) -> Finding:
    values = sentiment_bench(lab).values("gradient_agreement")
    _, on = sentiment(lab)
    return Finding(
        on,
        tuple(
            Effect(f"ρ of {SHORT_NAMES[method]} at the top", mean_of(values[method]), bound, side)
            for method in METHODS
            for bound, side in BETWEEN
        ),
    )


@claim("flow-spreads", "P4", "section 4", "Rollout is sharper; flow spreads over a set of important tokens.")
def _(lab: Lab) -> Finding:
    subject, _ = trained_encoder(lab)

    def entropy(row: Float[np.ndarray, " source"]) -> float:
        shares = row[row > 0] / row.sum()
        return float(-(shares * np.log(shares)).sum() / np.log(len(row)))

    wider = []
    for example in test_examples(lab, 100):
        capture = subject.capture(example.text)
        rollout, flow = (entropy(explain(subject, capture, method).scores[0]) for method in METHODS[1:])
        wider.append(flow - rollout)
    return Finding(
        f"the encoder trained here, {lab.many(100)} test sentences, the row of [CLS]",
        (Effect("entropy (share of the largest), flow − rollout", mean_of(wider)),),
    )


@claim(
    "raw-uniform",
    "P4",
    "sections 1 and 4, figure 1",
    "In higher layers raw attention becomes nearly uniform: it becomes less and less informative.",
)
def _(lab: Lab) -> Finding:
    subject, _ = trained_encoder(lab)
    entropies = []
    for example in test_examples(lab, 100):
        capture = subject.capture(example.text)
        rows = [explain(subject, capture, "raw_attention", "all", layer=layer).scores for layer in range(LAYERS)]
        entropies.append([float(-(row * np.log(row + 1e-12)).sum(1).mean() / np.log(len(row))) for row in rows])
    by_layer = np.array(entropies)  # [text layer]
    return Finding(
        f"the encoder trained here, {lab.many(100)} test sentences, all rows, heads averaged",
        (
            Effect("entropy (share of the largest), layers 4 to 6", mean_of(by_layer[:, 3:].mean(1)), 0.9),
            Effect("layers 4 to 6 − layer 1", mean_of(by_layer[:, 3:].mean(1) - by_layer[:, 0])),
        ),
    )


@claim(
    "early-tokens",
    "P4",
    "section 5",
    "In decoders the causal mask makes rollout and flow favour early tokens.",
)
def _(lab: Lab) -> Finding:
    subject = lab.packaged(DECODER)

    def measure() -> list[list[float]]:
        """Share of the first quarter relative to its length, by method: without the first token, and with it."""
        shares = []
        for text in lab.sentences(lab.many(12, 2)):
            capture = subject.capture(text)
            rows = [explain(subject, capture, method).scores[0] for method in METHODS[1:]]
            shares.append([_first_quarter(part) for row in rows for part in (row[1:], row)])
        return shares

    shares = np.array(lab.kept("early", measure)).reshape(-1, 2, 2)  # [text method part]
    names = [SHORT_NAMES[method] for method in METHODS[1:]]
    return Finding(
        f"{DECODER}, {len(shares)} sentences of MRPC, read at the last token; the first token, which "
        "also acts as an attention sink, is left out",
        tuple(
            Effect(f"share of the first quarter, relative to its length: {name}", mean_of(shares[:, place, 0]), 1.0)
            for place, name in enumerate(names)
        ),
        tuple(
            Figure(f"with the first token: {name}", mean_of(shares[:, place, 1])) for place, name in enumerate(names)
        ),
    )


def _first_quarter(row: Float[np.ndarray, " source"]) -> float:
    count = len(row) // 4
    return float(row[:count].sum() / row.sum()) / (count / len(row))


@claim(
    "pronouns",
    "P4",
    "section 4, figure 4",
    "In two sentences with a masked pronoun, flow agrees with BERT's preference of his or her in both, rollout in one.",
)
def _(lab: Lab) -> Finding:
    raise NotHereError(
        "it is about two sentences on BERT-base with its masked-language head, whose weights are not available; "
        "two sentences would not decide it either"
    )
