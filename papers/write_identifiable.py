"""Print docs/identifiable_encoders.md: accuracy and identifiability of encoders with added and concatenated heads.

    python -m papers.write_identifiable ../shared/data runs > docs/identifiable_encoders.md

Trains one-layer encoders as Bhardwaj et al. 2021 did, with concatenated and with added heads, seven key sizes and three
seeds, on six datasets. Measures accuracy on the test texts and certificates on some of them. Runs are kept in the
folder `runs`: interrupted runs resume and finished runs are only read. Takes about an hour on one core.
"""

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from papers.claims.encoders import (
    CERTIFIED,
    COMBINES,
    HEADS,
    LENGTH,
    MARGIN,
    WIDTH,
    Measured,
    interval,
    measured,
    plan_of,
)
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.plan import Combine
from thalweg.encoders.training.train import train
from thalweg.files.tables import read_labelled
from thalweg.progress import progress

SETS = ("trec6", "cr", "mpqa", "sms_spam", "dbpedia14", "sst2_sentences")
KEY_SIZES = (1, 2, 4, 8, 16, 32, 64)
SEEDS = (0, 1, 2)

INTRODUCTION = f"""# Encoders with identifiable attention

Bhardwaj et al. 2021 propose attention with small keys and values as wide as the model, whose heads are added (*add*)
instead of concatenated (*con*), and report that it is more identifiable and equally accurate. We test one-layer
encoders of width {WIDTH} with {HEADS} heads ({WIDTH // HEADS} value dimensions per head in *con*; {WIDTH} in *add*,
which has more parameters), texts truncated to {LENGTH} tokens, key sizes from 1 to 64 and {len(SEEDS)} seeds. They
are trained from scratch on each dataset's training texts, a tenth of which selects the epoch, and evaluated on its
test texts. Written by `python -m papers.write_identifiable ../shared/data runs`; a single run is `thalweg train
--combine add --key-size 16`.
"""


Key = tuple[str, Combine, int, int]  # set, combine, key size, seed
Results = dict[Key, Measured]


def run(data: Path, runs: Path, names: Sequence[str]) -> Results:
    """Train and measure whatever is missing."""
    results: Results = {}
    every = list(itertools.product(names, KEY_SIZES, SEEDS, COMBINES))
    examples = {
        name: [LabelledTexts(*read_labelled(data / name / f"{part}.tsv")) for part in ("train", "test")]
        for name in names
    }
    with progress("experiment") as report:
        for done, (name, key_size, seed, combine) in enumerate(every, 1):
            training, testing = examples[name]
            folder = runs / name / f"{combine}-{key_size}-{seed}"
            train(training, folder, plan_of(combine, key_size, seed), test=testing)
            results[name, combine, key_size, seed] = measured(folder, testing)
            report(done, len(every))
    return results


def accuracies(results: Results, names: Sequence[str]) -> str:
    """Mean accuracy by dataset, combination and key size, then differences over all key sizes."""

    def right(name: str, combine: Combine, key_size: int) -> np.ndarray:
        return np.array([results[name, combine, key_size, seed].right for seed in SEEDS], dtype=float)

    def by_seed(name: str, combine: Combine) -> np.ndarray:
        """[seed text]: runs of one seed share their split and tokenizer, so they are averaged over key sizes first."""
        sizes = [[results[name, combine, size, seed].right for size in KEY_SIZES] for seed in SEEDS]
        return np.array(sizes, dtype=float).mean(1)

    lines = [f"| set | | {' | '.join(map(str, KEY_SIZES))} | all |", "| --- " * (len(KEY_SIZES) + 3) + "|"]
    for name, combine in itertools.product(names, COMBINES):
        cells = [interval(right(name, combine, size)) for size in KEY_SIZES]
        whole, texts_tested = by_seed(name, combine).mean(), by_seed(name, combine).shape[1]
        texts = f"{name} ({texts_tested})" if combine == "con" else ""
        shown = " | ".join(f"{100 * mean:.1f} ± {100 * reach:.1f}" for mean, reach in cells)
        lines.append(f"| {texts} | {combine} | {shown} | {100 * whole:.1f} |")
    lines += ["", "| set | add − con | verdict | con, keys of 1 − keys of 16 | add, keys of 1 − keys of 16 |"]
    lines.append("| --- " * 5 + "|")
    for name in names:
        gain, reach = interval(by_seed(name, "add") - by_seed(name, "con"))
        small = [interval(right(name, kind, 1) - right(name, kind, 16)) for kind in COMBINES]
        shown = " | ".join(f"{100 * mean:+.1f} ± {100 * away:.1f}" for mean, away in small)
        lines.append(f"| {name} | {100 * gain:+.2f} ± {100 * reach:.2f} | {verdict(gain, reach)} | {shown} |")
    return "\n".join(lines)


def verdict(gain: float, reach: float) -> str:
    if abs(gain) + reach <= MARGIN:
        return "equal within a point"
    if abs(gain) > reach:
        return "add is better" if gain > 0 else "con is better"
    return "no significant difference"


def certificates(results: Results, names: Sequence[str]) -> str:
    """Certificates by dataset and combination, then those that depend on the keys by key size."""
    columns: dict[str, Callable[[Measured], float]] = {
        "tokens": lambda run: run.tokens,
        "free dimensions per row": lambda run: run.ambiguity,
        "of all heads, given their outputs": lambda run: run.apart,
        "of all heads, given the layer's output": lambda run: run.together,
        "identifiable heads": lambda run: run.identifiable,
    }

    def mean(chosen: Callable[[Key], bool], figure: Callable[[Measured], float]) -> float:
        return float(np.mean([figure(run) for key, run in results.items() if chosen(key)]))

    def shown(name: str, value: float) -> str:
        return f"{value:.0%}" if name.endswith("heads") else f"{value:.1f}"

    lines = [f"| set | | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for name, combine in itertools.product(names, COMBINES):
        cells = [shown(column, mean(lambda key: key[:2] == (name, combine), of)) for column, of in columns.items()]  # noqa: B023
        lines.append(f"| {name} | {combine} | {' | '.join(cells)} |")
    by_keys: dict[str, Callable[[Measured], float]] = {
        "free dimensions per row, given the keys": lambda run: run.given_keys,
        "identifiable or locally unique heads": lambda run: run.identifiable_given_keys,
        "free dimensions per head, any queries and keys": lambda run: run.keys_free,
    }
    lines += ["", f"| key size | | {' | '.join(by_keys)} |", "| --- " * (len(by_keys) + 2) + "|"]
    for size, combine in itertools.product(KEY_SIZES, COMBINES):
        cells = [shown(column, mean(lambda key: key[1:3] == (combine, size), of)) for column, of in by_keys.items()]  # noqa: B023
        lines.append(f"| {size} | {combine} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    data, runs, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or SETS
    torch.set_num_threads(1)
    results = run(data, runs, names)
    print(INTRODUCTION)
    print("## Accuracy on the test texts, in %, by key size\n")
    print(
        "Means over three seeds with 95 % intervals (sampling of texts and seeds); number of test texts in brackets.\n"
    )
    print(accuracies(results, names))
    print(f"\n## Certificates\n\nMeans over {CERTIFIED} test texts, all heads, key sizes and seeds.\n")
    print(certificates(results, names))


if __name__ == "__main__":
    main()
