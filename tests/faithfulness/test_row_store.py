"""Rows in Parquet: written per example, merged at the end, read at any time."""

import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

import thalweg as tw
from thalweg.errors import DamagedFileWarning, MissingExtraError
from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.row_store import Row, empty_row, open_rows, read_rows
from thalweg.files.run_folder import RunHeader

METRICS = find_metrics(["aopc", "sufficiency"], "delete")
HEADER = RunHeader({"seed": 0}, {"model": "m"})


def rows_of(example: int) -> list[Row]:
    return [empty_row(example, name, METRICS) | {"aopc_delete": 0.5} for name in ("alti", "random")]


def write(path: Path, examples: range) -> list[Row]:
    with open_rows(path, HEADER, METRICS) as store:
        for example in examples:
            store.add(example, rows_of(example))
        return store.finish()


def test_rows_when_finished_then_are_one_file_in_the_order_of_the_examples(tmp_path: Path) -> None:
    with open_rows(tmp_path, HEADER, METRICS) as store:
        store.add(1, rows_of(1))
        store.add(0, rows_of(0))
        assert len(list(tmp_path.glob("rows-*.parquet"))) == 2
        assert [row["example"] for row in read_rows(tmp_path)] == [0, 0, 1, 1]
        rows = store.finish()
    assert rows == [*rows_of(0), *rows_of(1)] == read_rows(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"rows.parquet", "run.json", "run.lock", "digests.txt"}


def test_rows_when_reopened_then_are_known(tmp_path: Path) -> None:
    write(tmp_path, range(2))
    with open_rows(tmp_path, HEADER, METRICS) as store:
        assert store.rows == {0: rows_of(0), 1: rows_of(1)}


def test_rows_when_there_is_no_folder_then_stay_in_memory() -> None:
    with open_rows(None, HEADER, METRICS) as store:
        store.add(0, rows_of(0))
        assert store.finish() == rows_of(0)


def test_rows_when_a_kill_left_a_draft_and_parts_beside_the_merged_file_then_count_once(tmp_path: Path) -> None:
    rows = write(tmp_path, range(2))
    with open_rows(tmp_path, HEADER, METRICS) as store:
        store.add(0, rows_of(0))
    (tmp_path / "rows.parquetx.draft").write_bytes(b"half")
    assert write(tmp_path, range(0)) == rows
    assert {file.name for file in tmp_path.iterdir()} == {"rows.parquet", "run.json", "run.lock", "digests.txt"}


def test_rows_when_their_file_is_damaged_then_it_is_named_to_readers_and_written_again(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    intact = (tmp_path / "rows.parquet").read_bytes()
    flipped = bytearray(intact)
    flipped[len(intact) // 5] ^= 1
    for content in (b"PAR1", bytes(flipped), intact[:-1]):
        (tmp_path / "rows.parquet").write_bytes(content)
        with pytest.raises(tw.InputError, match=r"rows\.parquet is damaged"):
            read_rows(tmp_path)
        with pytest.warns(DamagedFileWarning, match=r"rows\.parquet is damaged"):
            assert write(tmp_path, range(1)) == rows_of(0) == read_rows(tmp_path)


def test_columns_when_read_by_other_programs_then_say_which_direction_is_better(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    schema = parquet.read_schema(tmp_path / "rows.parquet")
    assert schema.names[:2] == ["example", "method"]
    better = {metric.name: schema.field(metric.name).metadata[b"better"] for metric in METRICS}
    assert better == {"aopc_delete": b"higher", "sufficiency_delete": b"lower"}


def test_rows_when_pyarrow_is_missing_then_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"thalweg\[bench\]"), open_rows(tmp_path / "run", HEADER, METRICS):
        pass
    assert not (tmp_path / "run").exists()
