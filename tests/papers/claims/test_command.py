"""`thalweg reproduce` as a person uses it."""

import json
from pathlib import Path

from tests.command import Run


def test_reproduce_when_list_is_asked_for_then_shows_claims_and_runs_nothing(run: Run, tmp_path: Path) -> None:
    done = run("reproduce", "--list", "--runs", str(tmp_path / "runs"))
    assert done.code == 0 and "rank-bound" in done.out and "top-gradients" in done.out
    assert not (tmp_path / "runs").exists()


def test_reproduce_when_a_claim_is_chosen_then_shows_what_was_measured(
    run: Run, tmp_path: Path, shared_data: Path
) -> None:
    chosen = ("reproduce", "--claim", "special-tokens,pronouns", "--quick", "--data", str(shared_data))
    done = run(*chosen, "--runs", str(tmp_path))
    assert done.code == 0 and "decides nothing" in done.out
    assert "not testable here" in done.out and "2 claims" in done.out
    assert "pronouns: not testable here" in done.err
    page, numbers = tmp_path / "claims.md", tmp_path / "claims.json"
    done = run(*chosen, "--runs", str(tmp_path), "--out", str(page), "--json", str(numbers))
    assert done.code == 0 and "| special-tokens |" in page.read_text()
    assert len(json.loads(numbers.read_text())["claims"]) == 2


def test_reproduce_when_given_what_is_not_there_then_says_so_in_a_sentence(run: Run, tmp_path: Path) -> None:
    for arguments, said in (
        (("--claim", "nothing"), "there is no claim 'nothing'"),
        (("--data", str(tmp_path / "nowhere")), "which is no folder"),
        (("--out", str(tmp_path / "no" / "claims.md")), "there is no folder"),
        (("--out", str(tmp_path)), "that is a folder"),
    ):
        done = run("reproduce", *arguments)
        assert done.code == 2 and said in done.said and "Traceback" not in done.err
