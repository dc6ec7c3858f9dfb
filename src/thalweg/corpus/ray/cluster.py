"""Process shards on Ray: actors hold the model and take a shard at a time; this process reads and writes.

shards → `ShardFeed` → `ShardSource` (read by Ray Data) → `Worker` → results, in the order in which they finish
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pickle import PicklingError
from typing import Any

import numpy as np
import pandas
import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset, read_datasource
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from thalweg.corpus.job import Job
from thalweg.corpus.process import ShardResult, Tick, learn_wiring, process_shard
from thalweg.corpus.ray.session import quiet_ray_data, ray_session
from thalweg.corpus.ray.shard_feed import ShardFeed
from thalweg.corpus.ray.shard_source import ShardSource
from thalweg.corpus.rows import shortened
from thalweg.corpus.shards import CorpusText, Shard
from thalweg.errors import InputError, ModelError, error_line
from thalweg.models.parcel import pack, unpack
from thalweg.models.subject import Subject

SHARDS_PER_WORKER = 3  # in flight: one being processed, one waiting at the worker, one on its way
MAX_ATTEMPTS = 2  # at a shard
RESUME = "the shards written so far are kept, and the same command resumes the run"


@dataclass(frozen=True)
class WorkerSetup:
    """What every worker needs to start."""

    feed: Any
    parcel: Any  # a reference: workers on one machine share the weights in memory
    job: Job
    wiring_text: CorpusText | None


class Worker:
    """A Ray actor with a copy of the model, whose wiring it learns from the same text as the calling process."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._feed, self._job = setup.feed, setup.job
        self._subject = unpack(ray.get(setup.parcel))
        if setup.wiring_text is not None:
            learn_wiring(self._subject, setup.wiring_text)

    def __call__(self, batch: pandas.DataFrame) -> pandas.DataFrame:
        """Process a shard; its result is None if earlier attempts have killed `MAX_ATTEMPTS` workers."""
        [shard] = batch["shard"]
        attempt: Any = ray.get(self._feed.begin.remote(shard.number))
        result = process_shard(self._subject, self._job, shard) if attempt <= MAX_ATTEMPTS else None
        return pandas.DataFrame({"shard": [shard.number], "result": [result]})


def run_on_ray(
    subject: Subject,
    job: Job,
    wiring_text: CorpusText | None,
    shards: Iterator[Shard],
    tick: Tick,
    workers: int | None,
) -> Generator[tuple[Shard, ShardResult]]:
    """Process shards in `workers` processes (default: one per core), on the cluster at RAY_ADDRESS if it is set.

    A worker that dies is replaced, and its shard is tried once more.
    """
    first = next(shards, None)
    if first is None:
        return
    with ray_session(workers), quiet_ray_data():
        count = _worker_count(subject, workers)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        feed: Any = ray.remote(ShardFeed).options(num_cpus=0, scheduling_strategy=here).remote()
        try:
            setup = WorkerSetup(feed, _put_model(subject), job, wiring_text)
            dataset = _dataset(setup, count, gpu=subject.model.device.type == "cuda")
            yield from _exchange(feed, dataset, chain([first], shards), count * SHARDS_PER_WORKER, tick)
        except RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]  # tracebacks of other processes first
            raise InputError(f"Ray failed: {shortened(lines[-1])}; {RESUME}") from error
        finally:
            ray.kill(feed)


def _put_model(subject: Subject) -> Any:
    try:
        return ray.put(pack(subject))
    except (TypeError, RuntimeError, PicklingError) as error:
        raise ModelError(
            f"the model cannot be sent to other processes: {error_line(error)}; use the engine 'local'"
        ) from error


def _exchange(
    feed: Any, dataset: Dataset, shards: Iterator[Shard], in_flight: int, tick: Tick
) -> Generator[tuple[Shard, ShardResult]]:
    """Send `in_flight` shards, then another for each result that comes back."""
    pending: dict[int, tuple[int, Shard]] = {}
    sent = 0

    def send() -> None:
        nonlocal sent
        shard = next(shards, None)
        if shard is None:
            feed.end.remote(sent)
            return
        pending[shard.number] = sent, shard
        feed.put.remote(sent, shard)
        sent += 1

    for _ in range(in_flight):
        send()
    for batch in dataset.iter_batches(batch_size=None, batch_format="pandas", prefetch_batches=0):
        [number], [result] = batch["shard"], batch["result"]
        if number not in pending:
            continue
        place, shard = pending.pop(number)
        if result is None:
            raise InputError(
                f"shard {number} (lines {shard.texts[0].line} to {shard.texts[-1].line} of the file) killed "
                f"{MAX_ATTEMPTS} workers, perhaps for lack of memory; check these texts, or use fewer workers, a "
                f"smaller shard or a smaller batch; {RESUME}"
            )
        feed.finish.remote(place)
        tick(result.texts)
        yield shard, replace(result, maps={name: np.array(scores) for name, scores in result.maps.items()})
        send()


def _dataset(setup: WorkerSetup, workers: int, gpu: bool) -> Dataset:
    """A lazy dataset from shards to results; each shard is a block, which Ray does not merge with others."""
    context = DataContext.get_current().copy()
    context.target_max_block_size = 1  # bytes: a block is passed on as soon as it holds anything
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = -1  # a shard may take any time
    with DataContext.current(context):
        shards = read_datasource(ShardSource(setup.feed), num_cpus=0, override_num_blocks=1)
        return shards.map_batches(
            Worker,
            batch_size=None,
            batch_format="pandas",
            fn_constructor_args=(setup,),
            compute=ActorPoolStrategy(size=workers),
            num_cpus=1,
            num_gpus=int(gpu),
        )


def _worker_count(subject: Subject, workers: int | None) -> int:
    kind = "GPU" if subject.model.device.type == "cuda" else "CPU"
    available = int(ray.cluster_resources().get(kind, 0))
    if not available:
        raise InputError(f"Ray has no {kind}; add one, or use the engine 'local'")
    if (workers or 1) > available:
        raise InputError(f"workers must be at most {available}, the number of {kind}s that Ray has, got {workers}")
    return workers or available
