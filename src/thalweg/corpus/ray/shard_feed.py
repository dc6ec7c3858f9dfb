"""Shards on their way to the workers: sent, but not finished."""

import asyncio
from collections import Counter

from thalweg.corpus.shards import Shard


class ShardFeed:
    """A Ray actor that holds the shards in flight by their place in the order of sending.

    A place that is requested again gives the same shard again until it is finished: Ray may repeat a read.
    """

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}
        self._taken = 0
        self._end: int | None = None
        self._attempts: Counter[int] = Counter()
        self._changed = asyncio.Event()

    async def put(self, place: int, shard: Shard) -> None:
        self._shards[place] = shard
        self._changed.set()

    async def end(self, place: int) -> None:
        """Announce that no shard follows from this place on."""
        self._end = place
        self._changed.set()

    async def take(self, place: int) -> Shard | None:
        """Wait for the shard at a place; an empty shard if it is finished, None after the last."""
        while place >= self._taken and place not in self._shards:
            if place == self._end:
                return None
            self._changed.clear()
            await self._changed.wait()
        self._taken = max(self._taken, place + 1)
        return self._shards.get(place, Shard(-1, ()))

    async def begin(self, shard: int) -> int:
        """Count an attempt at a shard, and return the number of attempts so far."""
        self._attempts[shard] += 1
        return self._attempts[shard]

    async def finish(self, place: int) -> None:
        """Forget the shard at a place."""
        del self._attempts[self._shards.pop(place).number]
