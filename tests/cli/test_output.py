"""Output of commands: files, narrow terminals, and text that could harm a terminal."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

import thalweg as tw
from tests.command import Run
from tests.tiny import SENTENCE
from thalweg.cli.output import check_writable, write_text

ESCAPE = "\x1b"
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # colours only; anything else could move the cursor


@pytest.mark.parametrize("columns", ["40", "10"])
def test_terminal_when_narrow_then_no_line_is_wider(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in (("explain", SENTENCE), ("compare", SENTENCE)):
        done = run(*arguments, "--model", model)
        assert done.code == 0
        assert all(cell_len(line.rstrip()) <= int(columns) for line in done.out.splitlines())
    done = run("methods")
    assert all(cell_len(line.rstrip()) <= int(columns) for line in done.out.splitlines())


NASTY = (
    "[red]x[/red] [/red] [bold :smile: </script> [link=http://x]y [CLS] \\[x] "
    "\x1b[2J \x1b]0;title\x07 \x9b2J a\rb \u202eabc\u202c a\x08\x08b \x00z"
)


def test_trust_when_tokens_hold_markup_or_escapes_then_they_are_harmless(run: Run, literal: str) -> None:
    done = run("trust", NASTY, "--layer", "0", "--head", "0", "--model", literal)
    assert (done.code, done.err) == (0, "")
    assert_harmless(done.out)
    assert_harmless(run("trust", NASTY, "--model", literal).out)


@pytest.mark.parametrize("command", ["explain", "compare"])
@pytest.mark.parametrize("extra", [(), ("--words",), ("--target", "all")], ids=["", "words", "all"])
def test_tokens_when_they_hold_markup_or_escapes_then_are_shown_literally(
    run: Run, literal: str, command: str, extra: tuple[str, ...]
) -> None:
    done = run(command, NASTY, *extra, "--model", literal)
    assert (done.code, done.err) == (0, "")
    for token in ("[red]x[/red]", "[/red]", "[bold", ":smile:", "</script>", "[link=http://x]y"):
        assert token in done.out
    assert_harmless(done.out)


def test_largest_tokens_when_they_hold_markup_then_are_shown_literally(run: Run, literal: str) -> None:
    done = run("explain", "the [red]x[/red] :smile: [/b]", "--model", literal)
    assert done.code == 0
    table = [line for line in done.out.splitlines() if "█" in line]
    assert {line.split()[0] for line in table} == {"the", "[CLS]", "[red]x[/red]", ":smile:", "[/b]", "[SEP]"}


def assert_harmless(output: str) -> None:
    bare = STYLE.sub("", output)
    assert not [c for c in bare if c != "\n" and not c.isprintable()]


def test_tokens_when_the_output_is_a_terminal_then_only_colours_are_sent(
    run: Run, literal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    done = run("explain", NASTY, "--model", literal)
    assert done.code == 0
    assert ESCAPE in done.out  # coloured, so this proves something
    assert_harmless(done.out)


def test_errors_when_they_repeat_markup_or_escapes_then_are_harmless(run: Run, literal: str) -> None:
    for arguments in (
        ("explain", NASTY, "--target", "zebra"),
        ("explain", "the", "--target", NASTY),
        ("explain", "the", "--method", NASTY),
        ("explain", "the", "--layer", NASTY),
        ("explain", "the", NASTY),
        ("explain", "the", f"--{NASTY}"),
        ("explain", "the", "--json", f"/nowhere/{NASTY}".replace("\x00", "")),
    ):
        done = run(*(a.replace("\x00", "") for a in arguments), "--model", literal)
        assert done.code == 2
        assert "[/red]" in done.message
        assert_harmless(done.err)
        assert done.out == ""


def test_output_when_not_a_terminal_then_has_no_escape_codes(run: Run, model: str) -> None:
    for arguments in (
        ("explain", SENTENCE, "--model", model),
        ("compare", SENTENCE, "--model", model),
        ("methods",),
        ("--help",),
        ("explain", "", "--model", model),
    ):
        done = run(*arguments)
        assert ESCAPE not in done.out + done.err


@pytest.mark.parametrize("command", [["explain"], ["compare"], ["trust"]])
def test_result_when_page_and_figure_are_requested_then_are_written_too(
    run: Run, model: str, tmp_path: Path, command: list[str]
) -> None:
    html, png = tmp_path / "page.html", tmp_path / "page.png"
    done = run(*command, SENTENCE, "--model", model, "--html", str(html), "--png", str(png))
    assert (done.code, done.err) == (0, "")
    assert "checked: parity" in done.out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["report", "the cat"], "--html"),
        (["report", "the cat", "--html", "nowhere/page.html"], "'nowhere'"),
        (["explain", "the cat", "--png", "nowhere/page.png"], "'nowhere'"),
        (["trust", "the cat", "--layer", "0", "--head", "0", "--html", "page.html"], "--html and --png"),
        (["report", "the cat", "--html", "page.html", "--generate", "2"], "causal"),
        (["report", "the cat", "--html", "page.html", "--methods", "alchemy"], "unknown method 'alchemy'"),
    ],
)
def test_drawing_when_impossible_then_exits_with_two_and_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.code == 2
    assert fact in done.message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["explain", SENTENCE],
        ["compare", SENTENCE, "--methods", "raw_attention,attention_rollout,hidden_token_attribution"],
        ["trust", SENTENCE],
        ["trust", SENTENCE, "--layer", "1", "--head", "1"],
        ["mix", SENTENCE, "--methods", "alti"],
        ["methods"],
    ],
)
def test_terminal_when_40_columns_wide_without_colour_then_no_figure_or_name_is_cut(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    done = run(*command, *([] if command == ["methods"] else ["--model", model]))
    assert done.code == 0
    assert ESCAPE not in done.out
    assert "…" not in done.out
    assert max(cell_len(line) for line in done.out.splitlines()) <= 40


def test_path_when_unwritable_then_is_named_before_any_work(tmp_path: Path) -> None:
    check_writable(None, Path("-"), tmp_path / "new.json")
    with pytest.raises(tw.InputError, match=r"cannot write .*a\.json: .*nowhere"):
        check_writable(tmp_path / "nowhere" / "a.json")
    with pytest.raises(tw.InputError, match="is a folder"):
        check_writable(tmp_path)


def test_text_when_written_to_a_device_then_is_not_replaced_by_a_file() -> None:
    write_text(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()
