"""Real models that `make test-real` installs as packages; in CI they must be there."""

import os
from functools import cache
from pathlib import Path

import thalweg as tw
from papers.claims.lab import PACKAGED, packaged_folder
from tests.conftest import missing

MODELS = Path(os.environ.get("THALWEG_REAL_MODELS", ".models"))


@cache
def packaged(name: str) -> tw.Subject:
    folder = packaged_folder(MODELS, name)
    if not folder.is_dir():
        missing(f"the real model {name} is not installed: run `make test-real`")
    return tw.load(folder, **PACKAGED[name][1])


def minilm() -> tw.Subject:
    return packaged("all-MiniLM-L6-v2")


def second_seed() -> tw.Subject:
    """Another encoder of MiniLM's shape."""
    return packaged("another MiniLM")


def reactions() -> tw.Subject:
    return packaged("a classifier of chemical reactions")


def smollm() -> tw.Subject:
    return packaged("SmolLM2-135M-Instruct")
