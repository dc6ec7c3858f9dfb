"""One finished training run, shared by the tests of this folder."""

from dataclasses import replace

import pytest

from tests.encoders.training.corpus import TINY, cued
from thalweg.encoders.training.result import Training
from thalweg.encoders.training.train import train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    folder = tmp_path_factory.mktemp("run") / "out"
    return train(cued(240), folder, replace(TINY, rate=1e-2), test=cued(40, seed=1))
