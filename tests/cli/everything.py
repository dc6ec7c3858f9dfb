"""Every command as a user runs it, on small files in the working directory (the fixture `folder`)."""

from pathlib import Path

from tests.probing.corpus import sentences
from tests.tiny import SENTENCE

MODEL = ("--model", "model")
TRAINING = ("--width", "16", "--heads", "2", "--key-size", "4", "--epochs", "1")
RUNS = {
    "explain": ("explain", SENTENCE, *MODEL),
    "compare": ("compare", SENTENCE, "--methods", "raw_attention,alti", *MODEL),
    "mix": ("mix", SENTENCE, "--methods", "alti", *MODEL),
    "trust": ("trust", SENTENCE, *MODEL),
    "trust of a head": ("trust", SENTENCE, "--layer", "0", "--head", "0", *MODEL),
    "trust by length": ("trust", "--by-length", "--file", "texts.txt", *MODEL),
    "report": ("report", SENTENCE, "--html", "report.html", "--methods", "alti", *MODEL),
    "bench": ("bench", "--file", "texts.txt", "--methods", "random", "--metrics", "aopc", "--out", "bench", *MODEL),
    "corpus": ("corpus", "--file", "texts.txt", "--out", "rows", "--methods", "alti", "--certificate", "", *MODEL),
    "corpus query": ("corpus", "query", "finished", "SELECT count(*) FROM rows"),
    "corpus report": ("corpus", "report", "finished"),
    "corpus export": ("corpus", "export", "finished", "--csv", "rows.csv"),
    "probe": ("probe", "--file", "texts.txt", "--kinds", "identity", "--metrics", "cosine", *MODEL),
    "train": ("train", "--file", "films.csv", "--out", "trained", *TRAINING),
}
LISTS = {"methods": ("methods",), "method": ("methods", "alti"), "bench list": ("bench", "--list")}


def write_files(folder: Path) -> None:
    """The files that the runs read, but for the model and the finished corpus."""
    (folder / "texts.txt").write_text("\n".join(sentences(12)))
    rows = [f"{text},{label}" for text, label in zip(sentences(20), ["good", "bad"] * 10, strict=True)]
    (folder / "films.csv").write_text("\n".join(["text,label", *rows]))
    (folder / "pairs.csv").write_text("premise,hypothesis\nthe cat runs,the dog runs\n")


def subcommands() -> dict[str, tuple[str, ...]]:
    """Every command and subcommand by the words that call it, without arguments."""
    return {" ".join(words): words for words in map(_words, (*RUNS.values(), ("methods",)))}


def _words(run: tuple[str, ...]) -> tuple[str, ...]:
    return run[:2] if run[0] == "corpus" and not run[1].startswith("--") else run[:1]
