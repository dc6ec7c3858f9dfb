"""The engine on Ray: actors that hold the model, a shard at a time for each, and all writing in this process.

parts → `Feed` → Ray Data's reader → `Worker` → rows, which come back as they are done, in any order
"""

import logging
import os
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
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
from thalweg.corpus.ray.feed import Feed
from thalweg.corpus.ray.source import Source
from thalweg.corpus.rows import shortened
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.work import Done, Tick, learn, work
from thalweg.errors import InputError, ModelError, error_line
from thalweg.models.load import Subject
from thalweg.models.parcel import pack, unpack

AHEAD = 3  # shards under way for each worker: one it works on, one that waits there, one on its way
TWICE = 2  # times that the work on a shard is begun
# For a Ray of our own: nothing is sent to anybody, nothing said, and workers are as urgent as this process.
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_worker_niceness": "0"}
REACHED = 10.0  # seconds within which a cluster answers
KEPT = "shards that were written are kept, and the same command goes on from there"


@dataclass(frozen=True)
class Order:
    """What every worker is told when it begins."""

    feed: Any
    parcel: Any  # a reference to it: the weights lie in memory that workers share
    job: Job
    shown: Text | None


class Worker:
    """An actor with the model in a process of its own. It knows what the run's process knows of the model's wiring."""

    def __init__(self, order: Order) -> None:
        self._feed, self._job = order.feed, order.job
        self._subject = unpack(ray.get(order.parcel))
        if order.shown is not None:
            learn(self._subject, order.shown)

    def __call__(self, batch: pandas.DataFrame) -> pandas.DataFrame:
        """A shard to its rows; None in their place if it was the end of a worker more than once."""
        [shard] = batch["shard"]
        times: Any = ray.get(self._feed.begin.remote(shard.number))
        done = work(self._subject, self._job, shard) if times <= TWICE else None
        return pandas.DataFrame({"shard": [shard.number], "done": [done]})


def on_ray(
    subject: Subject, job: Job, shown: Text | None, parts: Iterator[Shard], tick: Tick, workers: int | None
) -> Generator[tuple[Shard, Done]]:
    """Work on shards in so many processes, or as many as there are cores; on a cluster if RAY_ADDRESS says where.

    A worker that dies is replaced, and its shard is begun again once.
    """
    first = next(parts, None)
    if first is None:
        return
    with _session(workers), _quiet():
        count = _workers(subject, workers)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        feed: Any = ray.remote(Feed).options(num_cpus=0, scheduling_strategy=here).remote()
        try:
            dataset = _dataset(Order(feed, _sent(subject), job, shown), count, gpu=subject.model.device.type == "cuda")
            yield from _exchange(feed, dataset, chain([first], parts), count * AHEAD, tick)
        except RayError as error:
            last = str(error).strip().splitlines()[-1:] or [
                type(error).__name__
            ]  # traces of other processes come first
            raise InputError(f"Ray could not go on: {shortened(last[0])}; {KEPT}") from error
        finally:
            ray.kill(feed)


def _sent(subject: Subject) -> Any:
    try:
        return ray.put(pack(subject))
    except (TypeError, RuntimeError, PicklingError) as error:
        raise ModelError(
            f"the model cannot be sent to other processes: {error_line(error)}; use the engine 'local'"
        ) from error


def _exchange(
    feed: Any, dataset: Dataset, parts: Iterator[Shard], most: int, tick: Tick
) -> Generator[tuple[Shard, Done]]:
    """Give shards, `most` of them before the first comes back, then one for each that does."""
    under_way: dict[int, tuple[int, Shard]] = {}
    sent = 0

    def send() -> None:
        nonlocal sent
        part = next(parts, None)
        if part is None:
            feed.end.remote(sent)
            return
        under_way[part.number] = sent, part
        feed.put.remote(sent, part)
        sent += 1

    for _ in range(most):
        send()
    for batch in dataset.iter_batches(batch_size=None, batch_format="pandas", prefetch_batches=0):
        [number], [done] = batch["shard"], batch["done"]
        if number not in under_way:
            continue
        place, shard = under_way.pop(number)
        if done is None:
            raise InputError(
                f"the worker on shard {number} (lines {shard.texts[0].line} to {shard.texts[-1].line} of the file) "
                f"died, and so did the one that took its place: for want of memory, perhaps. Look at these texts, or "
                f"choose fewer workers, a smaller shard or a smaller batch; {KEPT}"
            )
        feed.finish.remote(place)
        tick(done.texts)
        yield shard, replace(done, maps={name: np.array(scores) for name, scores in done.maps.items()})
        send()


def _dataset(order: Order, workers: int, gpu: bool) -> Dataset:
    """Shards in, rows out: each shard is a block of its own, which Ray joins with no other."""
    context = DataContext.get_current().copy()
    context.target_max_block_size = 1  # bytes: a block is given on as soon as there is anything in it
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = -1  # a shard may take as long as it likes
    with DataContext.current(context):
        read = read_datasource(Source(order.feed), num_cpus=0, override_num_blocks=1)
        return read.map_batches(
            Worker,
            batch_size=None,
            batch_format="pandas",
            fn_constructor_args=(order,),
            compute=ActorPoolStrategy(size=workers),
            num_cpus=1,
            num_gpus=int(gpu),
        )


def _workers(subject: Subject, asked: int | None) -> int:
    kind = "GPU" if subject.model.device.type == "cuda" else "CPU"
    there = int(ray.cluster_resources().get(kind, 0))
    if not there:
        raise InputError(f"Ray has no {kind} to work on: give it one, or use the engine 'local'")
    if (asked or 1) > there:
        raise InputError(
            f"workers was given {asked}, but Ray has {there} {kind}s: choose fewer workers, or a larger cluster"
        )
    return asked or there


@contextmanager
def _session(workers: int | None) -> Iterator[None]:
    """The Ray that is there, or one for the time of a run."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    _check_reachable(address)
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    try:
        try:
            with _no_stderr():  # where Ray's core says that it will be silent
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except ConnectionError as error:
            raise InputError(f"there is no Ray at RAY_ADDRESS={address!r}: {error_line(error)}") from error
        with redirect_stdout(sys.stderr):  # Ray tells there that a worker died; what was asked for goes to stdout alone
            yield
    finally:
        ray.shutdown()
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"there is no Ray at RAY_ADDRESS={address!r}: {error_line(error)}; start it, or unset that"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Ray Data tells of its plans; errors are ours to say."""
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _no_stderr() -> Iterator[None]:
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)
