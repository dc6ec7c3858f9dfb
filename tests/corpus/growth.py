"""A run in a process of its own, which prints how much its memory grew at most, and what was said of it."""

import json
import sys
from pathlib import Path

from transformers import GPT2Config, GPT2LMHeadModel

import thalweg as tw
from thalweg.corpus.run import run_corpus


def main(kind: str, file: str, first: str, folder: str, asked: str) -> None:
    subject = tw.load()
    if kind == "language model":  # whose logits are far larger than its states
        config = GPT2Config(vocab_size=30_000, n_layer=2, n_embd=64, n_head=4)
        subject = tw.load(GPT2LMHeadModel(config).eval(), subject.tokenizer)
    run_corpus(subject, first, f"{folder}/first", ["attention_rollout"])  # libraries are there from here on
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    found = run_corpus(subject, file, f"{folder}/rows", **json.loads(asked))
    assert found.memory is not None
    grown = 1024 * (_kilobytes("VmHWM") - before)
    print(json.dumps({"failed": found.counts.failed, "grown": grown, "said": found.memory}))


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
