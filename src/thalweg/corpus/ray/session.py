"""A Ray session for one run: the one already started, a cluster at RAY_ADDRESS, or a local one of our own."""

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import ray

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
    options: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    check_reachable(address)
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
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
