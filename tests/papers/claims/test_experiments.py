"""The experiments: their building blocks, and a quick run of each."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from papers.claims import agreement
from papers.claims.contributions import _transformed
from papers.claims.encoders import LONG, Measured, Trained
from papers.claims.lab import PACKAGED, Lab
from papers.claims.ledger import Ledger
from papers.claims.reproduce import list_claims, reproduce
from tests.conftest import unchecked
from thalweg.decompose.parts import decompose
from thalweg.models.subject import Subject

WITHOUT_PACKAGES = [
    *("own-token", "not-own", "neighbours"),
    *("small-keys", "added-heads", "equal-accuracy", "small-keys-accuracy"),
    *("comprehensiveness", "sufficiency", "attention-methods", "l1-over-l2", "deletion", "gradient-correlation"),
    *("blank-out-correlation", "special-tokens", "robust", "anisotropy"),
    *("agreement-encoder", "raw-falls", "rollout-rises", "flow-rises", "top-blank-out", "top-gradients"),
    *("flow-gradients", "first-layer", "weak-on-sentiment", "flow-spreads", "raw-uniform"),
]


@pytest.fixture(scope="module")
def quick(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A quick run of all claims, without the type checks of a test run, which would slow it down."""
    with unchecked():
        return reproduce(data=shared_data, runs=tmp_path_factory.mktemp("runs"), quick=True)


def test_reproduce_when_quick_then_every_claim_that_needs_no_package_is_measured(quick: Ledger) -> None:
    measured = {entry.claim.name for entry in quick.entries if entry.finding is not None}
    assert measured == set(WITHOUT_PACKAGES)
    for entry in quick.entries:
        if entry.finding is None:
            assert entry.reason and (any(name in entry.reason for name in PACKAGED) or entry.claim.name == "pronouns")
            continue
        assert entry.finding.on and entry.finding.effects
        for figure in (*entry.finding.effects, *entry.finding.figures):
            assert np.isfinite(figure.value.mean) and figure.value.low <= figure.value.mean <= figure.value.high
            assert figure.value.count > 0


def test_reproduce_when_quick_then_what_holds_by_construction_is_seen(quick: Ledger) -> None:
    """Intervals over two or three inputs are wide, but the means must lie on the right side."""
    entries = {entry.claim.name: entry for entry in quick.entries}
    assert entries["first-layer"].verdict == "holds"
    for name in ("small-keys", "added-heads", "own-token"):
        finding = entries[name].finding
        assert finding is not None and entries[name].verdict != "does not hold"
        for effect in finding.effects:
            assert (effect.value.mean > effect.bound) == (effect.side == "above"), effect.describe()


def test_transformed_when_all_keys_are_added_up_then_the_block_output_comes_out(bundled: Subject) -> None:
    block = bundled.capture("a gorgeous, witty movie.").blocks[1]
    parts = decompose(block)
    for query in (0, 3):
        total = sum(_transformed(block, query, key) for key in range(len(block.input)))
        torch.testing.assert_close(total + parts.rest[query], block.output[query], atol=1e-5, rtol=1e-5)


def test_examples_when_verb_number_is_learnt_then_no_test_text_is_among_the_others(shared_data: Path) -> None:
    lab = Lab(shared_data, None, Path("unused"))
    texts = agreement.texts_of(lab)
    assert len(texts.hard.texts) == agreement.HARD_TEXTS and len(texts.validation.texts) == agreement.VALIDATION_TEXTS
    assert len(texts.training.texts) > 80_000
    assert set(texts.training.labels) == set(texts.hard.labels) == {"singular", "plural"}
    blanks = sum(text.split(" ").count("[MASK]") for text in texts.training.texts)
    words = sum(len(text.split(" ")) for text in texts.training.texts)
    assert blanks / words == pytest.approx(agreement.BLANKED, rel=0.05)
    natural = agreement.natural(lab)
    assert len(natural.texts) > 2000
    for test in (texts.hard, natural):
        assert not set(test.texts) & texts.seen
        assert not set(test.texts) & {*texts.training.texts, *texts.validation.texts}
        assert not any("[MASK]" in text for text in test.texts)


def test_labelled_when_a_verb_is_given_then_the_text_ends_before_it(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    rows = [
        {"text": "The keys to the cabinet are here", "verb_index": 5, "verb_number": "plural"},
        {"text": "He is", "verb_index": 1, "verb_number": "singular"},  # one word before the verb is not enough
    ]
    (tmp_path / "set" / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert agreement._labelled(Lab(tmp_path, None, tmp_path), "set", "all.jsonl") == [
        ("the keys to the cabinet", "plural")
    ]


def test_trained_when_runs_differ_then_figures_are_by_seed() -> None:
    def model(identifiable: float, right: list[int]) -> Measured:
        return Measured(right, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, identifiable, 1.0)

    models = {(LONG, "add", size, seed): model(size / 10 + seed, [seed, 1]) for size in (1, 3) for seed in (0, 1)}
    trained = Trained(models, (LONG,), (1, 3), (0, 1))  # pyright: ignore[reportArgumentType]
    assert trained.figures("add", [1, 3], lambda m: m.identifiable) == pytest.approx([0.2, 1.2])
    assert trained.right(LONG, "add", [1, 3]).tolist() == [[0, 1], [1, 1]]


def test_with_packages_when_all_claims_are_counted_then_none_is_forgotten() -> None:
    """Claims that need packaged models are tested in tests/real."""
    from tests.real.test_claims import WITH_PACKAGES

    assert sorted([*WITHOUT_PACKAGES, *WITH_PACKAGES, "pronouns"]) == sorted(list_claims())
