"""Formats of tables: columns, rows in place, and limits of the libraries that read them."""

import builtins
import csv
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import thalweg as tw
from thalweg.errors import MissingExtraError
from thalweg.files.formats import read_columns, table_rows, valid


def test_rows_when_columns_are_selected_then_have_cells_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('a,b,c\n1,2,3\n\n"4\n4",5,6\n\n\n')
    assert list(table_rows(file, ("c", "a"))) == [(2, ["3", "1"]), (3, [None, None]), (4, ["6", "4\n4"])]


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv", '"a, b",c\n', ["a, b", "c"]),
        ("a.tsv", 'a\t"b\n1\t2\n', ["a", '"b']),
        ("a.jsonl", '{"a": 1, "b": 2}\n{"c": 3}\n', ["a", "b"]),
        ("a.jsonl", "not json\n", []),
        ("a.jsonl", "[1]\n", []),
        ("a.txt", "a,b\n", []),
    ],
)
def test_columns_when_read_then_are_those_of_the_first_line(
    name: str, content: str, columns: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    assert read_columns(tmp_path / name) == columns


def test_columns_when_read_from_parquet_then_are_those_of_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "A.PARQUET"
    pyarrow.parquet.write_table(pyarrow.table({"b": [1], "a": ["x"]}), file)
    assert read_columns(file) == ["b", "a"]
    assert list(table_rows(file, ("a",))) == [(1, ["x"])]


def test_csv_when_cells_are_long_then_they_are_read_and_the_limit_is_restored(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "long.csv").write_text("text\n" + "a" * 200_000)
    ((_, cells),) = table_rows(tmp_path / "long.csv", ("text",))
    assert len(valid(cells)[0]) == 200_000
    assert csv.field_size_limit() == before


def test_item_when_it_is_an_error_then_is_raised() -> None:
    assert valid(5) == 5
    with pytest.raises(tw.InputError, match="bad"):
        valid(tw.InputError("bad"))


def test_parquet_when_pyarrow_is_missing_then_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"install thalweg\[data\]"):
        read_columns(tmp_path / "a.parquet")
