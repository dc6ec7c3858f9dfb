"""`python -m papers.claims` as a person uses it."""

import json
import sys
from pathlib import Path

import pytest

from papers.claims.__main__ import main
from tests.command import Done, Run
from tests.conftest import unchecked


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> Done:
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "argv", ["papers.claims", *arguments])
        with unchecked(), pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return Done(int(str(stop.value.code or 0)), captured.out, captured.err)

    return command


def test_claims_when_listed_then_are_shown_and_nothing_runs(claims: Run, tmp_path: Path) -> None:
    done = claims("--list", "--runs", str(tmp_path / "runs"))
    assert done.code == 0 and "rank-bound" in done.out and "top-gradients" in done.out
    assert not (tmp_path / "runs").exists()


def test_claims_when_some_are_selected_then_shows_and_writes_their_verdicts(
    claims: Run, tmp_path: Path, shared_data: Path
) -> None:
    selected = ("--claim", "special-tokens,pronouns", "--quick", "--data", str(shared_data), "--runs", str(tmp_path))
    done = claims(*selected)
    assert done.code == 0 and "decides nothing" in done.out
    assert "not testable here" in done.out and "2 claims" in done.out
    assert "pronouns: not testable here" in done.err
    page, numbers = tmp_path / "claims.md", tmp_path / "claims.json"
    done = claims(*selected, "--out", str(page), "--json", str(numbers))
    assert done.code == 0 and "| special-tokens |" in page.read_text()
    assert len(json.loads(numbers.read_text())["claims"]) == 2


def test_claims_when_an_argument_is_wrong_then_fails_with_the_facts_on_one_line(claims: Run, tmp_path: Path) -> None:
    for arguments, facts in (
        (("--claim", "nothing"), ("'nothing'", "rank-bound")),
        (("--data", str(tmp_path / "nowhere")), ("data", "nowhere")),
        (("--out", str(tmp_path / "no" / "claims.md")), ("claims.md", "does not exist")),
        (("--out", str(tmp_path)), (str(tmp_path), "folder")),
    ):
        done = claims(*arguments)
        assert done.code == 2 and "Traceback" not in done.err
        assert all(fact in " ".join(done.err.split()) for fact in facts), done.err
