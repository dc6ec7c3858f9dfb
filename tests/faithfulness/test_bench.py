"""Whole runs: resumed as if never killed, failures as rows, cost in passes, and what is said in the end."""

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import thalweg as tw
from tests.tiny import snapshot, tiny_subject
from thalweg.faithfulness import bench as room
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.data import Example
from thalweg.faithfulness.registry import baseline
from thalweg.faithfulness.result import Bench
from thalweg.registry import Maps

TEXTS = ["the old dog runs", "a new cat is good", "the keys are on the table", "this film is bad", "the story is old"]
METHODS = ["alti", "gradient_norm", "random"]
METRICS = ["comprehensiveness", "sufficiency_mask", "naopc"]


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def timeless(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_run_when_killed_and_resumed_then_equals_an_uninterrupted_one(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "whole")
    asked: list[int] = []
    own = room.case_of

    def killed(*given: Any, **named: Any) -> Any:
        asked.append(given[2])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return own(*given, **named)

    monkeypatch.setattr(room, "case_of", killed)
    with pytest.raises(KeyboardInterrupt):
        bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert len(list((tmp_path / "cut").glob("rows-*.parquet"))) == 2
    assert Bench.load(tmp_path / "cut").examples == 2
    resumed = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert asked == [0, 1, 2, 2, 3, 4]
    assert timeless(resumed.rows) == timeless(whole.rows)
    assert resumed.to_dict() | {"folder": None} == whole.to_dict() | {"folder": None}
    assert sorted(one.name for one in (tmp_path / "cut").iterdir()) == ["bench.json", "rows.parquet"]
    again = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert asked == [0, 1, 2, 2, 3, 4]
    assert timeless(again.rows) == timeless(whole.rows)


def test_folder_when_a_kill_left_a_draft_and_parts_beside_the_whole_then_each_row_counts_once(
    subject: tw.Subject, tmp_path: Path
) -> None:
    done = bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    (tmp_path / "rows.parquetx.draft").write_bytes(b"half")
    shutil.copy(tmp_path / "rows.parquet", tmp_path / "rows-000000.parquet")
    again = bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    assert timeless(again.rows) == timeless(done.rows)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bench.json", "rows.parquet"]


def test_rows_when_read_by_others_then_have_a_column_for_every_metric(subject: tw.Subject, tmp_path: Path) -> None:
    bench(subject, TEXTS[:2], METHODS, METRICS, folder=tmp_path)
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == 6
    assert {"comprehensiveness_delete", "sufficiency_mask", "naopc_delete"} <= set(table.column_names)
    assert table.column("tokens").to_pylist()[0] == TEXTS[0].split()


def test_folder_when_it_holds_another_run_then_is_refused(subject: tw.Subject, tmp_path: Path) -> None:
    bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path / "run")
    with pytest.raises(tw.InputError, match="another choice of seed"):
        bench(subject, TEXTS[:2], ["random"], ["aopc"], seed=1, folder=tmp_path / "run")
    with pytest.raises(tw.InputError, match="another choice of examples"):
        bench(subject, TEXTS[:3], ["random"], ["aopc"], folder=tmp_path / "run")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(tw.InputError, match="not of a bench"):
        bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)


def test_method_when_it_fails_then_is_a_row_with_its_error(
    subject: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Params:
        pass

    def fragile(case: Any, params: Any) -> Maps:
        raise RuntimeError("it broke" if case.number == 0 else "again")

    from thalweg.faithfulness import registry

    monkeypatch.setattr(registry, "_baselines", {**registry.list_baselines()})
    baseline(params=Params, paper="–", cost="–", guarantee="–")(fragile)
    found = bench(subject, TEXTS[:2], ["fragile", "random"], ["aopc"])
    assert [row["error"] for row in found.rows] == ["RuntimeError: it broke", None, "RuntimeError: again", None]
    assert (found.failures["fragile"].count, found.failures["fragile"].first) == (2, "RuntimeError: it broke")
    assert found.means["aopc_delete"]["random"].count == 2
    assert found.means["aopc_delete"]["fragile"].count == 0


def test_example_when_it_cannot_be_read_then_is_rows_with_its_error(subject: tw.Subject) -> None:
    found = bench(subject, ["the old dog", "   ", "a cat and a dog and a cat"], ["random"], ["aopc"], max_tokens=6)
    assert [row["error"] is None for row in found.rows] == [True, False, False]
    assert "is empty" in found.rows[1]["error"]
    assert "more than the 6" in found.rows[2]["error"]


def test_cost_when_reported_then_is_in_passes_and_keeps_what_is_known(subject: tw.Subject) -> None:
    found = bench(subject, TEXTS[:1], ["leave_one_out", "occlusion:window=1"], ["comprehensiveness", "aopc"])
    count = len(TEXTS[0].split())
    assert found.cost.methods == {"leave_one_out": count, "occlusion:window=1": count}
    assert found.cost.metrics < found.cost.asked
    assert found.cost.shared == 2  # the capture, and the answer to the whole text
    assert found.cost.total == sum(found.cost.methods.values()) + found.cost.metrics + 2
    alone = bench(subject, TEXTS[:1], ["alti"], ["aopc"])
    assert (alone.cost.methods["alti"], alone.cost.metrics) == (0, count)


def test_ranking_and_inverse_when_compared_then_share_scores_and_bracket(subject: tw.Subject) -> None:
    found = bench(subject, TEXTS, ["leave_one_out"], ["aopc"], inverses=True)
    means = found.means["aopc_delete"]
    assert means["leave_one_out"].mean > means["inverse_leave_one_out"].mean
    assert found.cost.methods["inverse_leave_one_out"] == 0
    assert [(pair.first, pair.second) for pair in found.pairs["aopc_delete"]] == [
        ("leave_one_out", "inverse_leave_one_out")
    ]


def test_methods_when_they_are_the_same_then_no_difference_is_found(subject: tw.Subject) -> None:
    found = bench(subject, TEXTS * 2, ["gradient_norm", "attention_rollout", "attention_rollout:layer=2"], ["aopc"])
    same = next(one for one in found.agreements if one.first == "attention_rollout")
    assert same.correlation.mean == pytest.approx(1)
    assert same.tokens == ()
    other = next(one for one in found.agreements if one.second == "attention_rollout")
    assert other.correlation.mean < 1
    assert other.tokens
    pair = found.pairs["aopc_delete"][-1]
    assert (pair.difference.mean, pair.p, pair.differ) == (0, 1, False)


def test_randomisation_and_seeds_when_asked_for_then_leave_the_model_alone(subject: tw.Subject) -> None:
    before = snapshot(subject.model)
    found = bench(
        subject, TEXTS, ["alti", "random"], ["randomisation", "seed_robustness"], other_seeds=[tiny_subject("bert")]
    )
    assert snapshot(subject.model) == before
    assert found.means["seed_robustness"]["alti"].mean == pytest.approx(1)
    assert found.means["seed_robustness"]["random"].mean < 0.9
    assert found.means["randomisation"]["alti"].mean < 0.999
    assert found.failures == {}


def test_seed_robustness_when_there_are_no_seeds_then_says_what_is_missing(subject: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="give them as other_seeds"):
        bench(subject, TEXTS, ["alti"], ["seed_robustness"])


def test_pairs_of_words_when_a_causal_model_reads_them_then_the_cue_is_ranked() -> None:
    examples = [Example("the key is the", cue=((4, 7),), good="key", bad="the")] * 2
    found = bench(tiny_subject("gpt2"), examples, ["alti", "alti_logit", "gradient_norm"], ["cue_rank", "aopc_pad"])
    assert found.failures == {}
    assert all(0 < row["cue_rank"] <= 1 for row in found.rows)


@pytest.mark.parametrize(
    ("family", "text"),
    [("bert", "the old dog"), ("roberta", "the old dog"), ("gpt2", "the key"), ("electra", "the old [MASK] is")],
)
def test_all_when_asked_for_then_every_method_and_baseline_runs(family: str, text: str) -> None:
    found = bench(tiny_subject(family), [text], ["all"], ["comprehensiveness", "gradient_agreement", "randomisation"])
    assert len(found.methods) == len(tw.list_methods()) + 6
    assert found.failures == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"methods": []}, "no method"),
        ({"metrics": ["beauty"]}, "unknown metric 'beauty'"),
        ({"metrics": []}, "one or more different metrics"),
        ({"operator": "burn"}, "expected one of delete, mask, pad"),
        ({"examples": []}, "no examples"),
    ],
)
def test_bench_when_asked_for_nothing_sensible_then_says_so(
    subject: tw.Subject, as_a_user: None, given: dict[str, Any], said: str
) -> None:
    chosen: dict[str, Any] = {"examples": TEXTS, "methods": ["random"], "metrics": ["aopc"], **given}
    with pytest.raises(tw.InputError, match=said):
        bench(subject, **chosen)


def test_page_when_its_python_is_run_then_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "faithfulness.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "faithfulness.md", "exec"), {})


def test_model_when_it_has_no_single_answer_then_is_refused_before_anything_runs() -> None:
    with pytest.raises(tw.InputError, match="faithfulness is measured on classifiers"):
        bench(tiny_subject("t5"), TEXTS[:1], ["random"], ["aopc"])
