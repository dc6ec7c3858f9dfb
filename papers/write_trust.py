"""Print docs/trust_by_length.md: how trust in attention changes with length, measured on the models at hand.

    python -m papers.write_trust ../shared/data/long_text/alice_in_wonderland.txt

The text is cut into pieces of 8 to 512 tokens; MiniLM is looked for where `make test-real` puts it.
"""

import sys
from pathlib import Path

import thalweg as tw
from tests.real.models import minilm
from thalweg.identifiability.result import LengthCurve

COLUMNS = (
    "tokens", "rank of T", "without effect", "with rows summing to one", "Pearson", "Spearman", "readable",
    "or given the keys",
)  # fmt: skip


def table(curve: LengthCurve) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for mean, _ in curve.lengths():
        lines.append(
            f"| {mean.tokens} | {mean.rank:.1f} | {mean.null_share:.1%} | {mean.null_share_row_sum:.1%} "
            f"| {mean.pearson:.3f} | {mean.spearman:.3f} | {mean.readable:.0%} | {mean.readable_given_keys:.0%} |"
        )
    return "\n".join(lines)


def main() -> None:
    path = Path(sys.argv[1])
    lines = path.read_text(encoding="utf-8").splitlines()
    print("# Trust in attention against length\n")
    print(f"Means over all heads, four pieces of *{path.stem.replace('_', ' ')}* per length; written by")
    print(
        "`scripts/write_trust.py`. What the columns mean stands in [trust.md](trust.md): shares are by norm, Pearson's"
    )
    print("correlation is over all weights of a head and Spearman's within rows, both between raw attention and the")
    print("effective attention of Brunner et al.; readable are heads all of whose rows are determined.\n")
    subjects = {
        "The model that ships: 4 layers, values of 16 dimensions": tw.load(),
        "all-MiniLM-L6-v2: 6 layers, values of 32 dimensions": minilm(),
    }
    for name, subject in subjects.items():
        print(f"## {name}\n\n{table(tw.trust_by_length(subject, lines))}\n")


if __name__ == "__main__":
    main()
