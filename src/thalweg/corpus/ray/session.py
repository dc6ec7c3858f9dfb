"""A Ray session for one run: the one already started, a cluster at RAY_ADDRESS, or a local one of our own.

A local session listens on the loopback address only, has no dashboard, and leaves no files behind.
"""

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import ray
from ray._private import ray_constants

from thalweg.errors import InputError, error_line

# Of a session of our own: no usage statistics, no log output, and workers with the priority of this process.
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_worker_niceness": "0"}
CONNECT_SECONDS = 10.0


@contextmanager
def ray_session(workers: int | None) -> Iterator[None]:
    """Use the session that is already started, or start one and shut it down at the end."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    check_reachable(address)
    with _local_options(workers) if address == "local" else nullcontext({}) as options, _environment(SETTINGS):
        try:
            try:
                with _no_stderr():  # Ray announces there how it logs
                    ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
            except ConnectionError as error:
                raise InputError(f"cannot connect to Ray at RAY_ADDRESS={address!r}: {error_line(error)}") from error
            with redirect_stdout(sys.stderr):  # Ray reports dead workers on stdout, which is for results
                yield
        finally:
            ray.shutdown()


@contextmanager
def _local_options(workers: int | None) -> Iterator[dict[str, Any]]:
    """Options of a session that other machines cannot reach, with a folder of its own."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # no option has this effect: Ray listens on the loopback address only
    try:
        with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
            yield {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside the block."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def check_reachable(address: str) -> None:
    """Raise within seconds if nothing answers at an address; Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot connect to Ray at RAY_ADDRESS={address!r}: {error_line(error)}; start Ray there, or unset "
            "RAY_ADDRESS"
        ) from error


@contextmanager
def quiet_ray_data() -> Iterator[None]:
    """Silence Ray Data's log of plans and errors; errors are raised as exceptions."""
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _no_stderr() -> Iterator[None]:
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
