"""Run a corpus in a process of its own, and print how much its memory grew at most and what bound it gave."""

import json
import sys
from pathlib import Path

from transformers import GPT2Config, GPT2LMHeadModel

import thalweg as tw
from thalweg.corpus.run import run_corpus


def main(kind: str, file: str, warm_up_file: str, folder: str, options: str) -> None:
    subject = tw.load()
    if kind == "language model":  # its logits are far larger than its states
        config = GPT2Config(vocab_size=30_000, n_layer=2, n_embd=64, n_head=4)
        subject = tw.load(GPT2LMHeadModel(config).eval(), subject.tokenizer)
    run_corpus(subject, warm_up_file, f"{folder}/first", ["attention_rollout"])  # imports all libraries
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    corpus = run_corpus(subject, file, f"{folder}/rows", **json.loads(options))
    assert corpus.memory is not None
    grown = 1024 * (_kilobytes("VmHWM") - before)
    print(json.dumps({"failed": corpus.counts.failed, "grown": grown, "bound": corpus.memory}))


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
