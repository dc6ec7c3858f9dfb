"""What a corpus costs: texts per second against a plain loop of passes, and memory against the number of texts.

`python -m benchmarks.corpus` prints the tables; with arguments it is one run, whose peak of memory it prints.
"""

import random
import sys
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

import thalweg as tw
from benchmarks.timing import best_of, own_peak_megabytes, peak_megabytes
from thalweg.corpus.job import make_job
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.work import batches, work

BATCH = 32
JOBS = {
    "rollout": (("attention_rollout",), None),
    "certificate": ((), "values"),
    "alti": (("alti",), None),
}
GOALS = {"rollout": 2, "certificate": 2, "alti": 5}


def encoder(shipped: tw.Subject, layers: int, width: int) -> tw.Subject:
    """12 heads and random weights; it reads what the model that ships reads."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=shipped.model.config.vocab_size,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=12,
        intermediate_size=4 * width,
    )
    return tw.load(BertForSequenceClassification(config).eval(), shipped.tokenizer)


def sentences(count: int, shortest: int, longest: int) -> list[str]:
    """Texts of so many words, the same whenever they are made."""
    tokenizer = tw.load().tokenizer
    assert tokenizer is not None
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha())
    draw = random.Random(0)
    return [" ".join(draw.choices(words, k=draw.randint(shortest, longest))) for _ in range(count)]


def compare(subject: tw.Subject, texts: list[str], rounds: int) -> dict[str, float]:
    """Seconds of each job over these texts, and of plain passes over the same batches."""
    shard = Shard(0, tuple(Text(number, number + 1, text) for number, text in enumerate(texts)))
    tokenizer = subject.tokenizer
    assert tokenizer is not None

    made = {
        name: make_job(subject, methods, certificate=certificate, batch=BATCH)
        for name, (methods, certificate) in JOBS.items()
    }
    tokens = next(iter(made.values())).tokens

    def plain() -> None:
        lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
        with torch.no_grad():
            for batch in batches(list(zip(lengths, shard.texts, strict=True)), BATCH, tokens):
                subject.model(**tokenizer([one.text for one in batch], padding=True, return_tensors="pt"))

    return best_of(
        rounds, plain=plain, **{name: lambda job=job: work(subject, job, shard) for name, job in made.items()}
    )


def peak(count: int) -> None:
    """One run over so many texts, and its peak."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(sentences(count, 2, 12)) + "\n", encoding="utf-8")
        run_corpus(tw.load(), file, Path(folder) / "rows", ["attention_rollout"], certificate=None)
    print(own_peak_megabytes())


def main() -> None:
    torch.set_num_threads(1)  # as a worker has; more threads help large products, and nothing else
    shipped = tw.load()
    print("cost of a corpus, as a multiple of plain passes over the same batches of 32 texts, one thread\n")
    goals = (f"{name} (goal: at most {goal}) |" for name, goal in GOALS.items())
    print("| model | words | plain, texts per second |", *goals)
    print("| --- | --- | --- |", *("--- |" for _ in GOALS))
    for name, subject in (
        ("12 layers, 768 wide", encoder(shipped, 12, 768)),
        ("6 layers, 384 wide", encoder(shipped, 6, 384)),
        ("the one that ships (4, 160)", shipped),
    ):
        for count, shortest, longest in ((64, 10, 40), (16, 60, 180)):
            seconds = compare(subject, sentences(count, shortest, longest), 3)
            ratios = (f"{seconds[job] / seconds['plain']:.2f} |" for job in JOBS)
            print(f"| {name} | {shortest} to {longest} | {count / seconds['plain']:.0f} |", *ratios, flush=True)
    print("\npeak memory in MB, the model that ships, rollout")
    few, many = (peak_megabytes("benchmarks.corpus", str(count)) for count in (1_000, 20_000))
    print(f"1,000 texts {few:.0f}, 20,000 texts {many:.0f}: {many / few:.2f} times (goal: flat)")


if __name__ == "__main__":
    peak(int(sys.argv[1])) if len(sys.argv) > 1 else main()
