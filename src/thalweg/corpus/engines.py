"""Engines process shards: `local` in this process, `ray` in several. Both give the same rows."""

from collections.abc import Callable, Generator, Iterator
from functools import partial

from thalweg.corpus.job import Job, check_positive
from thalweg.corpus.process import ShardResult, Tick, process_shard
from thalweg.corpus.shards import CorpusText, Shard
from thalweg.errors import InputError, MissingExtraError, unknown_name
from thalweg.models.subject import Subject

ENGINES = ("local", "ray")
Engine = Callable[[Subject, Job, CorpusText | None, Iterator[Shard], Tick], Generator[tuple[Shard, ShardResult]]]


def find_engine(name: str, workers: int | None) -> Engine:
    """Look an engine up by name: a function from shards to shards with their results, in any order."""
    check_engine(name, workers)
    if name == "local":
        return _run_locally
    try:
        from thalweg.corpus.ray.cluster import run_on_ray
    except ImportError as error:
        raise MissingExtraError("the engine 'ray' needs Ray: install thalweg[ray]") from error
    return partial(run_on_ray, workers=workers)


def check_engine(name: str, workers: int | None) -> None:
    """Raise for an engine that does not exist, or that cannot have these workers."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    check_positive(workers=workers)
    if name == "local" and workers is not None:
        raise InputError(f"the engine 'local' has no workers, got workers={workers}; use the engine 'ray'")


def _run_locally(
    subject: Subject, job: Job, wiring_text: CorpusText | None, shards: Iterator[Shard], tick: Tick
) -> Generator[tuple[Shard, ShardResult]]:
    del wiring_text  # this process has learnt from it already
    for shard in shards:
        yield shard, process_shard(subject, job, shard, tick)
