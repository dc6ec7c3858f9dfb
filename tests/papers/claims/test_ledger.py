"""Verdicts of claims, from measured numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from papers.claims.lab import Lab
from papers.claims.ledger import (
    VERDICTS,
    Claim,
    Effect,
    Entry,
    Figure,
    Finding,
    Ledger,
    NotHereError,
    Side,
    above,
    mean_of,
)
from papers.claims.reproduce import list_claims, reproduce
from papers.claims.view import as_markdown
from thalweg.errors import InputError, ModelError
from thalweg.faithfulness.statistics import Mean
from thalweg.rates import Rate


def effect(low: float, high: float, bound: float = 0.0, side: Side = "above") -> Effect:
    return Effect("a difference", Mean((low + high) / 2, low, high, 10), bound, side)


def entry(*effects: Effect) -> Entry:
    return Entry(Claim("one", "P4", "table 1", "a | b", lambda _: Finding("x", effects)), Finding("a model", effects))


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ([effect(0.1, 0.3)], "holds"),
        ([effect(-0.3, -0.1)], "does not hold"),
        ([effect(-0.1, 0.3)], "undecided"),
        ([effect(0.0, 0.0)], "does not hold"),  # a difference of exactly nothing is none
        ([effect(0.1, 0.3, 0.5, "below")], "holds"),
        ([effect(0.6, 0.7, 0.5, "below")], "does not hold"),
        ([effect(0.4, 0.7, 0.5, "below")], "undecided"),
        ([effect(0.1, 0.3), effect(-0.1, 0.1)], "undecided"),
        ([effect(0.1, 0.3), effect(-0.2, -0.1)], "does not hold"),
    ],
)
def test_verdict_when_intervals_are_given_then_follows_from_where_they_lie(effects: list[Effect], verdict: str) -> None:
    assert entry(*effects).verdict == verdict


def test_verdict_when_nothing_could_be_measured_then_says_why() -> None:
    untested = Entry(entry(effect(0.1, 0.2)).claim, None, "no texts")
    assert (untested.verdict, untested.measured()) == ("not testable here", ["no texts"])


def test_describe_when_an_effect_is_shown_then_has_its_interval_and_bound() -> None:
    assert effect(0.1, 0.3).describe() == "a difference 0.2 [0.1, 0.3] (> 0?)"
    assert Figure("all", mean_of([1.0, 1.0, 1.0])).describe() == "all 1"


def test_mean_of_when_inputs_vary_then_covers_at_its_rate() -> None:
    chance = np.random.default_rng(0)
    means = [mean_of(chance.normal(0.3, 1, 40)) for _ in range(300)]
    assert 0.91 <= np.mean([mean.low <= 0.3 <= mean.high for mean in means]) <= 0.98


def test_above_when_two_rates_are_given_then_takes_both_at_their_worst() -> None:
    assert above(Rate(0.9, 0.8, 1.0), Rate(0.5, 0.4, 0.7), 7) == Mean(0.4, 0.8 - 0.7, 1.0 - 0.4, 7)


def test_list_claims_when_asked_then_has_every_paper_and_at_least_twenty() -> None:
    claims = list_claims()
    assert len(claims) >= 20
    assert {claim.paper for claim in claims.values()} == {"P1", "P2", "P3", "P4"}
    assert all(name == claim.name and claim.says.endswith(".") for name, claim in claims.items())
    assert list(claims) == sorted(claims, key=lambda name: claims[name].paper)


def test_reproduce_when_neither_texts_nor_models_are_there_then_all_say_what_is_missing(tmp_path: Path) -> None:
    ledger = reproduce(runs=tmp_path, quick=True)
    assert {entry.verdict for entry in ledger.entries} == {"not testable here"}
    assert all(entry.reason for entry in ledger.entries)
    assert sum(ledger.counts().values()) == len(list_claims())


def test_reproduce_when_a_name_or_a_folder_is_wrong_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"claim 'nothing'.*rank-bound"):
        reproduce(["nothing"])
    with pytest.raises(InputError, match=r"data .*folder.*nowhere"):
        reproduce(data=tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"models .*folder.*nowhere"):
        reproduce(models=tmp_path / "nowhere")


def test_reproduce_when_texts_are_in_the_folder_but_models_are_not_then_names_the_model(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (entry,) = reproduce(["rank-bound"], data=tmp_path, models=tmp_path / "models", runs=tmp_path).entries
    assert entry.reason is not None
    assert "all-MiniLM-L6-v2" in entry.reason and str(tmp_path / "models") in entry.reason


def test_reproduce_when_the_folder_for_runs_is_a_file_then_says_so(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write to .*runs"):
        reproduce(["own-token"], data=shared_data, runs=tmp_path / "runs", quick=True)
    assert (tmp_path / "runs").read_text() == "mine"


def test_kept_when_measured_before_then_is_read_until_the_experiment_changes(tmp_path: Path) -> None:
    times = []

    def measure() -> list[float]:
        times.append(1)
        return [0.5, float(len(times))]

    first = Lab(None, None, tmp_path).kept("numbers", measure)
    assert Lab(None, None, tmp_path).kept("numbers", measure) == first == [0.5, 1.0]
    file = tmp_path / "measured" / "numbers.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "code": "of another version"}))
    assert Lab(None, None, tmp_path).kept("numbers", measure) == [0.5, 2.0]


def test_kept_when_a_run_is_quick_then_full_runs_do_not_see_it(tmp_path: Path) -> None:
    assert Lab(None, None, tmp_path, quick=True).kept("numbers", lambda: 1) == 1
    assert Lab(None, None, tmp_path).kept("numbers", lambda: 2) == 2


def test_kept_when_measuring_fails_then_nothing_is_left(tmp_path: Path) -> None:
    def broken() -> float:
        raise NotHereError("no such thing")

    with pytest.raises(NotHereError):
        Lab(None, None, tmp_path).kept("numbers", broken)
    assert not list((tmp_path / "measured").iterdir())


def test_as_markdown_when_texts_have_bars_then_the_table_keeps_its_columns() -> None:
    ledger = Ledger(
        (entry(effect(0.1, 0.2)), Entry(entry(effect(0.1, 0.2)).claim, None, "a | b")), True, {"thalweg": "1"}
    )
    page = as_markdown(ledger, "python -m papers.claims --quick")
    rows = [line for line in page.splitlines() if line.startswith("| one")]
    assert len(rows) == 2 and all(row.replace("\\|", "").count("|") == 5 for row in rows)
    assert "**holds**" in rows[0] and "**not testable here**" in rows[1]
    assert "decides nothing" in page and "`python -m papers.claims --quick`" in page
    assert "2 claims: holds 1, not testable here 1" in page


def test_to_dict_when_written_as_json_then_reads_back_with_every_verdict() -> None:
    ledger = Ledger((entry(effect(0.1, 0.2)),), False, {"thalweg": "1"})
    described = json.loads(json.dumps(ledger.to_dict()))
    assert described["claims"][0]["verdict"] == "holds" and set(described["counts"]) == set(VERDICTS)
    assert described["claims"][0]["finding"]["effects"][0]["value"]["low"] == 0.1


def test_finding_when_nothing_decides_then_is_refused() -> None:
    with pytest.raises(AssertionError, match="at least one effect"):
        Finding("a model", ())


def test_to_dict_when_a_number_is_not_known_then_is_still_json() -> None:
    ledger = Ledger((entry(effect(-np.inf, np.inf)),), False, {"thalweg": "1"})
    json.dumps(ledger.to_dict(), allow_nan=False)


def test_reproduce_when_an_experiment_fails_then_the_others_are_still_tested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(lab: Lab) -> Finding:
        raise ModelError("NaN in the weights")

    claims = {"one": Claim("one", "P1", "here", "It works.", broken)}
    monkeypatch.setattr("papers.claims.reproduce.CLAIMS", claims)
    (entry,) = reproduce(runs=tmp_path).entries
    assert entry.reason == "the experiment failed: NaN in the weights"
