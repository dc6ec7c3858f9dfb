"""The command as a person and a script use it: answers, files, exit codes, and nothing unexpected."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

import thalweg as tw
from tests.command import Done, Run
from tests.tiny import SENTENCE, save_folder, tiny_subject, whole_words
from thalweg.methods.registry import list_methods

ESCAPE = "\x1b"
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # colours only; anything else could move the cursor


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def literal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokens are whatever stands between spaces, as it is."""
    folder = save_folder(tmp_path_factory.mktemp("literal"))
    whole_words().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def unprovable(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("unprovable"), "bitnet"))


# --- answers -------------------------------------------------------------------------------------


def test_explain_when_asked_then_shows_tokens_scores_and_receipt(run: Run, model: str) -> None:
    done = run("explain", SENTENCE, "--model", model)
    assert (done.code, done.err) == (0, "")
    assert "attention_rollout" in done.out
    assert "[CLS] the keys to the cabinet are on the old table . [SEP]" in done.out
    assert "prediction LABEL_" in done.out
    assert "read at [CLS]" in done.out
    assert "checked: parity" in done.out
    assert "assumed: the residual keeps a share of 0.5" in done.out
    result = tw.explain(tw.load(model), SENTENCE)
    for piece, score in result.top(8):
        assert re.search(rf"{re.escape(piece)} +{score:.3f}", done.out)


def test_explain_when_words_are_asked_for_then_merges_pieces(run: Run, model: str) -> None:
    done = run("explain", "the unhappy man", "--words", "--model", model)
    assert done.code == 0
    assert "[CLS] the unhappy man [SEP]" in done.out
    assert "un happy" in run("explain", "the unhappy man", "--model", model).out


def test_explain_when_all_targets_are_asked_for_then_shows_each(run: Run, model: str) -> None:
    done = run("explain", "the cat", "--target", "all", "--model", model)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("target ")] == [
        "target 0: [CLS]",
        "target 1: the",
        "target 2: cat",
        "target 3: [SEP]",
    ]


@pytest.mark.parametrize("target", ["5", "-8", "cabinet", "Cabinet"])
def test_target_when_given_as_place_or_token_then_is_found(run: Run, model: str, target: str) -> None:
    done = run("explain", SENTENCE, "--target", target, "--model", model)
    assert done.code == 0
    assert "target cabinet" in done.out


@pytest.mark.parametrize(
    "flags",
    [
        ("--layer", "0", "--head", "1", "--residual=0.3"),
        ("--layer=0", "--head=1", "--residual", "0.3"),
        ("--residual", "0.30", "--head", "1", "--layer", "-3"),
    ],
)
def test_parameters_of_a_method_when_given_as_flags_then_are_used(run: Run, model: str, flags: tuple[str, ...]) -> None:
    done = run("explain", SENTENCE, *flags, "--model", model, "--json", "-")
    assert done.code == 0
    written = json.loads(done.out)
    assert written["params"]["head"] == 1
    assert written["params"]["residual"] == 0.3
    expected = tw.explain(tiny_subject(), SENTENCE, layer=0, head=1, residual=0.3)
    np.testing.assert_allclose(written["scores"], expected.scores, atol=1e-6)


def test_parameters_of_a_method_when_they_stand_before_the_text_then_are_used_too(run: Run, model: str) -> None:
    done = run("explain", "--model", model, "--layer", "0", "the cat", "--json", "-")
    assert done.code == 0
    written = json.loads(done.out)
    assert written["params"]["layer"] == 0
    assert written["sources"]["texts"] == ["the cat"]


@pytest.mark.parametrize("text", ["- the film", "-1 is bad"])
def test_text_when_it_begins_with_a_dash_then_can_be_given_behind_two(run: Run, model: str, text: str) -> None:
    done = run("explain", "--model", model, "--json", "-", "--", text)
    assert done.code == 0
    assert json.loads(done.out)["sources"]["texts"] == [text]


def test_json_when_written_to_the_screen_then_is_all_there_is(run: Run, model: str) -> None:
    done = run("explain", SENTENCE, "--model", model, "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n") == 1
    written = json.loads(done.out, parse_constant=pytest.fail)
    assert written["sources"]["pieces"][1:3] == ["the", "keys"]
    assert np.shape(written["scores"]) == (1, 13)


def test_json_when_written_to_a_file_then_is_the_result(run: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run("explain", "the 😀 cat", "--words", "--model", model, "--json", str(path))
    assert (done.code, done.err) == (0, "")
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["sources"]["pieces"] == ["[CLS]", "the", "😀", "cat", "[SEP]"]
    assert ESCAPE not in done.out


def test_save_when_asked_for_then_can_be_loaded(run: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "result.safetensors"
    done = run("explain", SENTENCE, "--model", model, "--save", str(path))
    assert done.code == 0
    found, expected = tw.Attribution.load(path), tw.explain(tiny_subject(), SENTENCE)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    assert found.provenance["model"] == model
    assert "checked:" in done.out


def test_compare_when_asked_then_shows_both_and_their_agreement(run: Run, model: str) -> None:
    done = run("compare", SENTENCE, "--model", model)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "raw_attention" in lines
    assert "attention_rollout" in lines
    agreement = tw.compare(tiny_subject(), SENTENCE).agreement()[0, 1]
    assert f"{agreement:+.2f}" in done.out
    assert "+1.00" in done.out


def test_compare_when_written_as_json_then_holds_every_method(run: Run, model: str) -> None:
    asked = "raw_attention, attention_rollout"
    done = run("compare", "the unhappy cat", "--methods", asked, "--words", "--model", model, "--json", "-")
    assert (done.code, done.err) == (0, "")
    written = json.loads(done.out)
    assert written["methods"] == ["raw_attention", "attention_rollout"]
    for one in written["attributions"]:
        assert one["sources"]["pieces"] == ["[CLS]", "the", "unhappy", "cat", "[SEP]"]


LONG = "the keys to the cabinet are on the old table, and the man sees it: a very good film is not a bad movie!"


def test_trust_when_asked_then_says_what_can_be_read_and_shows_every_head(run: Run, model: str) -> None:
    done = run("trust", LONG, "--model", model)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    assert "12 heads can be read" in flat
    assert "most misleading heads" in flat
    assert "effective output" in flat
    assert done.out.count("○") + done.out.count("◐") + done.out.count("●") >= 12 + 3


def test_trust_when_one_head_is_asked_for_then_shows_intervals_and_alternatives(run: Run, model: str) -> None:
    done = run("trust", LONG, "--layer", "0", "--head", "1", "--target", "cabinet", "--model", model)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    assert "queries and keys anything" in flat
    assert "could be" in flat
    assert "moved as far at random" in flat
    assert "NOT PROVED" not in flat


def test_trust_when_written_as_json_then_holds_every_head(run: Run, model: str) -> None:
    certificate = json.loads(run("trust", LONG, "--model", model, "--json", "-").out)
    assert len(certificate["heads"]) == 12
    assert set(certificate["receipt"]["checks"]) == {"parity", "sum_of_parts", "effective_output"}
    report = json.loads(run("trust", LONG, "--layer", "1", "--head", "0", "--model", model, "--json", "-").out)
    assert len(report["intervals"]["intervals"]) == 8
    assert report["alternatives"]["polytope"]["moved"] <= report["alternatives"]["polytope"]["allowed"]


def test_trust_when_lengths_are_asked_for_then_shows_a_row_for_each(run: Run, model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(f"\ufeff{LONG}\n\n{LONG}\n", encoding="utf-8")
    done = run("trust", "--lengths", str(file), "--model", model)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines() if line.split()[0].isdigit()] == ["8", "16", "32"]


def test_mix_when_asked_then_shows_figures_of_every_method(run: Run, model: str, tmp_path: Path) -> None:
    done = run("mix", LONG, "--model", model)
    assert (done.code, done.err) == (0, "")
    for word in ("hidden_token_attribution", "alti", "norm_based", "not own", "11+", "punct."):
        assert word in done.out
    file = tmp_path / "texts.txt"
    file.write_text(f"{LONG}\nthe old dog runs.\nthe cat\n")
    done = run("mix", "--file", str(file), "--limit", "2", "--methods", "alti", "--start", "layer", "--model", model)
    assert "2 texts" in done.out
    written = json.loads(run("mix", "the cat", "--methods", "alti", "--model", model, "--json", "-").out)
    assert len(written["methods"]["alti"]["own"]) == 3


def test_methods_when_listed_then_shows_every_one(run: Run) -> None:
    done = run("methods")
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in list_methods())


@pytest.mark.parametrize("name", list(list_methods()))
def test_method_when_named_then_shows_its_words_and_parameters_literally(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = run("methods", name)
    assert (done.code, done.err) == (0, "")
    one = list_methods()[name]
    shown = " ".join(done.out.split())
    assert " ".join((one.function.__doc__ or "").split()) in shown
    assert one.paper in shown
    for field in one.params.__dataclass_fields__:
        assert f"--{field.replace('_', '-')}" in shown


def test_version_and_help_when_asked_for_then_are_shown(run: Run) -> None:
    assert run("--version") == Done(0, f"{tw.__version__}\n", "")
    for arguments in ((), ("explain",), ("compare",), ("methods",)):
        done = run(*arguments, "--help")
        assert (done.code, done.err) == (0, "")
        assert "Usage:" in done.out
        assert "thalweg" in done.out
    assert all(command in run("--help").out for command in ("explain", "compare", "methods"))


# --- mistakes and failures -----------------------------------------------------------------------

MISTAKES = {
    "empty_text": (("explain", ""), ("''", "empty")),
    "unknown_method": (("explain", "the cat", "--method", "alchemy"), ("alchemy", "raw_attention")),
    "unknown_flag": (("explain", "the cat", "--zeal", "5"), ("'zeal'", "residual")),
    "flag_without_value": (("explain", "the cat", "--layer"), ("--layer", "needs a value")),
    "flag_followed_by_flag": (
        ("explain", "the cat", "--layer", "--head", "1"),
        ("--layer", "needs a value"),
    ),
    "wrong_value": (("explain", "the cat", "--layer", "top"), ("'layer'", "a whole number")),
    "layer_out_of_range": (("explain", "the cat", "--layer", "7"), ("layer 7", "0 to 2")),
    "head_out_of_range": (("explain", "the cat", "--head", "4"), ("head 4", "0 to 3")),
    "target_out_of_range": (("explain", "the cat", "--target", "4"), ("4", "0 to 3")),
    "target_unknown": (("explain", "the cat", "--target", "zebra"), ("'zebra'", "not there")),
    "target_text": (("explain", "the cat", "--target-text", "a dog"), ("target_text",)),
    "text_without_quotes": (("explain", "the", "cat"), ("'cat'", "quotes")),
    "unknown_task": (("explain", "the cat", "--task", "divination"), ("'divination'",)),
    "one_method": (("compare", "the cat", "--methods", "raw_attention"), ("two or more",)),
    "unknown_method_to_compare": (
        ("compare", "the cat", "--methods", "raw_attention,alchemy"),
        ("alchemy",),
    ),
    "unwritable_json": (("explain", "the cat", "--json", "/nowhere/a.json"), ("/nowhere/a.json",)),
    "unwritable_save": (("explain", "the cat", "--save", "/nowhere/a"), ("/nowhere/a",)),
    "folder_as_json": (("explain", "the cat", "--json", "/tmp"), ("/tmp",)),
    "trust_of_nothing": (("trust",), ("either a text or --lengths",)),
    "trust_of_two_things": (("trust", "the cat", "--lengths", "texts.txt"), ("either a text or --lengths",)),
    "trust_layer_alone": (("trust", "the cat", "--layer", "0"), ("--head", "go together")),
    "trust_head_out_of_range": (("trust", "the cat", "--layer", "0", "--head", "4"), ("head 4", "0 to 3")),
    "trust_target_without_head": (("trust", "the cat", "--target", "cat"), ("--layer and --head",)),
    "trust_missing_file": (("trust", "--lengths", "/nowhere.txt"), ("cannot read", "/nowhere.txt")),
    "trust_folder_as_file": (("trust", "--lengths", "/tmp"), ("cannot read", "/tmp")),
    "trust_binary_file": (("trust", "--lengths", sys.executable), ("no text in UTF-8",)),
    "trust_empty_file": (("trust", "--lengths", "/dev/null"), ("is empty",)),
    "mix_of_nothing": (("mix",), ("either a text or --file",)),
    "mix_of_two_things": (("mix", "the cat", "--file", "texts.txt"), ("either a text or --file",)),
    "mix_without_maps": (("mix", "the cat", "--methods", "raw_attention"), ("no map for every layer",)),
    "mix_unknown_start": (("mix", "the cat", "--start", "top"), ("'top'", "embeddings")),
    "mix_missing_file": (("mix", "--file", "/nowhere.txt"), ("cannot read",)),
    "probe_of_nothing": (("probe",), ("either --file",)),
    "broken_text": (("explain", "the \udcff cat"), ("\\udcff",)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_of_the_user_when_made_then_exits_with_two_and_a_sentence(run: Run, model: str, name: str) -> None:
    arguments, says = MISTAKES[name]
    done = run(*arguments, "--model", model)
    assert done.code == 2
    assert done.out == ""
    assert done.said.startswith("error: ")
    assert "Traceback" not in done.err
    for part in says:
        assert part in done.said


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",),
        ("frobnicate",),
        ("methods", "alchemy"),
        ("explain", "the cat", "--model", "./nowhere"),
        ("explain", "the cat", "--model", "someone/unknown"),
        ("--frob",),
    ],
    ids=["no_text", "command", "method", "folder", "hub_name", "option"],
)
def test_command_when_it_cannot_be_understood_then_exits_with_two(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err
    assert "Traceback" not in done.err


def test_failure_when_a_block_cannot_be_proved_then_exits_with_one_and_a_sentence(run: Run, unprovable: str) -> None:
    done = run("explain", "the cat", "--model", unprovable)
    assert done.code == 1
    assert done.out == ""
    assert "cannot explain the attention" in done.said
    assert "Traceback" not in done.err


def test_debug_when_given_then_the_error_is_raised_with_its_traceback(run: Run, model: str, unprovable: str) -> None:
    for code, text, folder in ((2, "", model), (1, "the cat", unprovable)):
        done = run("--debug", "explain", text, "--model", folder)
        assert done.code == code
        assert "Traceback" in done.err


def test_debug_when_given_behind_the_command_then_is_understood_too(run: Run, model: str) -> None:
    done = run("explain", "", "--model", model, "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "is empty" in done.err


def test_error_when_nothing_is_a_terminal_then_stays_on_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = run("explain", "the cat", "--model", "./" + "nowhere" * 20)
    assert done.code == 2
    assert "nowhere" * 20 in done.err  # a script that looks for it finds it


# --- what reaches the terminal -------------------------------------------------------------------


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


def test_methods_when_the_terminal_is_narrow_then_names_can_still_be_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert all(name in run("methods").out for name in list_methods())


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
        assert "[/red]" in done.said
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


# --- as a process --------------------------------------------------------------------------------


def test_process_when_run_then_writes_only_its_json(model: str) -> None:
    code = "from thalweg.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", "the cat 😀", "--model", model, "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["sources"]["texts"] == ["the cat 😀"]


# --- pages and pictures --------------------------------------------------------------------------


def test_report_when_asked_then_writes_page_and_picture_and_says_so(run: Run, model: str, tmp_path: Path) -> None:
    html, png = tmp_path / "page.html", tmp_path / "page.png"
    done = run(
        "report", SENTENCE, "--model", model, "--html", str(html), "--png", str(png), "--methods", "alti", "--words"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("By alti, the prediction")
    assert "left out: intervals" in done.out and str(html).rsplit("/", 1)[1] in done.out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", [["explain"], ["compare"], ["trust"]])
def test_result_when_page_and_picture_are_asked_for_then_are_written_too(
    run: Run, model: str, tmp_path: Path, command: list[str]
) -> None:
    html, png = tmp_path / "page.html", tmp_path / "page.png"
    done = run(*command, SENTENCE, "--model", model, "--html", str(html), "--png", str(png))
    assert (done.code, done.err) == (0, "")
    assert "checked: parity" in done.out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "the cat"], "say where to write: --html"),
        (["report", "the cat", "--html", "nowhere/page.html"], "there is no folder 'nowhere'"),
        (["explain", "the cat", "--png", "nowhere/page.png"], "there is no folder 'nowhere'"),
        (["trust", "the cat", "--layer", "0", "--head", "0", "--html", "page.html"], "the certificate of all heads"),
        (["report", "the cat", "--html", "page.html", "--generate", "2"], "causal language models"),
        (["report", "the cat", "--html", "page.html", "--methods", "alchemy"], "unknown method 'alchemy'"),
    ],
)
def test_drawing_when_asked_wrongly_then_fails_with_one_sentence_and_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.code == 2
    assert said in done.said
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
