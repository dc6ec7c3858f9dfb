"""Shards on their way to the workers: those that were given and are not finished."""

import asyncio
from collections import Counter

from thalweg.corpus.shards import Shard


class Feed:
    """An actor that holds the shards which are under way, each at its place in the order of sending.

    Whoever asks for a place again is given the same shard again, for as long as it is not finished.
    """

    def __init__(self) -> None:
        self._held: dict[int, Shard] = {}
        self._taken = 0
        self._end: int | None = None
        self._begun: Counter[int] = Counter()
        self._news = asyncio.Event()

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
