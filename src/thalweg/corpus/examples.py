"""Example texts of a summary, read from the shards that hold them."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from thalweg.corpus.rows import import_parquet
from thalweg.corpus.summary import Example

COLUMNS = ("text", "target", "line", "id", "content", "prediction", "probability", "words", "methods")
MAX_CHARACTERS = 600  # of an excerpt


def read_examples(files: Sequence[Path], first_texts: Sequence[int], texts: Collection[int]) -> tuple[Example, ...]:
    """The examples with these numbers, in their order; `first_texts` are the numbers of the first text of each file."""
    _, parquet = import_parquet()
    by_file: dict[int, list[int]] = {}
    for text in sorted(texts):
        by_file.setdefault(bisect_right(first_texts, text) - 1, []).append(text)
    examples = []
    for place, members in by_file.items():
        filters = [("text", "in", members), ("target", "=", 0)]
        rows = parquet.read_table(files[place], columns=list(COLUMNS), filters=filters, partitioning=None).to_pylist()
        examples += [example_of(row) for row in rows if row["content"] is not None]
    return tuple(examples)


def example_of(row: Mapping[str, Any]) -> Example:
    """An excerpt of a row's text around the word with the largest share of its last method."""
    content, words = row["content"], row["words"] or ()
    shares = {entry["method"]: entry["word_shares"] for entry in row["methods"] or () if entry["word_shares"]}
    begin, end = _window(content, words, [*shares.values()][-1] if shares else ())
    return Example(
        text=row["text"],
        line=row["line"],
        id=row["id"],
        prediction=row["prediction"],
        probability=row["probability"],
        excerpt=content[begin:end],
        words={
            method: tuple(
                (word["start"] - begin, word["word"], share)
                for word, share in zip(words, values, strict=True)
                if word["start"] is not None and begin <= word["start"] and word["start"] + len(word["word"]) <= end
            )
            for method, values in shares.items()
        },
    )


def _window(content: str, words: Sequence[Mapping[str, Any]], shares: Sequence[float]) -> tuple[int, int]:
    if len(content) <= MAX_CHARACTERS:
        return 0, len(content)
    largest = max(range(len(shares)), key=lambda place: abs(shares[place]), default=None)
    centre = 0 if largest is None else words[largest]["start"] or 0
    begin = max(0, min(centre - MAX_CHARACTERS // 2, len(content) - MAX_CHARACTERS))
    return begin, begin + MAX_CHARACTERS
