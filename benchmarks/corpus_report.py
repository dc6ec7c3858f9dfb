"""The time that the summary of a corpus takes: CPU seconds per 10,000 texts, and peak memory by number of texts.

`python -m benchmarks.corpus_report` prints the table; with the folder of a run it summarises that run and prints its
seconds and peak memory. The rows are those of a real run, repeated under new numbers.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

import pyarrow.parquet

import thalweg as tw
from benchmarks.corpus import sentences
from benchmarks.timing import own_peak_megabytes
from thalweg.corpus.process import ShardResult
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shard_store import ROWS, open_store
from thalweg.corpus.shards import Shard
from thalweg.corpus.summarise import summarise

SHARD = 256
SIZES = (10_000, 40_000)


def write_rows(folder: Path, count: int) -> Path:
    """Write at least `count` texts: a run over one shard, repeated."""
    file = folder / "texts.txt"
    file.write_text("\n".join(sentences(SHARD, 10, 40)) + "\n", encoding="utf-8")
    run = run_corpus(tw.load(), file, folder / "run", ["attention_rollout", "alti"], shard=SHARD)
    rows = pyarrow.parquet.read_table(run.folder / ROWS.format(0)).to_pylist()
    shards = -(-count // SHARD)
    identity = {**run.identity, "texts": shards * SHARD}
    with open_store(folder / "rows", identity, run.provenance) as store:
        for number in range(shards):
            renumbered = tuple({**row, "text": row["text"] + number * SHARD} for row in rows)
            store.add(Shard(number, ()), ShardResult(number, renumbered))
    return folder / "rows"


def measure(folder: Path) -> None:
    """Print the CPU seconds of a summary per 10,000 texts, and the peak memory of this process."""
    start = process_time()
    texts = summarise(folder).counts.texts
    print((process_time() - start) * 10_000 / texts, own_peak_megabytes())


def main() -> None:
    print("summary of a corpus, the bundled model, rollout, ALTI and certificates, texts of 10 to 40 words\n")
    print("| texts | CPU seconds per 10,000 texts | peak memory in MB |\n| --- | --- | --- |")
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows = write_rows(Path(folder), count)
            command = [sys.executable, "-m", "benchmarks.corpus_report", str(rows)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, megabytes = map(float, output.split())
            print(f"| {count:,} | {seconds:.1f} | {megabytes:.0f} |", flush=True)


if __name__ == "__main__":
    measure(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
