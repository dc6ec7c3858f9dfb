"""Times on a noisy machine: what is compared runs in turn, and each keeps its best."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable


def best_of(rounds: int, **jobs: Callable[[], object]) -> dict[str, float]:
    """Seconds of each job: the best of several rounds in which all of them take turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_megabytes(module: str, *arguments: str) -> float:
    """The largest resident memory of `python -m module arguments`, which prints it last."""
    command = [sys.executable, "-m", module, *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.split()[-1])


def own_peak_megabytes() -> float:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
