"""Folders of a corpus for tests: write one by hand, and read what one holds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from thalweg.corpus.process import ShardResult
from thalweg.corpus.rows import Row, make_row
from thalweg.corpus.shard_store import open_store
from thalweg.corpus.shards import CorpusText, Shard

WORDS = "the old dog runs and a new cat is good but this film was very bad".split()
IDENTITY: dict[str, Any] = {
    "weights": "w",
    "config": "c",
    "tokenizer": "t",
    "task": "classification",
    "dtype": "float32",
    "texts_digest": "d",
    "methods": ["alti"],
    "target": None,
    "certificate": "full",
    "maps": False,
    "top": 5,
    "max_tokens": 512,
    "batch": 32,
    "batch_tokens": 2048,
    "text": "keep",
    "shard": 256,
}
VERSIONS = dict.fromkeys(("class", "dtype", "thalweg", "transformers", "torch"), "some")


def sentences(count: int) -> list[str]:
    """Different texts of different lengths."""
    return [" ".join(WORDS[(n * 7 + i * (1 + n % 5)) % len(WORDS)] for i in range(2 + n % 9)) for n in range(count)]


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows in the order of the shards."""
    return [
        row for file in sorted(folder.glob("shard-*.parquet")) for row in pyarrow.parquet.read_table(file).to_pylist()
    ]


def untimed_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows without the column that differs from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in read_rows(folder)]


def hand_made(number: int, **columns: Any) -> Row:
    """The row of a made-up text."""
    return make_row(CorpusText(number, number + 1, f"text {number}"), **columns)


def write_folder(folder: Path, rows: Sequence[Row], model: str = "some model", **changes: Any) -> None:
    """Write a folder with these rows in one shard; `changes` are changes of the run's identity."""
    identity = {**IDENTITY, "texts": len({row["text"] for row in rows}), **changes}
    with open_store(folder, identity, {"model": model, **VERSIONS}) as store:
        store.add(Shard(0, ()), ShardResult(0, tuple(rows)))
