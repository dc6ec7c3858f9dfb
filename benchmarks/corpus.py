"""The cost of a corpus: texts per second against plain forward passes, and peak memory against the number of texts.

`python -m benchmarks.corpus` prints the tables; with a number of texts it does a single run and prints its peak memory.
"""

import random
import sys
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

import thalweg as tw
from benchmarks.timing import best_of, own_peak_megabytes, peak_megabytes
from thalweg.corpus.captures import make_batches
from thalweg.corpus.job import make_job
from thalweg.corpus.process import process_shard
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shards import CorpusText, Shard

BATCH = 32
JOBS = {
    "rollout": (("attention_rollout",), None),
    "certificate": ((), "values"),
    "alti": (("alti",), None),
}
GOALS = {"rollout": 2, "certificate": 2, "alti": 5}


def encoder(bundled: tw.Subject, layers: int, width: int) -> tw.Subject:
    """A random BERT with 12 heads and the tokenizer of the bundled model."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=bundled.model.config.vocab_size,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=12,
        intermediate_size=4 * width,
    )
    return tw.load(BertForSequenceClassification(config).eval(), bundled.tokenizer)


def sentences(count: int, min_words: int, max_words: int) -> list[str]:
    """Random texts, the same on every call."""
    tokenizer = tw.load().tokenizer
    assert tokenizer is not None
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha())
    draw = random.Random(0)
    return [" ".join(draw.choices(words, k=draw.randint(min_words, max_words))) for _ in range(count)]


def compare(subject: tw.Subject, texts: list[str], rounds: int) -> dict[str, float]:
    """Seconds of each job on these texts, and of plain forward passes on the same batches."""
    shard = Shard(0, tuple(CorpusText(number, number + 1, text) for number, text in enumerate(texts)))
    tokenizer = subject.tokenizer
    assert tokenizer is not None

    jobs = {
        name: make_job(subject, methods, certificate=certificate, batch=BATCH)
        for name, (methods, certificate) in JOBS.items()
    }
    batch_tokens = next(iter(jobs.values())).batch_tokens

    def plain() -> None:
        lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
        with torch.no_grad():
            for batch in make_batches(list(zip(lengths, shard.texts, strict=True)), BATCH, batch_tokens):
                subject.model(**tokenizer([text.text for text in batch], padding=True, return_tensors="pt"))

    return best_of(
        rounds, plain=plain, **{name: lambda job=job: process_shard(subject, job, shard) for name, job in jobs.items()}
    )


def peak(count: int) -> None:
    """Do one run over `count` texts and print its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(sentences(count, 2, 12)) + "\n", encoding="utf-8")
        run_corpus(tw.load(), file, Path(folder) / "rows", ["attention_rollout"], certificate=None)
    print(own_peak_megabytes())


def main() -> None:
    torch.set_num_threads(1)  # as a worker has; more threads only help large products
    bundled = tw.load()
    print("cost of a corpus relative to plain forward passes on the same batches of 32 texts, one thread\n")
    goals = (f"{name} (goal: at most {goal}) |" for name, goal in GOALS.items())
    print("| model | words | plain, texts per second |", *goals)
    print("| --- | --- | --- |", *("--- |" for _ in GOALS))
    for name, subject in (
        ("12 layers, 768 wide", encoder(bundled, 12, 768)),
        ("6 layers, 384 wide", encoder(bundled, 6, 384)),
        ("the bundled model (4, 160)", bundled),
    ):
        for count, min_words, max_words in ((64, 10, 40), (16, 60, 180)):
            seconds = compare(subject, sentences(count, min_words, max_words), 3)
            ratios = (f"{seconds[job] / seconds['plain']:.2f} |" for job in JOBS)
            print(f"| {name} | {min_words} to {max_words} | {count / seconds['plain']:.0f} |", *ratios, flush=True)
    print("\npeak memory in MB, the bundled model, rollout")
    small, large = (peak_megabytes("benchmarks.corpus", str(count)) for count in (1_000, 20_000))
    print(f"1,000 texts {small:.0f}, 20,000 texts {large:.0f}: {large / small:.2f} times (goal: flat)")


if __name__ == "__main__":
    peak(int(sys.argv[1])) if len(sys.argv) > 1 else main()
