"""Texts per second of a corpus on Ray, with one worker and with two, and of the local engine; without their start."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import thalweg as tw

TEXTS, SHARD = 1280, 16
FIRST = 10  # shards that do not count: when they are written, every worker has long begun
ROUNDS = 3
WORDS = (
    "a gorgeous , witty and seductive movie that is neither dull nor long but tells its story with great care".split()
)
ENGINES: dict[str, dict[str, Any]] = {
    "local": {},
    "one worker": {"engine": "ray", "workers": 1},
    "two workers": {"engine": "ray", "workers": 2},
}


def texts_per_second(subject: tw.Subject, file: Path, folder: Path, **engine: Any) -> float:
    """By the times at which shards were written, from the first that counts to the last."""
    tw.run_corpus(subject, file, folder, shard=SHARD, certificate=None, **engine)
    times = sorted(one.stat().st_mtime for one in folder.glob("shard-*.parquet"))[FIRST - 1 :]
    return SHARD * (len(times) - 1) / (times[-1] - times[0])


def main(rounds: int) -> None:
    subject, best = tw.load(), dict.fromkeys(ENGINES, 0.0)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "texts.txt"
        file.write_text("\n".join(" ".join(WORDS[n % 7 : 9 + n % 11]) + f" {n}" for n in range(TEXTS)))
        for turn in range(rounds):
            for name, engine in ENGINES.items():
                found = texts_per_second(subject, file, Path(place) / f"{name} {turn}", **engine)
                best[name] = max(best[name], found)
    print(
        f"texts per second, rollout and ALTI with the model that ships, start-up not counted, best of {rounds} rounds"
    )
    for name, found in best.items():
        print(f"  {name:12} {found:7.1f}   {found / best['one worker']:.2f} times one worker")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
