"""A tiny subject and one run of all probes, shared by the tests of this folder."""

import pytest

import thalweg as tw
from tests.probing.corpus import sentences
from tests.tiny import tiny_subject
from thalweg.probing.probe import probe
from thalweg.probing.result import Probes


@pytest.fixture(scope="session")
def bert() -> tw.Subject:
    return tiny_subject("bert")


@pytest.fixture(scope="session")
def probes(bert: tw.Subject) -> Probes:
    return probe(bert, sentences(60), parts=("whole", "angle", "norm"))
