"""Print docs/identifiable_encoders.md: are heads that are added as good as concatenated ones, and easier to read?

    python -m papers.write_identifiable ../shared/data runs > docs/identifiable_encoders.md

Trains one-layer encoders as Bhardwaj et al. 2021 did, with concatenated and with added heads, seven key sizes and three
seeds, on six sets of texts; measures accuracy on the test texts and certificates on some of them. Runs are kept in
the folder `runs`: what was stopped goes on, what is done is only read. Takes about an hour on one core.
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

WORDS = f"""# Encoders whose attention is identifiable

Bhardwaj et al. 2021 propose attention whose keys are small and whose values are as wide as the model, with heads added
(*add*) instead of concatenated (*con*), and say that it is more identifiable and equally performant. Tried here:
one-layer encoders of width {WIDTH} with {HEADS} heads ({WIDTH // HEADS} dimensions of values per head in *con*, {WIDTH}
in *add*, with more parameters), cut at {LENGTH} tokens, key sizes from 1 to 64, {len(SEEDS)} seeds, trained from
nothing on each set's training texts (a tenth of them chooses the epoch) and tested on its test texts. Written by
`python -m papers.write_identifiable ../shared/data runs`; a single run is `thalweg train --combine add --key-size 16`.
"""


Key = tuple[str, Combine, int, int]  # set, combine, key size, seed
Results = dict[Key, Measured]


def run(data: Path, runs: Path, names: Sequence[str]) -> Results:
    """Train what is not trained, measure what is not measured."""
    results: Results = {}
    every = list(itertools.product(names, KEY_SIZES, SEEDS, COMBINES))
    examples = {
        name: [LabelledTexts(*read_labelled(data / name / f"{part}.tsv")) for part in ("train", "test")]
        for name in names
    }
    with progress("experiment") as report:
        for done, (name, key_size, seed, combine) in enumerate(every, 1):
            learnt, tested = examples[name]
            folder = runs / name / f"{combine}-{key_size}-{seed}"
            train(learnt, folder, plan_of(combine, key_size, seed), test=tested)
            results[name, combine, key_size, seed] = measured(folder, tested)
            report(done, len(every))
    return results


def accuracies(results: Results, names: Sequence[str]) -> str:
    """By set, key size and combination, means over seeds; at the end of a row the difference over all key sizes."""

    def right(name: str, combine: Combine, key_size: int) -> np.ndarray:
        return np.array([results[name, combine, key_size, seed].right for seed in SEEDS], dtype=float)

    def by_seed(name: str, combine: Combine) -> np.ndarray:
        """[seed text]: runs of one seed share their split and tokenizer, and count once over all key sizes."""
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
        small = [interval(right(name, one, 1) - right(name, one, 16)) for one in COMBINES]
        shown = " | ".join(f"{100 * mean:+.1f} ± {100 * away:.1f}" for mean, away in small)
        lines.append(f"| {name} | {100 * gain:+.2f} ± {100 * reach:.2f} | {verdict(gain, reach)} | {shown} |")
    return "\n".join(lines)


def verdict(gain: float, reach: float) -> str:
    if abs(gain) + reach <= MARGIN:
        return "equal within a point"
    if abs(gain) > reach:
        return "add is better" if gain > 0 else "con is better"
    return "no difference found"


def certificates(results: Results, names: Sequence[str]) -> str:
    """By set and combination over all key sizes; what depends on the keys follows by key size over all sets."""
    columns: dict[str, Callable[[Measured], float]] = {
        "tokens": lambda one: one.tokens,
        "free dimensions of a row": lambda one: one.ambiguity,
        "of all heads, their outputs known": lambda one: one.apart,
        "of all heads, the layer's output known": lambda one: one.together,
        "heads identifiable": lambda one: one.identifiable,
    }

    def mean(chosen: Callable[[Key], bool], figure: Callable[[Measured], float]) -> float:
        return float(np.mean([figure(one) for key, one in results.items() if chosen(key)]))

    def shown(name: str, value: float) -> str:
        return f"{value:.0%}" if name.startswith("heads") else f"{value:.1f}"

    lines = [f"| set | | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for name, combine in itertools.product(names, COMBINES):
        cells = [shown(said, mean(lambda key: key[:2] == (name, combine), of)) for said, of in columns.items()]  # noqa: B023
        lines.append(f"| {name} | {combine} | {' | '.join(cells)} |")
    given: dict[str, Callable[[Measured], float]] = {
        "free dimensions of a row, given the keys": lambda one: one.given_keys,
        "heads identifiable, or given the keys": lambda one: one.identifiable_given_keys,
        "free dimensions of a head, queries and keys anything": lambda one: one.keys_free,
    }
    lines += ["", f"| key size | | {' | '.join(given)} |", "| --- " * (len(given) + 2) + "|"]
    for size, combine in itertools.product(KEY_SIZES, COMBINES):
        cells = [shown(said, mean(lambda key: key[1:3] == (combine, size), of)) for said, of in given.items()]  # noqa: B023
        lines.append(f"| {size} | {combine} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    data, runs, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or SETS
    torch.set_num_threads(1)
    results = run(data, runs, names)
    print(WORDS)
    print("## Accuracy on the test texts, in %, by key size\n")
    print(
        "Means over three seeds with 95 % intervals (chance of the texts and of the seeds); test texts in brackets.\n"
    )
    print(accuracies(results, names))
    print(f"\n## Certificates\n\nMeans over {CERTIFIED} test texts, all heads, key sizes and seeds.\n")
    print(certificates(results, names))


if __name__ == "__main__":
    main()
