"""What a folder of a corpus holds, for tests that compare one with another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from thalweg.corpus.rows import Row, row_of
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.storage import Folder
from thalweg.corpus.work import Done

WORDS = "the old dog runs and a new cat is good but this film was very bad".split()
OF_TIME = ("seconds",)  # differs from run to run


def sentences(count: int) -> list[str]:
    """Different texts of different lengths."""
    return [" ".join(WORDS[(n * 7 + i * (1 + n % 5)) % len(WORDS)] for i in range(2 + n % 9)) for n in range(count)]


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows in the order of the shards, as they were written."""
    return [
        row for file in sorted(folder.glob("shard-*.parquet")) for row in pyarrow.parquet.read_table(file).to_pylist()
    ]


def timeless(folder: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in OF_TIME} for row in read(folder)]


def by_hand(number: int, **known: Any) -> Row:
    """A row made by hand."""
    return row_of(Text(number, number + 1, f"text {number}"), **known)


def made(folder: Path, rows: Sequence[Row], model: str = "some model", **chosen: Any) -> None:
    """A folder with these rows in one shard, of a run that was asked for what is chosen."""
    usual = {"methods": ["alti"], "target": None, "certificate": "full", "maps": False, "top": 5, "max_tokens": 512}
    texts = len({row["text"] for row in rows})
    digests = {"digest": "d", "weights": "w", "architecture": "a", "tokenizer": "t"}
    known = dict.fromkeys(("class", "dtype", "thalweg", "transformers", "torch"), "some")
    store = Folder(folder, {**usual, "texts": texts, **digests, **chosen}, {"model": model, **known})
    with store.alone():
        store.add(Shard(0, ()), Done(0, tuple(rows)))
