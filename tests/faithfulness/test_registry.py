"""Registry of metrics and baselines: a new one is one file."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

import thalweg as tw
from tests.command import Run
from tests.faithfulness.cases import first_and_last, subject_of
from thalweg.faithfulness import baselines, metrics, registry
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import find_metrics, list_baselines, list_metrics

METRIC_FILE = '''
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="faithfulness", paper="none", limits=(0.0, 512.0))
def toy_depth(ranking: Ranking) -> float:
    """Position of the top token: a toy."""
    return float(ranking.order[0])
'''
BASELINE_FILE = '''
from dataclasses import dataclass

import torch

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.registry import baseline
from thalweg.methods.params import option
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    sign: int = option(1, "direction")


@baseline(params=Params, paper="none", cost="nothing", guarantee="none")
def toy_position(case: Case, params: Params) -> Maps:
    """Position in the text: a toy."""
    return Maps(params.sign * torch.arange(len(case.original), dtype=torch.float64)[None])
'''


@pytest.fixture
def toy_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new file in each of the two folders."""

    def add(package: ModuleType, name: str, content: str) -> None:
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / f"{name}.py").write_text(content)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])

    monkeypatch.setattr(registry, "_metrics", {**list_metrics()})
    monkeypatch.setattr(registry, "_baselines", {**list_baselines()})
    add(metrics, "toy_depth", METRIC_FILE)
    add(baselines, "toy_position", BASELINE_FILE)
    importlib.invalidate_caches()
    registry._import_all.cache_clear()
    yield
    registry._import_all.cache_clear()
    for module in ("metrics.toy_depth", "baselines.toy_position"):
        sys.modules.pop(f"thalweg.faithfulness.{module}", None)


def test_metric_and_baseline_when_one_file_each_is_added_then_a_bench_runs_them(
    toy_files: None, tmp_path: Path
) -> None:
    texts = ["the old dog runs", "a new cat is good"]
    methods = ["toy_position", "toy_position:sign=-1", "alti"]
    result = bench(subject_of("bert"), texts, methods, ["toy_depth", "aopc"], folder=tmp_path / "run", inverses=True)
    assert result.failures == {}
    assert result.values("toy_depth")["toy_position"] == pytest.approx([4, 5])  # behind [CLS], the last word is 4 or 5
    assert result.values("toy_depth")["toy_position:sign=-1"] == pytest.approx([1, 1])
    assert result.values("toy_depth")["inverse_toy_position"] == pytest.approx([1, 1])
    assert tw.Bench.load(tmp_path / "run").verdicts["toy_depth"] == result.verdicts["toy_depth"]
    assert result.configuration["params"]["toy_position"] == {"sign": 1}
    assert "toy_position" in bench(subject_of("bert"), texts[:1], ["all"], ["aopc"]).methods


def test_metric_and_baseline_when_one_file_each_is_added_then_the_command_lists_them(toy_files: None, run: Run) -> None:
    listed = run("bench", "--list")
    assert listed.code == 0
    assert "toy_depth ↓" in listed.out
    assert "Position in the text: a toy" in listed.out


def test_baselines_when_listed_then_are_no_methods_and_one_is_the_floor() -> None:
    names = set(list_baselines())
    assert names == {"random"}
    assert not names & set(tw.list_methods())
    assert [name for name, entry in list_baselines().items() if entry.is_floor] == ["random"]


def test_metrics_when_listed_then_names_have_the_operator_and_labels_the_direction() -> None:
    known = list_metrics()
    with_operator = {metric.base for metric in known.values() if metric.operator}
    assert with_operator == {
        "comprehensiveness", "sufficiency", "aopc", "naopc", "log_odds", "deletion_area", "insertion_area",
        "blank_out_agreement", "blank_out_size_agreement",
    }  # fmt: skip
    assert len(known) == 3 * len(with_operator) + 6
    assert known["sufficiency_mask"].label == "sufficiency_mask ↓"
    assert known["comprehensiveness_pad"].label == "comprehensiveness_pad ↑"
    lower = {metric.base for metric in known.values() if metric.direction == "lower"}
    assert lower == {"sufficiency", "log_odds", "deletion_area", "randomisation"}
    assert known["blank_out_agreement_delete"].role == "agreement"
    assert all(len(entry.summary) > 20 for entry in (*known.values(), *list_baselines().values()))


def test_reference_when_a_metric_has_one_then_is_a_registered_method() -> None:
    references = {metric.reference for metric in list_metrics().values()} - {None}
    assert references == {"leave_one_out", "gradient_norm"}
    assert references <= set(tw.list_methods())


def test_metrics_when_an_operator_is_left_out_then_get_the_default() -> None:
    found = find_metrics(["aopc", "sufficiency_mask", "cue_rank"], "pad")
    assert [metric.name for metric in found] == ["aopc_pad", "sufficiency_mask", "cue_rank"]


@pytest.mark.parametrize(
    ("names", "operator", "message"),
    [
        (["beauty"], "delete", "unknown metric 'beauty'; expected one of .*aopc"),
        (["aopk"], "delete", "did you mean 'aopc'"),
        (["cue_rank_mask"], "delete", "did you mean 'cue_rank'"),
        ([], "delete", "at least one metric"),
        (["aopc", "aopc_delete"], "delete", "different, got aopc_delete, aopc_delete"),
        (["aopc"], "burn", "delete, mask or pad, got 'burn'"),
        ("aopc", "delete", "list of names, got 'aopc'"),
    ],
)
def test_metrics_when_the_choice_is_invalid_then_the_error_has_its_value(
    as_a_user: None, names: Sequence[str], operator: registry.Operator, message: str
) -> None:
    with pytest.raises(tw.InputError, match=message):
        find_metrics(names, operator)


def test_metric_when_called_then_passes_its_operator_on() -> None:
    def toy(ranking: Ranking, operator: str) -> float:
        return float(len(operator))

    ranking, _ = first_and_last()
    assert registry.Metric("toy", "mask", "higher", "faithfulness", toy, "none", (0.0, 9.0))(ranking) == 4
