"""Texts of commands: an argument, stdin or a file, alone or in pairs, the same for every command."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tw
from tests.cli.everything import MODEL, RUNS
from tests.command import Run
from tests.tiny import SENTENCE
from thalweg.cli.texts import read_several, read_text, spooled

SINGLE = ("explain", "compare", "mix", "trust", "trust of a head")
SEVERAL = ("trust by length", "bench", "corpus", "probe")
Stdin = Callable[[bytes], None]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Stdin:
    def hold(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return hold


def result(run: Run, *words: str) -> dict[str, object]:
    """The result as JSON, without what differs between two runs."""
    done = run(*words, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return {name: value for name, value in json.loads(done.out).items() if name not in ("seconds", "folder", "cost")}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", SINGLE)
def test_command_when_its_text_comes_from_stdin_or_a_file_then_gives_the_same(
    run: Run, stdin: Stdin, name: str
) -> None:
    command, _, *rest = RUNS[name]
    expected = result(run, *RUNS[name])
    stdin(f"{SENTENCE}\n".encode())
    assert result(run, command, "-", *rest) == expected
    assert json.loads(run(command, *rest, "--json", "-", "--", SENTENCE).out) == json.loads(
        run(*RUNS[name], "--json", "-").out
    )
    Path("one.csv").write_text(f'review\n"{SENTENCE}"\n')
    assert result(run, command, "--file", "one.csv", "--text-column", "review", *rest) == expected


@pytest.mark.usefixtures("folder")
def test_report_when_its_text_comes_from_stdin_then_is_written(run: Run, stdin: Stdin) -> None:
    command, _, *rest = RUNS["report"]
    stdin(SENTENCE.encode())
    assert run(command, "-", *rest).code == 0
    assert "cabinet" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", SEVERAL)
def test_command_when_its_file_is_stdin_then_gives_the_same(run: Run, stdin: Stdin, name: str) -> None:
    words = RUNS[name]
    expected = result(run, *words)
    stdin(Path("texts.txt").read_bytes())
    renamed = {"texts.txt": "-", "bench": "bench2", "rows": "rows2"}
    assert result(run, words[0], *[str(renamed.get(word, word)) for word in words[1:]]) == expected


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [*SINGLE, "report"])
@pytest.mark.parametrize("text", ["--text", "--quiet", "--layer", "-1 is bad"])
def test_text_when_it_looks_like_an_option_then_can_follow_two_dashes(run: Run, name: str, text: str) -> None:
    command, _, *rest = RUNS[name]
    done = run(command, *rest, "--", text)
    assert done.code == 0, done.err
    assert done.out != ""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["explain", "compare", "mix", "trust"])
def test_pair_when_it_comes_from_an_option_or_columns_then_gives_the_same(run: Run, name: str) -> None:
    command, _, *rest = RUNS[name]
    pair = result(run, command, "the cat runs", "--pair", "the dog runs", *rest)
    columns = ("--file", "pairs.csv", "--text-column", "premise", "--pair-column", "hypothesis")
    assert result(run, command, *columns, *rest) == pair
    assert result(run, command, "the cat runs", *rest) != pair


@pytest.mark.usefixtures("folder")
def test_pair_when_explained_then_is_that_of_the_library(run: Run) -> None:
    written = result(run, "explain", "the cat runs", "--pair", "the dog", *MODEL)
    expected = tw.explain(tw.load("model"), ("the cat runs", "the dog"))
    assert np.asarray(written["scores"]) == pytest.approx(expected.scores, abs=1e-6)
    assert expected.sources.texts == ("the cat runs", "the dog")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [*SINGLE, "report"])
def test_text_when_longer_than_the_window_then_is_refused_or_cut_and_the_receipt_says_so(run: Run, name: str) -> None:
    command, _, *rest = RUNS[name]
    text = "the cat runs " * 40
    done = run(command, text, *rest)
    assert done.code == 2
    assert "122 tokens" in done.message
    assert "--truncate" in done.message
    done = run(command, text, *rest, "--truncate")
    assert done.code == 0, done.err
    if name in ("explain", "compare", "trust"):
        assert "the text was cut from 122 to 64 tokens" in " ".join(done.out.split())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", SEVERAL)
def test_texts_when_longer_than_the_window_then_can_be_cut(run: Run, name: str) -> None:
    lines = Path("texts.txt").read_text().splitlines()
    Path("texts.txt").write_text("\n".join([f"{line} {'the cat runs ' * 40}" for line in lines]))
    if name != "trust by length":  # which takes pieces of its texts
        assert run(*RUNS[name], "--out", "refused").code == 2
    done = run(*RUNS[name], "--truncate")
    assert done.code == 0, done.err


def test_text_when_it_comes_from_nowhere_or_twice_then_is_refused(stdin: Stdin, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("a,b\none,two\nthree,four\n")
    refused: list[tuple[Any, str]] = [
        ((None, None, "a"), "either a text"),
        (("x", file, "a"), "either a text"),
        ((None, file, "a"), "has 2 texts, expected one"),
        ((None, file, "a", "second"), "--pair-column"),
        (("x", None, "a", None, "b"), "--pair-column goes with --file"),
        (("-", None, "a", "-"), "only one text"),
        ((None, file, "c"), "no column 'c'; expected one of a, b"),
        ((None, file, "a", None, "bb"), "no column 'bb'; did you mean 'b'"),
    ]
    for arguments, fact in refused:
        with pytest.raises(tw.InputError, match=fact):
            read_text(*arguments)
    stdin(b"\xff")
    with pytest.raises(tw.InputError, match="stdin is not valid UTF-8 \\(byte 0xff at offset 0\\)"):
        read_text("-", None, "text")
    stdin(b"\n")
    with pytest.raises(tw.InputError, match="is empty"):
        read_text("-", None, "text")


def test_texts_when_read_then_are_limited_and_may_come_from_stdin(stdin: Stdin, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("a,b\none,two\nthree,four\n")
    assert read_several(None, file, "a", 1) == ["one"]
    assert read_several(None, file, "a", None, None, "b") == [("one", "two"), ("three", "four")]
    stdin("\ufeffa\r\nb\r\n".encode())
    assert read_text("-", None, "text") == "a\r\nb"
    stdin(b"one\ntwo\n")
    assert read_several(None, Path("-"), "text", None) == ["one", "two"]
    stdin(b"kept")
    with spooled(Path("-")) as copy:
        assert copy.read_bytes() == copy.read_bytes() == b"kept"
    with spooled(file) as same:
        assert same == file
