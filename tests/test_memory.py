"""Available memory, and the refusal of work that does not fit."""

from pathlib import Path

import pytest
import torch

import thalweg.memory
from thalweg.errors import InputError
from thalweg.memory import available_bytes, require_memory

CPU = torch.device("cpu")


def test_memory_when_asked_of_this_machine_then_is_a_plausible_number() -> None:
    available = available_bytes(CPU)
    assert available is not None
    assert 2**20 < available < 2**50
    assert available_bytes(torch.device("meta")) is None


@pytest.mark.parametrize(
    ("limit", "used", "expected"), [("4096", "1000", 3096), ("4096", "5000", 0), ("max", "1000", 2048 * 1024)]
)
def test_memory_when_a_container_sets_a_limit_then_is_the_smaller(
    limit: str, used: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")
    monkeypatch.setattr(thalweg.memory, "CGROUP", tmp_path)
    monkeypatch.setattr(thalweg.memory, "MEMINFO", tmp_path / "meminfo")
    assert available_bytes(CPU) == expected


def test_memory_when_the_system_lists_none_then_is_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = available_bytes(CPU)
    monkeypatch.setattr(thalweg.memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(thalweg.memory, "CGROUP", tmp_path / "none")
    everything = available_bytes(CPU)
    assert expected is not None
    assert everything is not None
    assert everything > expected / 2


def test_work_when_it_does_not_fit_then_is_refused_with_both_numbers() -> None:
    require_memory("a small task", 1, CPU, "do less")
    require_memory("an unknown device", 2**70, torch.device("meta"), "do less")
    with pytest.raises(
        InputError, match=r"^a large task needs about 1073741824\.0 GB of memory, but .*[GM]B are .*less$"
    ):
        require_memory("a large task", 2**60, CPU, "do less")
