"""Texts and labels: the same from every kind of table, and errors with the facts."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.files.tables import is_empty, read_labelled, read_pairs, read_texts, stream_identified, stream_texts

Row = tuple[Any, Any]
ROWS: list[Row] = [('a "quoted, text', "good"), ("l'été, déjà", "bad"), ("日本 \u2028 x", "good"), ("'", "7")]


def write_csv(file: Path, rows: Sequence[Row]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("label", "text"), *((label, text) for text, label in rows)])


def write_tsv(file: Path, rows: Sequence[Row]) -> None:
    lines = ["label\ttext", *(f"{label}\t{text}" for text, label in rows)]
    file.write_bytes("\n".join(lines).encode())


def write_jsonl(file: Path, rows: Sequence[Row]) -> None:
    file.write_text("\n".join(json.dumps({"label": label, "text": text}) for text, label in rows))


def write_parquet(file: Path, rows: Sequence[Row]) -> None:
    columns = {"label": [label for _, label in rows], "text": [text for text, _ in rows]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)


WRITERS: dict[str, Callable[[Path, Sequence[Row]], None]] = {
    "csv": write_csv,
    "tsv": write_tsv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}
kinds = pytest.mark.parametrize("kind", WRITERS)


@kinds
def test_rows_when_in_any_kind_of_table_then_are_the_same(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, ROWS)
    assert read_labelled(file) == ([text for text, _ in ROWS], [label for _, label in ROWS])
    assert read_texts(file) == [text for text, _ in ROWS]
    assert read_texts(file, "label", 2) == ["good", "bad"]


word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")).filter(str.strip)


@given(st.lists(st.tuples(word, word), min_size=1, max_size=5))
def test_rows_when_their_text_is_odd_then_are_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    folder = tmp_path_factory.mktemp("odd")
    for kind, write in WRITERS.items():
        held = rows
        if kind == "tsv":  # which has no way to write a tab or a line break inside a cell
            held = [tuple(cell.replace("\t", " _").replace("\n", " _") for cell in row) for row in rows]
        write(folder / f"rows.{kind}", held)
        assert read_labelled(folder / f"rows.{kind}") == ([text for text, _ in held], [label for _, label in held])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_labels_when_numbers_or_booleans_then_become_text(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, [("a", 1), ("b", 0)])
    assert read_labelled(file)[1] == ["1", "0"]
    WRITERS[kind](file, [("a", True), ("b", False)])
    assert read_labelled(file)[1] == ["True", "False"]
    WRITERS[kind](file, [("a", 0.5), ("b", 1.0)])
    with pytest.raises(tw.InputError, match=r"line 1 of .*'label' .*got 0\.5"):
        read_labelled(file)


@kinds
def test_rows_when_cells_are_empty_then_are_named(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, [("a", "x"), (" ", "y"), ("c", "x"), *[("", "z")] * 6])
    first = 1 if kind in ("csv", "tsv") else 0  # the line that names the columns
    with pytest.raises(tw.InputError, match=f"7 of 9 rows .*empty 'text' .lines {2 + first}, {4 + first}.*…"):
        read_labelled(file)
    assert read_texts(file) == ["a", "c"]
    WRITERS[kind](file, [("a", ""), ("b", "x")])
    with pytest.raises(tw.InputError, match=rf"1 of 2 rows .*empty 'label' .lines {1 + first}\)"):
        read_labelled(file)


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_rows_when_a_cell_is_null_then_are_named(nothing: object, tmp_path: Path) -> None:
    for kind in ("jsonl", "parquet"):
        file = tmp_path / f"rows.{kind}"
        WRITERS[kind](file, [("a", 1.5), ("b", nothing)])
        with pytest.raises(tw.InputError, match=r"1 of 2 rows .*empty 'label' .lines 2"):
            read_labelled(file)


@pytest.mark.parametrize("content", ["text,label\na,x\n\nb,y\n\n\n", "text\tlabel\na\tx\n\nb\ty\n\n"])
def test_empty_lines_when_at_the_end_then_do_not_count(content: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{'tsv' if chr(9) in content else 'csv'}"
    file.write_text(content)
    assert read_texts(file) == ["a", "b"]
    with pytest.raises(tw.InputError, match=r"1 of 3 rows .*lines 3\)"):
        read_labelled(file)


@kinds
def test_column_when_missing_then_the_existing_columns_are_listed(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, ROWS)
    with pytest.raises(tw.InputError, match="no column 'review'; expected one of label, text"):
        read_labelled(file, "review")
    with pytest.raises(tw.InputError, match="no column 'class'; expected one of label, text"):
        read_labelled(file, "text", "class")


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.csv", None, "cannot read"),
        ("a.parquet", None, "cannot read"),
        ("a.parquet", b"PAR1 and more", "not a readable Parquet file"),
        ("a.csv", b"", "is empty"),
        ("a.jsonl", b"\n\n", "is empty"),
        ("a.csv", b"text,label\n", "has no rows"),
        ("a.tsv", b"text\tlabel\n\n", "has no rows"),
        ("a.tsv", "text\tlabel\nété\tx".encode("latin-1"), r"line 2 of .* not valid UTF-8 \(byte 0xe9 at offset 0"),
        ("a.csv", b"text,label\na,x\nb,y,z\n", "line 3 of .* has 3 cells, expected 2"),
        ("a.tsv", b"text\tlabel\na\n", "line 2 of .* has 1 cells"),
        ("a.csv", b'text,label\n"a,x\n', "not valid CSV: unexpected end of data"),
        ("a.csv", b"text,text,label\na,b,x\n", "more than one column 'text'"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}', "line 2 of .* no column 'label'"),
        ("a.jsonl", b'{"text": "a", "label": 1}\nb', "line 2 of .* not valid JSON"),
        ("a.jsonl", b'["a"]', "line 1 of .* not a JSON object"),
        ("a.jsonl", b'{"text": 3, "label": 1}', "line 1 of .*'text' must be a text, got 3"),
        ("a.jsonl", rb'{"text": "\ud800", "label": 1}', "line 1 of .*'text' is not valid Unicode"),
        ("a.txt", b"a text", r"expected one of \.csv, \.tsv"),
    ],
)
def test_table_when_unusable_then_the_error_has_the_facts(
    name: str, content: bytes | None, facts: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(tw.InputError, match=facts):
        read_labelled(file)


def test_columns_when_the_same_then_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="different columns, got 'text'"):
        read_labelled(tmp_path / "a.csv", "text", "text")


JUNK = b"\xff\xfe\x00\x93"


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.txt", b"one\n\n" + JUNK + b"\nfour\r\nfive\rsix\n\n", {1: "one", 3: None, 4: "four", 5: "five", 6: "six"}),
        ("a.tsv", b"text\tn\none\t1\n" + JUNK + b"\t2\n\nfour\nfive\t5\n\n", {2: "one", 3: None, 5: None, 6: "five"}),
        (
            "a.csv",
            b'text,n\n"o\nne",1\n' + JUNK + b",2\n\nthree,3,3\nfive,5\n",
            {2: "o\nne", 4: None, 6: None, 7: "five"},
        ),
        ("a.csv", b'text\none\n"tw"o\nthree\n', {2: "one", 3: None, 4: "three"}),
        (
            "a.jsonl",
            b'{"text": "one"}\n{"text": "tw\n'
            + JUNK
            + b'\n\n{"text": 5}\n{"n": 6}\n{"text": null}\n{"text": "eight"}\n\n',
            {1: "one", 2: None, 3: None, 5: None, 6: None, 8: "eight"},
        ),
    ],
)
def test_stream_when_lines_are_broken_then_gives_their_errors_in_place(
    name: str, content: bytes, lines: dict[int, str | None], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    texts = list(stream_texts(file))
    assert {line: text if isinstance(text, str) else None for line, text in texts} == lines
    errors = {line: str(text) for line, text in texts if not isinstance(text, str)}
    assert all(error.startswith(f"line {line} of ") for line, error in errors.items())
    with pytest.raises(tw.InputError, match=f"line {min(errors)} of "):
        read_texts(file)
    assert read_texts(file, limit=1) == [next(iter(lines.values()))]


def test_stream_when_parquet_has_no_unicode_then_gives_its_error_in_place(tmp_path: Path) -> None:
    values = pyarrow.array([b"one", b"\xff", b"three"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": values}), tmp_path / "a.parquet")
    texts = dict(stream_texts(tmp_path / "a.parquet"))
    assert (texts[1], texts[3]) == ("one", "three")
    assert "line 2 of" in str(texts[2])


@kinds
def test_stream_when_stopped_early_then_has_not_read_the_rest(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, [(f"text {number}", "x") for number in range(100)])
    stream = stream_texts(file)
    assert next(stream)[1] == "text 0"
    if kind != "parquet":
        with file.open("ab") as more:
            more.write(b"\0")
    assert next(stream)[1] == "text 1"


def test_cell_when_null_blank_or_nan_then_is_empty() -> None:
    assert all(is_empty(cell) for cell in (None, "", " \t", float("nan")))
    assert not any(is_empty(cell) for cell in ("a", 0, False, 0.0))


@pytest.mark.parametrize("kind", ["jsonl", "tsv"])
def test_texts_when_in_a_column_of_another_name_then_are_read(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    rows = [('"one', 1), ("two", 1), ("three", 1)]
    if kind == "jsonl":
        file.write_text("\n".join(json.dumps({"review": text, "label": label}) for text, label in rows))
    else:
        file.write_text("\n".join(["label\treview", *(f"{label}\t{text}" for text, label in rows)]))
    assert read_texts(file, "review", 2) == ['"one', "two"]
    with pytest.raises(tw.InputError, match="no column 'nothing'"):
        read_texts(file, "nothing", None)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (None, "cannot read"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe\x00junk", "line 1 of .* NUL byte"),
        (b"\xffjunk", "line 1 of .* not valid UTF-8 .byte 0xff"),
        (b"a\0", "line 1 of .* NUL byte"),
    ],
)
def test_file_when_it_holds_no_texts_then_is_refused(content: bytes | None, facts: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(tw.InputError, match=facts):
        read_texts(file)


def test_pairs_when_read_then_empty_rows_are_skipped_and_half_empty_ones_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("a,b\none,two\n,\nthree,four\n")
    assert read_pairs(file, "a", "b") == [("one", "two"), ("three", "four")]
    assert read_pairs(file, "a", "b", 1) == [("one", "two")]
    file.write_text("a,b\n,\n")
    with pytest.raises(tw.InputError, match="expected pairs of texts in 'a' and 'b'"):
        read_pairs(file, "a", "b")
    with pytest.raises(tw.InputError, match="is not a table"):
        read_pairs(tmp_path / "pairs.txt", "a", "b")


def test_ids_when_a_column_is_named_then_come_with_their_texts(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a cat", "id": 7}\n{"text": "b", "id": null}\n{"text": 5, "id": "x"}\n{"text": "c"}\n')
    (first, second, third, fourth) = stream_identified(file, "text", "id")
    assert (first, second) == ((1, "7", "a cat"), (2, None, "b"))
    assert third[1] == "x" and isinstance(third[2], tw.InputError)
    assert fourth[1] is None and "no column 'id'" in str(fourth[2])
    (tmp_path / "a.txt").write_text("a cat\n")
    with pytest.raises(tw.InputError, match="not a table"):
        next(stream_identified(tmp_path / "a.txt", "text", "id"))
