"""Print docs/mixing.md: how tokens mix, on the bundled model and MiniLM.

    python -m papers.write_mixing ../shared/data/mrpc/train.jsonl

Needs the real models that `make test-real` installs. Takes a few minutes.
"""

import json
import sys
from pathlib import Path

import thalweg as tw
from tests.real.models import minilm
from thalweg.attribution.mixing_result import DISTANCES, KINDS, Mixing

INTRODUCTION = """# How tokens mix

Means over all tokens of MRPC sentences, in %, written by `papers/write_mixing.py`; `thalweg mix --file texts`
measures the same on your model. Maps lead from the embeddings to each layer. Hidden token attribution (Brunner et
al. 2020) uses derivatives of the whole model, each share accurate to 5 %; ALTI and norm-based maps are products of
per-layer maps. *own* is the share that a token contributes to itself, and *not own* the share of tokens that have a
larger contributor than themselves. The other columns are the shares of neighbours on both sides, by distance, and of
kinds of tokens.
"""


def tables(mixing: Mixing) -> str:
    columns = ("layer", "own", "not own", *DISTANCES, *KINDS)
    lines = []
    for method, figures in mixing.figures.items():
        lines += [f"**{method}**\n", f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
        for number in range(len(mixing.layers)):
            shares = (
                figures.own[number],
                figures.not_own[number],
                *figures.by_distance[number],
                *figures.by_kind[number],
            )
            lines.append(f"| {number + 1} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    texts = list(dict.fromkeys(row["sentence1"] for row in rows))
    print(INTRODUCTION)
    for name, subject, count in (("The bundled model", tw.load(), 24), ("all-MiniLM-L6-v2", minilm(), 1)):
        mixing = tw.mixing(subject, texts[:count])
        print(f"## {name}\n\n{mixing.texts} sentences, {mixing.tokens} tokens.\n\n{tables(mixing)}", flush=True)


if __name__ == "__main__":
    main()
