"""`thalweg mix`: figures by layer and method."""

import json
from pathlib import Path

from tests.command import Run

LONG = "the keys to the cabinet are on the old table, and the man sees it: a very good film is not a bad movie!"


def test_mix_when_run_then_shows_figures_of_every_method(run: Run, model: str, tmp_path: Path) -> None:
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
