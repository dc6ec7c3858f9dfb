"""Shards in a run folder: written whole, found again, and refused if they are damaged or belong to another run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from safetensors.numpy import load_file

import thalweg as tw
from tests.corpus.folders import IDENTITY, VERSIONS, hand_made, read_rows
from thalweg.corpus.process import ShardResult
from thalweg.corpus.shard_store import KIND, Counts, ShardStore, open_store, read_run, total_counts
from thalweg.corpus.shards import CorpusText, Shard
from thalweg.errors import DamagedFileWarning

PROVENANCE = {"model": "some model", **VERSIONS}
SHARDS = tuple(Shard(number, (CorpusText(number, number + 1, f"text {number}"),)) for number in range(3))


def result_of(shard: Shard) -> ShardResult:
    number = shard.number
    scores = np.full((1, 2), number, dtype=np.float32)
    return ShardResult(number, (hand_made(number, tokens=4),), {f"{number}/alti": scores}, {str(number): ("a", "b")})


def write(path: Path, **changes: Any) -> None:
    """Write the shards that are missing from a folder."""
    with open_store(path, {**IDENTITY, "texts": 3, **changes}, PROVENANCE) as store:
        for shard in SHARDS:
            if not store.has(shard):
                store.add(shard, result_of(shard))


def opened(path: Path, action: Callable[[ShardStore], Any], **changes: Any) -> Any:
    with open_store(path, {**IDENTITY, "texts": 3, **changes}, PROVENANCE) as store:
        return action(store)


def test_counts_when_added_then_are_sums_with_the_first_error() -> None:
    total = Counts(2, 3, 1, 0, "first") + Counts(1, 1, 1, 1, "second")
    assert total == Counts(3, 4, 2, 1, "first")
    assert total_counts({}) == Counts()


def test_store_when_reopened_then_has_the_shards_that_were_added(tmp_path: Path) -> None:
    write(tmp_path)
    assert [row["text"] for row in read_rows(tmp_path)] == [0, 1, 2]
    counts, present = opened(tmp_path, lambda store: (store.counts, [store.has(shard) for shard in SHARDS]))
    assert (counts, present) == (Counts(3, 3), [True, True, True])
    other_text = Shard(1, (CorpusText(1, 2, "another text"),))
    assert not opened(tmp_path, lambda store: store.has(other_text))
    assert not opened(tmp_path, lambda store: store.has(Shard(3, SHARDS[0].texts)))


def test_label_when_read_then_names_schema_weights_run_and_texts(tmp_path: Path) -> None:
    write(tmp_path)
    header, labels = read_run(tmp_path)
    assert [labels[shard.number].digest for shard in SHARDS] == [shard.digest for shard in SHARDS]
    for shard in SHARDS:
        schema = pyarrow.parquet.read_schema(tmp_path / f"shard-{shard.number:06d}.parquet")
        label = json.loads(schema.metadata[b"thalweg"])
        assert label["run"] == header.digest
        assert (label["schema"], label["weights"]) == (KIND.schema, IDENTITY["weights"])
        assert (label["shard"], label["counts"]["rows"]) == (shard.number, 1)


def test_shards_when_the_file_became_shorter_then_are_removed_with_their_maps(tmp_path: Path) -> None:
    write(tmp_path, maps=True)
    (tmp_path / "maps-000002.safetensors").unlink()  # which makes its shard missing, but not its file
    opened(tmp_path, lambda store: store.keep_only(1), maps=True)
    assert {file.name for file in tmp_path.iterdir()} == {
        "run.json", "run.lock", "digests.txt", "shard-000000.parquet", "maps-000000.safetensors",
    }  # fmt: skip


def test_shard_when_damaged_or_of_another_run_then_is_named_to_readers_and_written_again(tmp_path: Path) -> None:
    write(tmp_path / "run")
    write(tmp_path / "other", top=1)
    shard, other = tmp_path / "run" / "shard-000001.parquet", tmp_path / "other" / "shard-000001.parquet"
    rows, intact = read_rows(tmp_path / "run"), shard.read_bytes()
    flipped = bytearray(intact)
    flipped[len(intact) // 3] ^= 16
    for content in (b"", b"PAR1", bytes(flipped), intact[:-1], other.read_bytes()):
        shard.write_bytes(content)
        for read in (read_run, tw.Corpus.load):
            with pytest.raises(tw.InputError, match=r"shard-000001\.parquet is damaged"):
                read(tmp_path / "run")
        with pytest.warns(DamagedFileWarning, match=r"shard-000001\.parquet is damaged"):
            write(tmp_path / "run")
        assert tw.Corpus.load(tmp_path / "run").complete
        assert read_rows(tmp_path / "run") == rows


def test_shard_when_copied_under_another_name_then_the_copy_is_ignored(tmp_path: Path) -> None:
    write(tmp_path)
    copy = tmp_path / "shard-000000 (copy).parquet"
    copy.write_bytes((tmp_path / "shard-000000.parquet").read_bytes())
    write(tmp_path)
    opened(tmp_path, lambda store: store.keep_only(0))
    assert tw.Corpus.load(tmp_path).texts == 0
    assert copy.exists()


def test_maps_when_written_then_hold_scores_and_tokens(tmp_path: Path) -> None:
    write(tmp_path, maps=True)
    maps = load_file(tmp_path / "maps-000002.safetensors")
    assert {name: scores.tolist() for name, scores in maps.items()} == {"2/alti": [[2.0, 2.0]]}


def test_maps_when_missing_damaged_or_of_another_run_then_their_shard_is_written_again(tmp_path: Path) -> None:
    write(tmp_path / "run", maps=True)
    write(tmp_path / "other", maps=True, weights="others")
    maps = tmp_path / "run" / "maps-000001.safetensors"
    intact = maps.read_bytes()
    for damaged in (
        b"x",
        intact[:-5],
        (tmp_path / "run" / "maps-000000.safetensors").read_bytes(),
        (tmp_path / "other" / "maps-000001.safetensors").read_bytes(),
    ):
        maps.write_bytes(damaged)
        with pytest.warns(DamagedFileWarning, match=r"maps-000001\.safetensors"):
            write(tmp_path / "run", maps=True)
        assert maps.read_bytes() == intact
