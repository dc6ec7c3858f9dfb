"""The datasource of a feed: one block per shard, in one read task."""

from importlib.util import find_spec
from typing import Any

import pytest

from tests.conftest import missing
from thalweg.corpus.shards import Shard

if find_spec("ray") is None:
    missing("ray is not installed: thalweg[ray]")


class FeedOfTwo:
    """Stands for the handle of a `ShardFeed` actor with two shards."""

    class take:  # noqa: N801 - an actor's method
        @staticmethod
        def remote(place: int) -> Shard | None:
            return Shard(place, ()) if place < 2 else None


def test_source_when_read_then_gives_a_block_per_shard_until_the_feed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from thalweg.corpus.ray.shard_source import ShardSource

    monkeypatch.setattr(ray, "get", lambda value: value)
    source = ShardSource(FeedOfTwo())
    assert source.estimate_inmemory_data_size() is None
    tasks: list[Any] = source.get_read_tasks(1)
    assert len(tasks) == 1
    blocks = [block["shard"].tolist() for block in tasks[0]()]
    assert blocks == [[Shard(0, ())], [Shard(1, ())]]
