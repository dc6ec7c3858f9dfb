"""Print docs/mixing.md: how tokens mix, on the models at hand.

    python -m papers.write_mixing ../shared/data/mrpc/train.jsonl

MiniLM is looked for where `make test-real` puts it. Takes some minutes.
"""

import json
import sys
from pathlib import Path

import thalweg as tw
from tests.real.models import minilm
from thalweg.attribution.result import DISTANCES, KINDS, Mixing

WORDS = """# How tokens mix

Means over all tokens of MRPC sentences, in %, written by `papers/write_mixing.py`; `thalweg mix --file texts` measures the
same on your model. Maps lead from the embeddings to each layer. Hidden token attribution (Brunner et al. 2020) uses
derivatives of the whole model, each share accurate to 5 %; ALTI and norm-based maps are products of per-layer maps. *own* is
the share that a token contributes to itself, and *not own* the share of tokens that have a larger contributor than
themselves. The other columns are the shares of neighbours on both sides, by distance, and of kinds of tokens.
"""
METHODS = ("hidden_token_attribution", "alti", "norm_based")


def tables(mixing: Mixing) -> str:
    columns = ("layer", "own", "not own", *DISTANCES, *KINDS)
    lines = []
    for method, found in mixing.figures.items():
        lines += [f"**{method}**\n", f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
        for number in range(len(mixing.layers)):
            shares = (found.own[number], found.not_own[number], *found.by_distance[number], *found.by_kind[number])
            lines.append(f"| {number + 1} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    texts = list(dict.fromkeys(row["sentence1"] for row in rows))
    print(WORDS)
    for name, subject, count in (("The bundled model", tw.load(), 24), ("all-MiniLM-L6-v2", minilm(), 1)):
        found = tw.mixing(subject, texts[:count], METHODS)
        print(f"## {name}\n\n{found.texts} sentences, {found.tokens} tokens.\n\n{tables(found)}", flush=True)


if __name__ == "__main__":
    main()
