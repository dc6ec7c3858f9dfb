"""Adding a method is one file: the how-to's example, and a toy that explains a logit, work everywhere at once."""

import importlib.util
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import thalweg as tw
from scripts.write_methods import methods_page, methods_table
from tests.command import Run
from tests.methods import how_to
from tests.payloads import decode, payload_of
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.methods.params import LogitParams
from thalweg.methods.registry import Maps, Traits, method

TEXTS = ["a witty, seductive movie.", "dull and far too long."]


@dataclass(frozen=True)
class Params(LogitParams):
    pass


def equal_parts(capture: Capture, target: Target, params: Params) -> Maps:
    """The logit, divided equally among all tokens but the first, which takes the opposite sign."""
    assert capture.logits is not None
    logit = capture.logits.max() if params.output is None else capture.logits[..., int(params.output)].max()
    scores = torch.full((len(target.positions), len(capture.tokens)), float(logit) / (len(capture.tokens) - 2))
    scores[:, 0] *= -1
    return Maps(scores, figures={"sum error": 0.0})


@pytest.fixture
def names(own_registry: None, tmp_path: Path) -> list[str]:
    """Both toys, registered: one by importing a single new file, one by the decorator."""
    spec = importlib.util.spec_from_file_location("strongest_head", how_to.write_module(tmp_path))
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    traits = Traits(signed=True, explains_logit=True, cost="low", serves=frozenset({"single sequence"}))
    method(params=Params, traits=traits, paper="none", cost="nothing", guarantee="sums to the logit")(equal_parts)
    return [how_to.NAME, "equal_parts"]


def test_explain_when_a_toy_is_registered_then_runs_it(names: list[str], bundled: tw.Subject) -> None:
    result = tw.explain(bundled, TEXTS[0], how_to.NAME, residual=1.0)
    assert result.row_sum_error < 1e-6
    assert result.chain == "product"
    assert result.scores[0, 0] == 1  # with all weight on the residual, [CLS] is made of itself
    signed = tw.explain(bundled, TEXTS[0], "equal_parts", output=1)
    assert signed.scores[0, 0] < 0 < signed.scores[0, 1] or signed.scores[0, 1] < 0 < signed.scores[0, 0]
    assert any("output" in sentence for sentence in signed.receipt.assumed)
    with pytest.raises(tw.InputError, match="residual must be from 0 to 1, got 2"):
        tw.explain(bundled, TEXTS[0], how_to.NAME, residual=2)


def test_compare_when_toys_are_registered_then_agreement_includes_them(names: list[str], bundled: tw.Subject) -> None:
    comparison = tw.compare(bundled, TEXTS[0], [*names, "alti"])
    assert comparison.methods == (*names, "alti")
    assert comparison.agreement().shape == (3, 3)
    assert how_to.NAME in comparison.to_html()


def test_mixing_when_a_toy_has_layer_maps_then_is_measured_and_otherwise_refused(
    names: list[str], bundled: tw.Subject
) -> None:
    own = tw.mixing(bundled, TEXTS, [how_to.NAME]).own[how_to.NAME]
    assert own.shape == (4,)
    assert ((own > 0) & (own < 1)).all()
    with pytest.raises(tw.InputError, match="equal_parts has no map for every layer"):
        tw.mixing(bundled, TEXTS, ["equal_parts"])


def test_bench_when_toys_are_registered_then_ranks_them(names: list[str], bundled: tw.Subject) -> None:
    result = tw.bench(bundled, TEXTS, [f"{how_to.NAME}:residual=0.3", *names, "random"], ["aopc"])
    means = result.means["aopc_delete"]
    assert {name: mean.count for name, mean in means.items()} == dict.fromkeys(means, len(TEXTS))
    assert set(means) == {f"{how_to.NAME}:residual=0.3", *names, "random"}


def test_corpus_when_toys_are_registered_then_writes_their_rows(
    names: list[str], bundled: tw.Subject, tmp_path: Path
) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    corpus = tw.run_corpus(bundled, file, tmp_path / "rows", names, certificate=None)
    assert (corpus.texts, corpus.counts.failed, corpus.counts.incomplete) == (2, 0, 0)
    rows = pyarrow.read_table(next((tmp_path / "rows").rglob("*.parquet"))).to_pylist()
    for row in rows:
        assert [entry["method"] for entry in row["methods"]] == names
        assert {entry["method"] for entry in row["layers"]} == {how_to.NAME}


def test_report_when_toys_are_registered_then_shows_them(names: list[str], bundled: tw.Subject) -> None:
    page = tw.report(bundled, TEXTS[0], methods=names)
    assert [packed.method for packed in page.explained] == names
    assert how_to.NAME in page.headline()
    shown, _ = decode(payload_of(page.to_html()))
    assert [entry["name"] for entry in shown["methods"]] == names
    assert set(shown["mixing"]) == {how_to.NAME}
    assert np.isfinite(page.explained[0].received(page.target)).all()


def test_command_when_a_toy_is_registered_then_explains_with_its_options(names: list[str], run: Run) -> None:
    words = shlex.split(how_to.command())[1:]
    done = run(*words, "--json", "-")
    assert done.code == 0, done.err
    written = json.loads(done.out)
    assert (written["method"], written["params"]) == (how_to.NAME, {"residual": 0.3})
    listed = run("methods")
    assert all(name in listed.out for name in names)
    assert "--residual" in run("methods", how_to.NAME).out


def test_docs_when_toys_are_registered_then_describe_them(names: list[str]) -> None:
    known = tw.list_methods().values()
    page, table = methods_page(known), methods_table(known)
    for name in names:
        assert f"## {name}\n" in page
        assert f"`{name}`" in table
