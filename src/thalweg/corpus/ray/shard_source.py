"""The shards of a feed as a Ray datasource, one block each; the process that reads it needs no model."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata


class ShardSource(Datasource):
    """Shards as they arrive, in a single read task that lasts until the feed ends."""

    def __init__(self, feed: Any) -> None:
        super().__init__()
        self._feed = feed

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, *_: Any, **__: Any) -> list[Any]:
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(partial(_blocks, self._feed), unknown)]


def _blocks(feed: Any) -> Iterator[pandas.DataFrame]:
    place = 0
    while (shard := ray.get(feed.take.remote(place))) is not None:
        yield pandas.DataFrame({"shard": [shard]})
        place += 1
