"""Ray sessions: addresses that do not answer, and what is restored at the end."""

import json
import logging
import os
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

import thalweg as tw
from tests.conftest import missing

if find_spec("ray") is None:
    missing("ray is not installed: thalweg[ray]")

from thalweg.corpus.ray.session import check_reachable, quiet_ray_data, ray_session

LOCAL = """
import glob, json, os, socket, sys, tempfile
import ray
from thalweg.corpus.ray.session import ray_session

def listens(host, port):
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0

def folders():
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "ray*")))

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
    route.connect(("192.0.2.1", 9))
    outside = route.getsockname()[0]
os.environ.pop("RAY_ADDRESS", None)
before = folders()
with ray_session(1):
    [node] = ray.nodes()
    gcs = ray.get_runtime_context().gcs_address
    ports = [node["NodeManagerPort"], int(gcs.rpartition(":")[2])]
    outcome = {
        "address": node["NodeManagerAddress"],
        "inside": all(listens("127.0.0.1", port) for port in ports),
        "outside": outside != "127.0.0.1" and any(listens(outside, port) for port in ports),
        "statistics": os.environ["RAY_USAGE_STATS_ENABLED"],
        "own folder": len(folders() - before),
    }
print(json.dumps({**outcome, "left": sorted(folders() - before), "running": ray.is_initialized()}))
"""


def test_local_session_when_started_then_listens_on_loopback_only_and_leaves_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LOCAL], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "address": "127.0.0.1",
        "inside": True,
        "outside": False,
        "statistics": "0",
        "own folder": 1,
        "left": [],
        "running": False,
    }


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
