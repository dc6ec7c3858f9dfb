"""The attacks of `make soak`, at their smallest size."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.soak import ATTACKS
from tests.conftest import missing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("attack", [attack.__name__ for attack in ATTACKS])
def test_attack_when_tried_a_few_times_then_nothing_is_lost_unnoticed_or_left(attack: str) -> None:
    if attack == "pages" and not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        missing("no browser found: install chromium to run the browser tests")
    command = [sys.executable, "-m", "scripts.soak", "--tiny", "--only", attack]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, "held: "), done.stdout + done.stderr


def test_page_when_written_then_has_every_attack_and_none_that_broke_through() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert page.count("| yes |") == len(ATTACKS)
    assert "**no**" not in page
