"""The feed of shards: places wait for their shard, and give it again until it is finished."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from thalweg.corpus.ray.shard_feed import ShardFeed
from thalweg.corpus.shards import Shard

FIRST, SECOND = Shard(4, ()), Shard(7, ())


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a thread of its own: the browser tests may have left a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scenario).result()


def test_place_when_taken_before_its_shard_is_put_then_waits_for_it() -> None:
    async def scenario() -> tuple[Shard | None, Shard | None, Shard | None]:
        feed = ShardFeed()
        early = asyncio.create_task(feed.take(0))
        await asyncio.sleep(0)
        assert not early.done()
        await feed.put(0, FIRST)
        await feed.put(1, SECOND)
        await feed.end(2)
        return await early, await feed.take(1), await feed.take(2)

    assert run(scenario()) == (FIRST, SECOND, None)


def test_place_when_taken_again_then_gives_its_shard_until_it_is_finished() -> None:
    async def scenario() -> list[Shard | None]:
        feed = ShardFeed()
        await feed.put(0, FIRST)
        taken = [await feed.take(0), await feed.take(0)]
        await feed.begin(FIRST.number)
        await feed.finish(0)
        return [*taken, await feed.take(0)]

    assert run(scenario()) == [FIRST, FIRST, Shard(-1, ())]


def test_attempts_when_a_shard_is_begun_twice_then_are_counted_by_shard() -> None:
    async def scenario() -> list[int]:
        feed = ShardFeed()
        return [await feed.begin(4), await feed.begin(7), await feed.begin(4)]

    assert run(scenario()) == [1, 1, 2]
