"""Print docs/identifiable_encoders.md: are heads that are added as good as concatenated ones, and easier to read?

    python -m scripts.write_identifiable ../shared/data runs > docs/identifiable_encoders.md

Trains one-layer encoders as Bhardwaj et al. 2021 did, with concatenated and with added heads, seven key sizes and three
seeds, on eight sets of texts; measures accuracy on the test texts and certificates on some of them. Runs are kept in
the folder `runs`: what was stopped goes on, what is done is only read. Takes about an hour and a half on one core.
"""

import itertools
import sys
from pathlib import Path

import torch

from thalweg.progress import progress
from thalweg.tables import read_labelled
from thalweg.training.data import Examples
from thalweg.training.plan import Combine, Plan
from thalweg.training.train import train

SETS = ("trec6", "cr", "mpqa", "sms_spam", "dbpedia14", "sst2_sentences", "subj", "ag_news")
COMBINES: tuple[Combine, Combine] = ("con", "add")
KEY_SIZES = (1, 2, 4, 8, 16, 32, 64)
SEEDS = (0, 1, 2)
WIDTH, HEADS, LENGTH = 64, 4, 64


def plan_of(combine: Combine, key_size: int, seed: int) -> Plan:
    return Plan(
        combine=combine,
        key_size=key_size,
        width=WIDTH,
        heads=HEADS,
        layers=1,
        max_length=LENGTH,
        epochs=8,
        patience=2,
        batch_tokens=2048,
        seed=seed,
    )


def main() -> None:
    data, runs = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    with progress("experiment") as report:
        every = list(itertools.product(sys.argv[3:] or SETS, KEY_SIZES, SEEDS, COMBINES))
        for done, (name, key_size, seed, combine) in enumerate(every, 1):
            learnt, tested = (Examples(*read_labelled(data / name / f"{part}.tsv")) for part in ("train", "test"))
            train(learnt, runs / name / f"{combine}-{key_size}-{seed}", plan_of(combine, key_size, seed), test=tested)
            report(done, len(every))


if __name__ == "__main__":
    main()
