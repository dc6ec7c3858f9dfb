"""What a feed is given, as data for Ray: one block for each shard. Its reader is a process that needs no model code."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata


class Source(Datasource):
    """Shards as they come, in one reading that lasts as long as they do."""

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
