"""Print docs/distilled.md: the bundled model, made more identifiable.

    python -m papers.write_distilled ../shared/data/sst2_sentences runs/distilled > docs/distilled.md

Replaces its attention by a layer with other sizes and trains the result on the original's logits and the labels. Runs
are kept in the folder: interrupted runs resume and finished runs are only read. Takes about 15 minutes.
"""

import sys
from pathlib import Path

import numpy as np
import torch

import thalweg as tw
from thalweg.encoders import IdentifiableForSequenceClassification, config_like, inherit
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.measure import Predictions, gold_of
from thalweg.encoders.training.measure import figures as measure
from thalweg.encoders.training.plan import Combine, TrainingPlan
from thalweg.encoders.training.result import ClassifierFigures
from thalweg.encoders.training.tokenizer import token_ids
from thalweg.encoders.training.train import train
from thalweg.files.tables import read_labelled
from thalweg.identifiability.by_length import pieces_of
from thalweg.models.subject import Subject
from thalweg.rates import Rate

PLANS: tuple[tuple[Combine, int], ...] = (("add", 16), ("add", 4), ("con", 4))
COLUMNS = (
    "model", "parameters", "test accuracy, %", "certified up to (tokens)", "identifiable heads", "separable layers",
    "smallest singular value", "same predictions as the original",
)  # fmt: skip
INTRODUCTION = """# A classifier made more identifiable

The bundled model (4 layers, width 160, 10 heads of 16) with its attention replaced: keys of another size, values as
wide as the model, heads added. The replacement alone does not change the model's output
(`thalweg.encoders.inherit`): with keys of the original size, W_v·W_o becomes the value projection; smaller keys use
the best approximation of that rank. The model is then trained for two epochs on the original's logits and the labels
of SST-2:

    thalweg train --file train.tsv --validation dev.tsv --test test.tsv --init-from thalweg-default --distil \\
        --combine add --key-size 16 --epochs 2 --out more-identifiable

Written by `papers/write_distilled.py`. *Certified up to* and *identifiable heads* assume that each head's own output
is known; heads are counted on the eight longest validation texts. The singular value is the smallest one of T on a
text of 128 tokens, relative to the largest, median over heads: it tells how clearly the last direction is resolved.
"""


def row(
    name: str,
    subject: Subject,
    figures: ClassifierFigures,
    logits: torch.Tensor,
    original: torch.Tensor,
    text: list[int],
) -> str:
    smallest = np.median([head.singular_values[-1] for head in tw.trust(subject, text).heads])
    same = float((logits.argmax(1) == original.argmax(1)).double().mean())
    assert figures.test is not None
    cells = (
        name, f"{figures.parameters:,}", shown(figures.test), str(figures.certified_length),
        f"{figures.identifiable:.0%}", f"{figures.separable:.0%}", f"{smallest:.0e}", f"{same:.1%}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def shown(rate: Rate) -> str:
    return f"{100 * rate.rate:.1f} ({100 * rate.low:.1f} to {100 * rate.high:.1f})"


def main() -> None:
    data, runs = Path(sys.argv[1]), Path(sys.argv[2])
    parts = {name: LabelledTexts(*read_labelled(data / f"{name}.tsv")) for name in ("train", "dev", "test")}
    original = tw.load()
    assert original.tokenizer is not None
    labels = [label for _, label in sorted((original.model.config.id2label or {}).items())]
    ids = {name: token_ids(original.tokenizer, parts[name].texts, 512) for name in ("dev", "test")}
    (text,) = pieces_of(original, parts["test"].texts, [128], 1)

    def logits_of(subject: Subject) -> dict[str, torch.Tensor]:
        return {name: predict(subject.model, rows, 0) for name, rows in ids.items()}

    def predictions(logits: dict[str, torch.Tensor]) -> list[Predictions]:
        return [Predictions(logits[name], gold_of(parts[name].labels, labels)) for name in ("dev", "test")]

    before = logits_of(original)
    print(INTRODUCTION)
    print(f"| {' | '.join(COLUMNS)} |\n" + "| --- " * len(COLUMNS) + "|")
    before_figures = measure(original, parts["dev"].texts, ids["dev"], *predictions(before))
    print(row("the original", original, before_figures, before["test"], before["test"], text), flush=True)
    for combine, key_size in PLANS:
        name = f"{combine}, keys of {key_size}"
        model = IdentifiableForSequenceClassification(config_like(original.model, combine=combine, key_size=key_size))
        inherit(model.eval(), original.model)
        swapped = Subject(model, original.tokenizer, "classification", name)
        now = logits_of(swapped)
        now_figures = measure(swapped, parts["dev"].texts, ids["dev"], *predictions(now))
        print(row(f"{name}, swapped", swapped, now_figures, now["test"], before["test"], text), flush=True)
        result = train(
            parts["train"],
            runs / f"{combine}-{key_size}",
            TrainingPlan(combine=combine, key_size=key_size, epochs=2),
            validation=parts["dev"],
            test=parts["test"],
            init_from=original,
            teacher=original,
        )
        trained = tw.load(runs / f"{combine}-{key_size}")
        print(
            row(f"{name}, distilled", trained, result.figures, logits_of(trained)["test"], before["test"], text),
            flush=True,
        )


if __name__ == "__main__":
    main()
