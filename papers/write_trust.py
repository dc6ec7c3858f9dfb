"""Print docs/trust_by_length.md: identifiability against text length, on the bundled model and MiniLM.

    python -m papers.write_trust ../shared/data/long_text/alice_in_wonderland.txt

The text is cut into pieces of 8 to 512 tokens. Needs the real models that `make test-real` installs.
"""

import sys
from pathlib import Path

import thalweg as tw
from tests.real.models import minilm
from thalweg.identifiability.length_result import LengthCurve

COLUMNS = (
    "tokens", "rank of T", "null share", "null share, rows sum to one", "Pearson", "Spearman", "can move at least",
    "heads identifiable", "or locally unique given the keys", "rows identifiable", "or locally unique",
)  # fmt: skip

INTRODUCTION = """# Identifiability and length

Means over all heads, four pieces of *{text}* per length, written by `papers/write_trust.py`. The columns are
explained in [trust.md](trust.md). Shares are computed from norms. Correlations compare raw attention with the
effective attention of Brunner et al., Pearson's over all weights of a head and Spearman's within rows.
A head is *identifiable* if all of its rows are, so the share of heads falls with the number of rows alone; the
shares of rows do not.
"""


def table(curve: LengthCurve) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for mean, _ in curve.lengths():
        lines.append(
            f"| {mean.tokens} | {mean.rank:.1f} | {mean.null_share:.1%} | {mean.null_share_row_sum:.1%} "
            f"| {mean.pearson:.3f} | {mean.spearman:.3f} | {mean.movable:.1%} "
            f"| {mean.identifiable:.0%} | {mean.locally_unique:.0%} "
            f"| {mean.rows_identifiable:.1%} | {mean.rows_locally_unique:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    path = Path(sys.argv[1])
    lines = path.read_text(encoding="utf-8").splitlines()
    print(INTRODUCTION.format(text=path.stem.replace("_", " ")))
    subjects = {
        "The bundled model: 4 layers, values of 16 dimensions": tw.load(),
        "all-MiniLM-L6-v2: 6 layers, values of 32 dimensions": minilm(),
    }
    for name, subject in subjects.items():
        print(f"## {name}\n\n{table(tw.trust_by_length(subject, lines))}\n")


if __name__ == "__main__":
    main()
