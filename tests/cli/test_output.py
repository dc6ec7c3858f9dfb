"""Output of commands: files, narrow terminals, and text that could harm a terminal."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import thalweg as tw
from tests.cli.everything import LISTS, RUNS
from tests.command import Run
from tests.tiny import SENTENCE, SPECIAL, save_folder, whole_words
from thalweg.cli.main import main
from thalweg.cli.output import check_outputs, show

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


@pytest.fixture(scope="module")
def literal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokens are the text between spaces, unchanged: its vocabulary holds the words of `NASTY`."""
    folder = save_folder(tmp_path_factory.mktemp("literal"))
    whole_words(["the", "[/b]", *(word for word in NASTY.split() if word not in SPECIAL)]).save_pretrained(folder)
    return str(folder)


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
    assert (done.code, done.err) == (0, f"wrote {html}\nwrote {png}\n")
    assert "checked: parity" in done.out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["report", "the cat"], "--html"),
        (["report", "the cat", "--html", "nowhere/page.html"], "'nowhere'"),
        (["explain", "the cat", "--png", "nowhere/page.png"], "'nowhere'"),
        (["trust", "--by-length", "--file", "texts.txt", "--html", "page.html"], "--html and figures"),
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
    assert not re.search(r"\S…", done.out)
    assert max(cell_len(line) for line in done.out.splitlines()) <= 40


def test_path_when_unwritable_then_is_named_before_any_work(tmp_path: Path) -> None:
    assert check_outputs(json=Path("-"), html=None, png=tmp_path / "new.png") == {
        "json": Path("-"),
        "png": tmp_path / "new.png",
    }
    with pytest.raises(tw.InputError, match=r"cannot write .*a\.json: .*nowhere"):
        check_outputs(json=tmp_path / "nowhere" / "a.json")
    with pytest.raises(tw.InputError, match="is a folder"):
        check_outputs(json=tmp_path)


@pytest.mark.parametrize("kind", ["json", "html", "png", "svg", "pdf", "csv", "out"])
@pytest.mark.parametrize("suffix", [".json", ".html", ".HTM", ".png", ".svg", ".pdf", ".csv"])
def test_suffix_when_of_another_format_then_is_refused_with_the_option_for_it(kind: str, suffix: str) -> None:
    own = suffix.lower()[1:4] == kind[:3]
    if own:
        assert check_outputs(**{kind: Path(f"a{suffix}")}) == {kind: Path(f"a{suffix}")}
        return
    option = "--html" if suffix == ".HTM" else f"--{suffix[1:]}"
    with pytest.raises(tw.InputError, match=rf"^--{kind} a{suffix} has the suffix of another format: use {option}"):
        check_outputs(**{kind: Path(f"a{suffix}")})


def test_paths_when_equal_then_are_refused_unless_they_are_a_device(tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    with pytest.raises(tw.InputError, match=r"--json .*texts\.csv would overwrite the input"):
        check_outputs(file, json=tmp_path / "." / "texts.csv")
    with pytest.raises(tw.InputError, match=r"--html a would overwrite --json"):
        check_outputs(json=Path("a"), html=Path("a"))
    with pytest.raises(tw.InputError, match=r"--html - would overwrite --json"):
        check_outputs(json=Path("-"), html=Path("-"))
    assert check_outputs(Path("-"), json=Path("-")) == {"json": Path("-")}
    assert len(check_outputs(json=Path("/dev/null"), html=Path("/dev/null"))) == 2


def test_result_when_written_to_a_device_then_it_is_not_replaced_by_a_file(bundled: tw.Subject) -> None:
    show(tw.trust(bundled, "a witty movie."), {"json": Path("/dev/null")})
    assert not Path("/dev/null").is_file()


SIGNATURES = {
    "html": b"<!doctype html>",
    "png": b"\x89PNG",
    "svg": b"<?xml",
    "pdf": b"%PDF",
    "json": b"{",
    "csv": b"text,id,",
}
DRAWN = {
    **dict.fromkeys(("explain", "compare", "trust", "report"), ("html", "png", "svg", "pdf")),
    "corpus report": ("html",),
    "corpus export": ("csv",),
}
WITHOUT_JSON = ("report", "corpus export")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", RUNS)
def test_result_when_files_are_requested_then_each_has_its_format_and_is_named_on_stderr(run: Run, name: str) -> None:
    kinds = [*DRAWN.get(name, ()), *(["json"] if name not in WITHOUT_JSON else [])]
    done = run(*RUNS[name], *(word for kind in kinds for word in (f"--{kind}", f"a.{kind}")))
    assert done.code == 0, done.err
    assert sorted(done.err.splitlines()) == sorted(f"wrote a.{kind}" for kind in kinds)
    assert done.out != ""
    for kind in kinds:
        assert Path(f"a.{kind}").read_bytes().startswith(SIGNATURES[kind])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [name for name in RUNS if name not in WITHOUT_JSON])
def test_json_when_written_to_stdout_then_is_the_only_output_of_every_command(run: Run, name: str) -> None:
    done = run(*RUNS[name], "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", RUNS)
def test_command_when_quiet_then_prints_nothing_but_errors(run: Run, name: str) -> None:
    flag = "-q" if name == "explain" else "--quiet"
    done = run(*RUNS[name], flag)
    assert (done.code, done.out, done.err) == (0, "", "")
    if "--model" in RUNS[name]:
        done = run(*RUNS[name], flag, "--model", "./nowhere")
        assert (done.code, done.out) == (2, "")
        assert "nowhere" in done.err


@pytest.mark.usefixtures("folder", "as_a_user")
@pytest.mark.parametrize("name", [*RUNS, *LISTS])
def test_terminal_when_it_shows_ascii_only_then_every_command_prints_there(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words = [word.replace(SENTENCE, "the café 😀 cat") for word in {**RUNS, **LISTS}[name]]
    streams = {stream: io.TextIOWrapper(io.BytesIO(), encoding="ascii") for stream in ("stdout", "stderr")}
    for stream, wrapper in streams.items():
        monkeypatch.setattr(sys, stream, wrapper)
    monkeypatch.setattr(sys, "argv", ["thalweg", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    streams["stdout"].flush()
    shown = streams["stdout"].buffer.getvalue().decode("ascii")
    assert not stop.value.code
    assert shown.strip()
    if name == "explain":
        assert "caf\\xe9" in shown
        assert "##" in shown  # bars


@pytest.mark.parametrize("setting", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_process_when_the_environment_is_ascii_then_lists_json_and_errors_are_printed(
    folder: Path, setting: dict[str, str]
) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHONIO"))}
        command = [sys.executable, "-m", "thalweg", *words]
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **setting}
        return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False, timeout=120)

    assert run("methods").returncode == run("bench", "--list").returncode == 0
    refused = run("explain", "the cat", "--method", "é")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: unknown method")
    (folder / "café.csv").write_text("text,label\n")
    assert run("mix", "--file", "café.csv", "--text-column", "名").returncode == 2


@pytest.mark.usefixtures("folder", "as_a_user")
def test_json_when_the_terminal_is_ascii_then_is_still_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "argv", ["thalweg", "explain", "the café 😀", "--model", "model", "--json", "-"])
    with pytest.raises(SystemExit):
        main()
    stdout.flush()
    assert json.loads(stdout.buffer.getvalue())["sources"]["texts"] == ["the café 😀"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "device"),
    [
        *((name, "cuda") for name, words in RUNS.items() if "--model" in words),
        *(("explain", device) for device in ("cuda:9", "mps", "nonsense", "meta", "hpu", "")),
    ],
)
def test_device_when_it_does_not_exist_then_is_refused_on_one_line(run: Run, name: str, device: str) -> None:
    done = run(*RUNS[name], "--device", device)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert f"device {device!r} is not available; this machine has cpu" in done.err
