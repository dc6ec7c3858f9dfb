"""Engines by name, and refusals; tests/corpus/ray runs the one on Ray."""

import sys

import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.corpus.engines import find_engine
from thalweg.corpus.job import make_job
from thalweg.corpus.shards import CorpusText, Shard
from thalweg.errors import MissingExtraError


def test_local_engine_when_run_then_processes_shards_in_order() -> None:
    subject = tiny_subject("bert")
    shards = [Shard(number, (CorpusText(number, number + 1, "a cat"),)) for number in range(2)]
    ticks: list[int] = []
    engine = find_engine("local", None)
    results = list(engine(subject, make_job(subject, ["alti"]), None, iter(shards), ticks.append))
    assert [shard for shard, _ in results] == shards
    assert [(result.number, result.texts, result.failed) for _, result in results] == [(0, 1, 0), (1, 1, 0)]
    assert ticks == [1, 1]


@pytest.mark.parametrize(
    ("name", "workers", "message"),
    [
        ("dask", None, "unknown engine 'dask'.*local, ray"),
        ("ray", 0, "workers must be at least 1, got 0"),
        ("local", 2, "'local'.*workers=2.*'ray'"),
    ],
)
def test_engine_when_it_does_not_exist_or_does_not_fit_then_is_refused(
    name: str, workers: int | None, message: str
) -> None:
    with pytest.raises(tw.InputError, match=message):
        find_engine(name, workers)


def test_engine_when_ray_is_missing_then_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for module in ("cluster", "session", "shard_feed", "shard_source"):
        monkeypatch.delitem(sys.modules, f"thalweg.corpus.ray.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=r"install thalweg\[ray\]"):
        find_engine("ray", None)
