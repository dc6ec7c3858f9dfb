"""Whole runs: resumed as if never killed, failures as rows, cost in passes, and what is said in the end."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch

import thalweg as tw
from tests.encoders.training.corpus import tiny_bert
from tests.tiny import snapshot, tiny_subject, wordpiece
from thalweg.errors import MissingExtraError
from thalweg.faithfulness import bench as room
from thalweg.faithfulness import bounds
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import baseline
from thalweg.faithfulness.result import Bench
from thalweg.files.atomic import alone
from thalweg.methods.registry import Maps

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
    examples = [BenchExample("the key is the", cue=((4, 7),), good="key", bad="the")] * 2
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


def test_model_when_it_has_no_tokenizer_then_is_refused(subject: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="without a tokenizer"):
        bench(replace(subject, tokenizer=None), TEXTS[:1], ["random"], ["aopc"])


def test_folder_when_another_run_writes_into_it_then_is_refused_and_free_afterwards(
    subject: tw.Subject, tmp_path: Path
) -> None:
    with alone(tmp_path), pytest.raises(tw.InputError, match="another run is writing into"):
        bench(subject, TEXTS[:1], ["random"], ["aopc"], folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert bench(subject, TEXTS[:1], ["random"], ["aopc"], folder=tmp_path).examples == 1


def test_folder_when_a_file_of_rows_is_broken_then_is_named_and_can_be_removed(
    subject: tw.Subject, tmp_path: Path
) -> None:
    bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(tw.InputError, match=r"rows.parquet' cannot be read: .*; remove it"):
        bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    (tmp_path / "rows.parquet").unlink()
    assert bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path).examples == 2


KILLED = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from tests.tiny import tiny_subject
from thalweg.faithfulness.bench import bench

folder = sys.argv[1]
texts = ["the key is the key", "the keys to the", "a cat and the dog", "the old key", "dog and the cat is"]

def run(where):  # a model of its own each time, which knows nothing of another run
    subject, seed = tiny_subject("gpt2"), tiny_subject("gpt2")
    methods = ["alti", "gradient_norm", "integrated_gradients:steps=3", "leave_one_out", "value_zeroing", "random"]
    metrics = ["aopc", "naopc_pad", "gradient_agreement", "randomisation", "seed_robustness"]
    return bench(subject, texts, methods, metrics, other_seeds=[seed], folder=where, inverses=True)

start = time.monotonic()
run(f"{folder}/whole")
lasts = time.monotonic() - start
chance, cut = random.Random(int(sys.argv[2])), 0
for _ in range(6):
    child = os.fork()
    if child == 0:
        run(f"{folder}/cut")
        os._exit(0)
    time.sleep(chance.uniform(0.1, 0.6) * lasts)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    cut += not os.path.exists(f"{folder}/cut/rows.parquet")
run(f"{folder}/cut")
print(cut)
"""


def test_run_when_killed_at_any_moment_then_ends_with_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    """Passes are compared too: a model whose wiring must be learnt again after a kill counts no more than before."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path), "5"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= 1, "no kill came before the end"
    whole, cut = (parquet.read_table(tmp_path / name / "rows.parquet").to_pylist() for name in ("whole", "cut"))
    assert len(whole) == 5 * 12
    assert timeless(cut) == timeless(whole)
    assert not any(row["error"] for row in whole)


def test_seed_when_it_cannot_read_a_text_then_only_its_metric_says_so(subject: tw.Subject) -> None:
    """The other seed has 32 positions, the model 64."""
    short = tw.load(tiny_bert().eval(), wordpiece())
    found = bench(subject, ["dog " * 40], ["gradient_norm", "random"], ["aopc", "seed_robustness"], other_seeds=[short])
    for row in found.rows:
        assert row["aopc_delete"] is not None
        assert row["seed_robustness"] is None
        assert row["error"].startswith("seed_robustness: the input has 42 tokens")


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two baselines: one that says nothing of any token, one that divides by zero."""
    from thalweg.faithfulness import registry

    class Params:
        pass

    def constant(case: Any, params: Any) -> Maps:
        return Maps(torch.ones(1, len(case.whole), dtype=torch.float64))

    def broken(case: Any, params: Any) -> Maps:
        return Maps(torch.full((1, len(case.whole)), float("nan"), dtype=torch.float64))

    monkeypatch.setattr(registry, "_baselines", {**registry.list_baselines()})
    for one in (constant, broken):
        baseline(params=Params, paper="–", cost="–", guarantee="–")(one)


def test_scores_when_not_numbers_then_are_the_methods_failure(subject: tw.Subject, odd: None) -> None:
    found = bench(subject, TEXTS[:2], ["broken", "random"], ["aopc"])
    assert found.failures["broken"].count == 2
    assert "not finite" in found.failures["broken"].first
    assert found.means["aopc_delete"]["random"].count == 2


def test_scores_when_constant_then_rank_in_the_order_of_the_text_and_correlate_with_nothing(
    subject: tw.Subject, odd: None
) -> None:
    found = bench(subject, TEXTS, ["constant", "alti"], ["aopc", "blank_out_agreement", "randomisation"])
    assert found.failures == {}
    assert found.means["aopc_delete"]["constant"].count == len(TEXTS)
    for metric in ("blank_out_agreement_delete", "randomisation"):
        assert (found.means[metric]["constant"].count, found.means[metric]["alti"].count) == (0, len(TEXTS))
    assert found.agreements[0].correlation.count == 0


def test_text_when_it_is_no_unicode_then_its_row_can_still_be_written(
    subject: tw.Subject, tmp_path: Path, as_a_user: None
) -> None:
    found = bench(subject, ["the \ud800 dog", TEXTS[0]], ["random"], ["aopc"], folder=tmp_path)
    assert [row["error"] is None for row in found.rows] == [False, True]
    assert timeless(Bench.load(tmp_path).rows) == timeless(found.rows)


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ("one text", "one text was given"),
        ([("a", "pair")], "pairs of texts are not supported"),
        ([7], "a int was given"),
    ],
)
def test_examples_when_no_texts_then_are_refused(
    subject: tw.Subject, as_a_user: None, examples: Any, said: str
) -> None:
    with pytest.raises(tw.InputError, match=said):
        bench(subject, examples, ["random"], ["aopc"])


def test_rows_when_read_without_us_then_their_columns_say_which_direction_is_better(
    subject: tw.Subject, tmp_path: Path
) -> None:
    bench(subject, TEXTS[:1], ["random"], ["aopc", "sufficiency"], folder=tmp_path)
    columns = parquet.read_schema(tmp_path / "rows.parquet")
    better = {name: columns.field(name).metadata[b"better"] for name in ("aopc_delete", "sufficiency_delete")}
    assert better == {"aopc_delete": b"higher", "sufficiency_delete": b"lower"}


def test_reference_when_agreement_with_it_is_measured_then_does_not_compete(subject: tw.Subject) -> None:
    found = bench(subject, TEXTS * 2, ["leave_one_out", "alti", "random"], ["blank_out_agreement"])
    assert found.means["blank_out_agreement_delete"]["leave_one_out"].mean == pytest.approx(1)
    assert found.verdicts["blank_out_agreement_delete"].leader == "alti"


def test_naopc_when_a_text_is_long_then_says_what_it_would_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LONGEST", 3)
    found = bench(tiny_subject("bert"), ["the old dog runs"], ["random"], ["aopc", "naopc"])
    assert found.rows[0]["aopc_delete"] is not None
    assert "all orders of 4 tokens would take about 80 passes" in found.rows[0]["error"]


def test_bench_when_an_extra_is_missing_then_says_so_and_keeps_no_row(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row with that error would still be there when the extra is."""
    monkeypatch.setitem(sys.modules, "captum", None)
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtraError, match="captum"):
        bench(subject, TEXTS, ["integrated_gradients"], ["aopc"], folder=tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.parquet"))


def test_failures_when_only_a_metric_failed_then_the_method_is_not_blamed(shipped: tw.Subject) -> None:
    found = bench(shipped, ["a witty movie " * 36], ["random"], ["aopc", "naopc"])
    assert (found.failures["random"].count, found.failures["random"].without_scores) == (1, 0)
    assert found.means["aopc_delete"]["random"].count == 1
