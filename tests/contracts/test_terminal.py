"""Hostile text from every side: no command and no result lets a control character through to the terminal."""

import dataclasses
import io
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import thalweg as tw
from tests.attribution.handmade import SCORES, answer, attribution
from tests.command import Run
from tests.corpus.folders import hand_made, write_folder
from tests.probing.corpus import sentences
from tests.tiny import tiny_subject, whole_words
from thalweg.corpus.query import query
from thalweg.corpus.summarise import summarise
from thalweg.methods import registry
from thalweg.tokens import Tokens

HOSTILE = "x\x1b[31mRED\x1b[2J\x1b]0;title\x07\x9b2J\x7f\u202e\u2066\x85\u2028a\rb\x08\nFORGED"
WORD = HOSTILE.replace("\x85", "").replace("\u2028", "").replace("\r", "").replace("\n", "")  # white space splits words
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def assert_harmless(printed: str, coloured: bool = False) -> None:
    assert "\x1b[31mRED" not in printed
    text = STYLE.sub("", printed) if coloured else printed
    raw = {character for character in text if character != "\n" and not character.isprintable()}
    assert not raw
    assert not any(line.strip().startswith("FORGED") for line in text.splitlines())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose folder, labels and tokens are hostile, and files of texts with hostile names and columns."""
    folder = tmp_path_factory.mktemp("hostile") / HOSTILE
    folder.mkdir()
    subject = tiny_subject()
    subject.model.config.id2label = {n: f"{n} {HOSTILE}" for n in range(3)}
    subject.model.config.label2id = {f"{n} {HOSTILE}": n for n in range(3)}
    subject.model.save_pretrained(folder)
    whole_words().save_pretrained(folder)
    (folder / f"{HOSTILE}.txt").write_text("\n".join(f"{WORD} {line}" for line in sentences(12)))
    rows = [{HOSTILE: f"{WORD} {line}", "label": f"{WORD} {n % 2}"} for n, line in enumerate(sentences(20))]
    (folder / f"{HOSTILE}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return folder


def commands(folder: Path, out: Path) -> Iterator[tuple[str, ...]]:
    """Every command, and the errors that quote what they were given."""
    text, model = f"{WORD} the cat", ("--model", str(folder))
    lines, table = str(folder / f"{HOSTILE}.txt"), str(folder / f"{HOSTILE}.jsonl")
    yield "explain", text, *model
    yield "explain", text, *model, "--json", "-"
    yield "explain", text, *model, "--target", "all"
    yield "compare", text, *model
    yield "mix", text, *model, "--methods", "alti"
    yield "trust", text, *model
    yield "trust", text, *model, "--layer", "0", "--head", "0"
    yield "trust", "--by-length", "--file", lines, *model
    yield "report", text, *model, "--methods", "alti", "--html", str(out / f"{HOSTILE}.html")
    yield ("methods",)
    yield "methods", "alti"
    yield "probe", "--file", lines, *model, "--kinds", "identity", "--out", str(out / f"{HOSTILE}-probes")
    yield "probe", text, "--apply", str(out / f"{HOSTILE}-probes"), *model
    bench = ("bench", "--file", table, *model, "--methods", "alti,random", "--metrics", "sufficiency", "--limit", "3")
    yield *bench, "--text-column", HOSTILE, "--out", str(out / f"{HOSTILE}-bench")
    yield "bench", "--list"
    yield "corpus", "--file", lines, *model, "--out", str(out / f"{HOSTILE}-corpus"), "--limit", "2"
    yield "corpus", "report", str(out / f"{HOSTILE}-corpus")
    yield "corpus", "query", str(out / f"{HOSTILE}-corpus"), f"SELECT '{WORD}' AS \"{WORD}\", * FROM sources"
    yield "corpus", "export", str(out / f"{HOSTILE}-corpus"), "--csv", str(out / f"{HOSTILE}.csv")
    train = ("train", "--file", table, "--text-column", HOSTILE, "--out", str(out / f"{HOSTILE}-model"))
    yield *train, "--epochs", "1", "--width", "8", "--heads", "1"
    for debug in ((), ("--debug",)):
        yield *debug, "explain", text, "--model", f"./{HOSTILE}"
        yield *debug, "explain", text, *model, "--method", HOSTILE
        yield *debug, "explain", text, *model, f"--{HOSTILE}", "1"
        yield *debug, "explain", text, *model, "--target", HOSTILE
        yield *debug, "compare", text, *model, "--methods", f"alti,{HOSTILE}"
        yield *debug, "methods", HOSTILE
        yield *debug, HOSTILE
        yield *debug, "report", f"--{HOSTILE}"
        yield *debug, "trust", text, *model, "--layer", HOSTILE
        yield *debug, "report", text, *model, "--html", f"{HOSTILE}/{HOSTILE}"
        yield *debug, "trust", "--by-length", "--file", str(out / HOSTILE), *model
        yield *debug, "bench", "--file", table, *model, "--methods", HOSTILE, "--text-column", HOSTILE
        yield *debug, "bench", "--file", table, *model, "--text-column", f"no {HOSTILE}"
        yield *debug, "train", "--file", table, "--out", str(folder)
        yield *debug, "probe", text, "--apply", str(folder), *model
        yield *debug, "corpus", "query", str(out / f"{HOSTILE}-corpus"), f"SELECT {HOSTILE}"
        yield *debug, "corpus", "report", str(out / HOSTILE)


@pytest.mark.parametrize("coloured", [False, True])
def test_command_when_everything_from_outside_is_hostile_then_prints_no_control_character(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coloured: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "3000")  # no line is broken inside a name
    monkeypatch.chdir(tmp_path)
    if coloured:
        monkeypatch.setenv("FORCE_COLOR", "1")
    succeeded = 0
    for arguments in commands(folder, tmp_path):
        done = run(*arguments)
        assert done.out or done.err, arguments
        assert_harmless(done.out, coloured)
        assert_harmless(done.err, coloured)
        succeeded += done.code == 0
        if arguments[-1] == "-":
            assert HOSTILE in json.loads(done.out)["prediction"]
    assert succeeded == 20  # the errors are the other half


def hostile_tokens(tokens: Tokens) -> Tokens:
    return dataclasses.replace(tokens, pieces=(HOSTILE,) * len(tokens), special=(True,) * len(tokens))


def results(folder: Path) -> Iterator[Any]:
    """Results with hostile text in every field that can hold some, loaded from files where there are any."""
    plain = attribution(per_layer=np.stack([SCORES, SCORES.T]), answer=answer(HOSTILE))
    receipt = dataclasses.replace(plain.receipt, assumed=(HOSTILE,), learnt=(HOSTILE,), figures={HOSTILE: 1.0})
    made = dataclasses.replace(
        plain,
        method=HOSTILE,
        params={HOSTILE: HOSTILE},
        targets=hostile_tokens(plain.targets),
        sources=hostile_tokens(plain.sources),
        receipt=receipt,
        provenance=dict.fromkeys(plain.provenance, HOSTILE),
    )
    made.save(folder / "saved")
    loaded = tw.Attribution.load(folder / "saved")
    yield loaded
    yield tw.Comparison((loaded, loaded))
    errors = [hand_made(0, error=HOSTILE), hand_made(1, error=HOSTILE)]
    write_folder(folder / "corpus", errors, HOSTILE, methods=[HOSTILE], certificate=None)
    yield tw.Corpus.load(folder / "corpus")
    yield summarise(folder / "corpus")
    yield query(folder / "corpus", f"SELECT error AS \"{WORD}\", ['{WORD}'], {{'{WORD}': '{WORD}'}} FROM rows")
    subject = dataclasses.replace(tiny_subject(), name=HOSTILE)
    yield subject
    capture = subject.capture("the old cat")
    yield capture
    capture = dataclasses.replace(capture, tokens=hostile_tokens(capture.tokens), assumed=(HOSTILE,))
    yield tw.trust(subject, capture)
    yield tw.trust_head(subject, capture, 0, 0)
    yield tw.intervals(subject, capture, 0, 0)
    yield tw.alternatives(subject, capture, 0, 0)
    yield tw.mixing(subject, capture, ["alti"])
    yield tw.report(subject, capture, ["alti"])
    tw.bench(subject, ["the cat", "the dog"], ["alti", "random"], ["sufficiency"], folder=folder / "bench")
    yield tw.Bench.load(folder / "bench")
    probes = tw.probe(subject, sentences(12), kinds=["identity"], folder=folder / "probes")
    yield tw.Probes.load(folder / "probes")
    yield probes.apply(subject, "the cat")


def test_result_when_its_text_is_hostile_then_prints_no_control_character(tmp_path: Path, as_a_user: None) -> None:
    count = 0
    for result in results(tmp_path):
        printed = io.StringIO()
        Console(file=printed, width=3000).print(result)
        for text in (printed.getvalue(), str(result), repr(result)):
            assert_harmless(text)
        count += 1
    assert count == 16


def test_warning_when_a_plug_in_cannot_be_loaded_then_has_no_control_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        name = value = HOSTILE

        def load(self) -> None:
            raise OSError(HOSTILE)

    monkeypatch.setattr(registry, "entry_points", lambda group: [Broken()])
    registry._load_all.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        registry.list_methods()
    assert len(caught) == 1
    assert_harmless(str(caught[0].message))


def test_traceback_when_an_error_is_not_caught_then_our_message_has_no_control_character() -> None:
    try:
        raise tw.InputError(f"no file {HOSTILE}")
    except tw.InputError:
        assert_harmless(str(sys.exc_info()[1]))
