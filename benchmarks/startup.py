"""Cost of starting `thalweg explain`, relative to importing torch and transformers and loading the model by hand.

Processes take turns, and each keeps its best: CPU seconds, since other work on the machine changes how long they wait.
"""

import os
import resource
import subprocess
import sys

from thalweg.models.load import DEFAULT_FOLDER

BY_HAND = f"""
import torch, transformers
transformers.utils.logging.disable_progress_bar()
transformers.AutoModelForSequenceClassification.from_pretrained({str(DEFAULT_FOLDER)!r})
transformers.AutoTokenizer.from_pretrained({str(DEFAULT_FOLDER)!r})
"""
COMMANDS = {
    "by hand": ("-c", BY_HAND),
    "thalweg explain": ("-m", "thalweg", "explain", "a gorgeous, witty, seductive movie."),
    "thalweg methods": ("-m", "thalweg", "methods"),
    "a refusal": ("-m", "thalweg", "explain", "a text", "--method", "alchemy"),
}
ROUNDS = 5


def cpu_seconds(*arguments: str) -> float:
    """CPU seconds of a Python process."""
    before = _children()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            best[name] = min(best[name], cpu_seconds(*arguments))
    ratio = best["thalweg explain"] / best["by hand"]
    print(f"thalweg explain / imports and model by hand, CPU seconds (goal: at most 1.2): {ratio:.2f}")
    for name, seconds in best.items():
        print(f"  {name:16} {seconds:.2f} s")


if __name__ == "__main__":
    main()
