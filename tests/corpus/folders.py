"""What a folder of a corpus holds, for tests that compare one with another."""

from pathlib import Path
from typing import Any

import pyarrow.parquet

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
