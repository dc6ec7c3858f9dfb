import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Some virtual machines announce AMX but trap on it, which kills bfloat16 products.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import jaxtyping
import pytest
import torch
from hypothesis import settings
from transformers import ModernBertConfig, ModernBertForSequenceClassification
from transformers.utils import logging

import thalweg as tw
from tests.command import Done, Run
from tests.families import BOS, EOS, PAD, VOCABULARY, randomise

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)  # the models of the tests are tiny: a second thread would only wait
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def bundled() -> tw.Subject:
    return tw.load()


@pytest.fixture(scope="session")
def pooling() -> tw.Subject:
    """A classifier whose prediction is read from the mean over all positions."""
    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=BOS,
        cls_token_id=BOS,
        eos_token_id=EOS,
        sep_token_id=EOS,
        num_labels=3,  # pyright: ignore[reportCallIssue]
        classifier_pooling="mean",
    )
    model = ModernBertForSequenceClassification(config).eval()
    with torch.no_grad():
        randomise(model, torch.Generator().manual_seed(0))
    return tw.load(model)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of labelled texts beside the project; required in CI."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        missing(f"no shared data at {folder}")
    return folder


@contextmanager
def unchecked() -> Iterator[None]:
    """Switch off the type checks of a test run."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Switch off type checks, which would raise before the library does."""
    with unchecked():
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run the command in this process, without the type checks of a test run."""
    from thalweg.cli.main import main

    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["thalweg", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capfd.readouterr()
        return Done(int(str(code or 0)), captured.out, captured.err)

    with unchecked():
        yield command


def missing(reason: str) -> None:
    """Skip on a laptop, fail in CI, where nothing may be skipped silently."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
