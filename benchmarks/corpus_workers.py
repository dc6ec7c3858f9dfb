"""Texts per second of a corpus, start-up excluded: the local engine, and Ray with one worker and with two."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import thalweg as tw

TEXTS, SHARD = 1280, 16
START_UP_SHARDS = 10  # not counted: once they are written, every worker is running
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
    """The rate from the last start-up shard to the last shard, by the times of the files."""
    tw.run_corpus(subject, file, folder, shard=SHARD, certificate=None, **engine)
    times = sorted(shard.stat().st_mtime for shard in folder.glob("shard-*.parquet"))[START_UP_SHARDS - 1 :]
    return SHARD * (len(times) - 1) / (times[-1] - times[0])


def main(rounds: int) -> None:
    subject, best = tw.load(), dict.fromkeys(ENGINES, 0.0)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "texts.txt"
        file.write_text("\n".join(" ".join(WORDS[n % 7 : 9 + n % 11]) + f" {n}" for n in range(TEXTS)))
        for turn in range(rounds):
            for name, engine in ENGINES.items():
                rate = texts_per_second(subject, file, Path(place) / f"{name} {turn}", **engine)
                best[name] = max(best[name], rate)
    print(f"texts per second, rollout and ALTI with the bundled model, start-up excluded, best of {rounds} rounds")
    for name, rate in best.items():
        print(f"  {name:12} {rate:7.1f}   {rate / best['one worker']:.2f} times one worker")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
