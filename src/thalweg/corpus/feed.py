"""Shards on their way into Ray Data, no more of them than are given credit for. Imports no model code: it has none."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from thalweg.corpus.shards import Shard


class Feed:
    """An actor, known by its name, that holds what workers are told and the shards under way, in the order of sending.

    Whoever asks for a place again is given the same shard again, for as long as it is not finished.
    """

    def __init__(self, order: Any) -> None:
        self._order = order
        self._held: dict[int, Shard] = {}
        self._taken = 0
        self._end: int | None = None
        self._begun: Counter[int] = Counter()
        self._news = asyncio.Event()

    async def order(self) -> Any:
        return self._order

    async def put(self, place: int, shard: Shard) -> None:
        self._held[place] = shard
        self._news.set()

    async def end(self, place: int) -> None:
        """Nothing comes at this place, nor after it."""
        self._end = place
        self._news.set()

    async def take(self, place: int) -> Shard | None:
        """The shard at a place, once it is there; an empty one if it is finished, None after the last."""
        while place >= self._taken and place not in self._held:
            if place == self._end:
                return None
            self._news.clear()
            await self._news.wait()
        self._taken = max(self._taken, place + 1)
        return self._held.get(place, Shard(-1, ()))

    async def begin(self, shard: int) -> int:
        """How often the work on a shard was begun, this time included."""
        self._begun[shard] += 1
        return self._begun[shard]

    async def finish(self, place: int) -> None:
        del self._begun[self._held.pop(place).number]


class Source(Datasource):
    """What a feed is given, one block for each shard, as it comes."""

    def __init__(self, feed: str) -> None:
        super().__init__()
        self._feed = feed

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, *_: Any, **__: Any) -> list[ReadTask]:
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(partial(_blocks, self._feed), unknown)]


def _blocks(name: str) -> Iterator[pandas.DataFrame]:
    feed, place = ray.get_actor(name), 0
    while (shard := ray.get(feed.take.remote(place))) is not None:
        yield pandas.DataFrame({"shard": [shard]})
        place += 1
