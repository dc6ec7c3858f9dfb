"""Memory that is left, so that work which cannot fit is refused before it starts."""

import os
from pathlib import Path

import torch

from thalweg.errors import InputError

CGROUP = Path("/sys/fs/cgroup")  # limits of a container
MEMINFO = Path("/proc/meminfo")


def available_bytes(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device; None if the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = [count for count in (_system_bytes(), _container_bytes()) if count is not None]
    return min(free) if device.type == "cpu" and free else None


def require_memory(work: str, needed: int, device: torch.device, advice: str) -> None:
    """Raise if the work needs more bytes than a device has left."""
    available = available_bytes(device)
    if available is not None and needed > available:
        raise InputError(
            f"{work} needs about {_gigabytes(needed)} of memory, but {_gigabytes(available)} are available; {advice}"
        )


def _system_bytes() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")  # all memory, where free memory is not known
        known = all(name in getattr(os, "sysconf_names", ()) for name in names)
        return os.sysconf(names[0]) * os.sysconf(names[1]) if known else None


def _container_bytes() -> int | None:
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return None


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.1f} MB"
