"""Ray sessions: addresses that do not answer, and what is restored at the end."""

import logging
import os
import socket
from importlib.util import find_spec

import pytest

import thalweg as tw
from tests.conftest import missing

if find_spec("ray") is None:
    missing("ray is not installed: thalweg[ray]")

from thalweg.corpus.ray.session import check_reachable, quiet_ray_data, ray_session


@pytest.mark.parametrize("address", ["local", "auto", "ray://somewhere", ""])
def test_address_when_it_has_no_host_and_port_then_is_left_to_ray(address: str) -> None:
    check_reachable(address)


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_address_when_something_listens_then_is_reachable(prefix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(f"{prefix}127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999999"])
def test_session_when_nothing_answers_then_fails_at_once_and_names_the_address(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", address)
    before = dict(os.environ)
    with pytest.raises(tw.InputError, match=f"RAY_ADDRESS='{address}'"), ray_session(1):
        pass
    assert dict(os.environ) == before


def test_log_of_ray_data_when_silenced_then_is_restored() -> None:
    logger = logging.getLogger("ray.data")
    before = logger.level
    with quiet_ray_data():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before
