"""Write docs/token_identity.md: token identifiability of the model that ships and of real models.

    python -m scripts.write_probes ../shared/data/mrpc/train.jsonl

Needs the real models of `make test-real`. Runs are kept in a folder (--keep) and go on there after a stop.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import thalweg as tw
from tests.real.models import minilm, second_seed, smollm
from thalweg.probing.probe import probe
from thalweg.probing.result import Probes

PARTS = ("whole", "angle", "norm")
RUNS: dict[str, dict[str, Any]] = {
    "sentence": {"kinds": ("identity", "linear"), "parts": PARTS},
    "previous": {"kinds": ("identity", "linear"), "to": "previous"},
    "vocabulary": {"kinds": ("identity", "linear"), "parts": PARTS, "candidates": "vocabulary"},
    "sentence, mlp": {"kinds": ("mlp",)},
    "vocabulary, mlp": {"kinds": ("mlp",), "candidates": "vocabulary"},
}
MODELS: dict[str, tuple[Callable[[], tw.Subject], int, tuple[str, ...]]] = {
    "shipped": (tw.load, 700, tuple(RUNS)),
    "minilm": (minilm, 700, tuple(RUNS)),
    "second": (second_seed, 700, ("sentence", "previous", "vocabulary")),
    "smollm": (smollm, 300, ("sentence", "previous")),
}


def measure(texts: list[str], keep: Path) -> dict[str, dict[str, Probes]]:
    found: dict[str, dict[str, Probes]] = {name: {} for name in MODELS}
    for run, choices in RUNS.items():
        for name, (load, count, wanted) in MODELS.items():
            if run in wanted:
                folder = keep / f"{name}-{run.replace(', ', '-')}"
                found[name][run] = probe(load(), texts[:count], folder=folder, **choices)
                print(f"{name}: {run}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="MRPC as JSONL, of which sentence1 is read")
    parser.add_argument("--keep", type=Path, default=Path("build/probes"))
    given = parser.parse_args()
    lines = (json.loads(line)["sentence1"] for line in given.file.read_text().splitlines())
    measure(list(dict.fromkeys(lines)), given.keep)


if __name__ == "__main__":
    main()
