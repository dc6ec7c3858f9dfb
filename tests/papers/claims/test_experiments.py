"""The experiments themselves: what they are made of is checked, and a quick run of each gets to its end."""

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
from thalweg.models.load import Subject

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
    """Without the type checks of a test run, which would make it long."""
    with unchecked():
        return reproduce(data=shared_data, runs=tmp_path_factory.mktemp("runs"), quick=True)


def test_reproduce_when_quick_then_every_claim_that_needs_no_package_is_measured(quick: Ledger) -> None:
    measured = {one.claim.name for one in quick.entries if one.found is not None}
    assert measured == set(WITHOUT_PACKAGES)
    for one in quick.entries:
        if one.found is None:
            assert one.why and (any(name in one.why for name in PACKAGED) or one.claim.name == "pronouns")
            continue
        assert one.found.on and one.found.effects
        for figure in (*one.found.effects, *one.found.figures):
            assert np.isfinite(figure.value.mean) and figure.value.low <= figure.value.mean <= figure.value.high
            assert figure.value.count > 0


def test_reproduce_when_quick_then_what_holds_by_construction_is_seen(quick: Ledger) -> None:
    """Intervals of two or three inputs are wide; where the means lie is sure."""
    entries = {one.claim.name: one for one in quick.entries}
    assert entries["first-layer"].verdict == "holds"
    for name in ("small-keys", "added-heads", "own-token"):
        found = entries[name].found
        assert found is not None and entries[name].verdict != "does not hold"
        for one in found.effects:
            assert (one.value.mean > one.bound) == (one.side == "above"), one.said()


def test_transformed_when_all_keys_are_added_up_then_the_block_output_comes_out(shipped: Subject) -> None:
    block = shipped.capture("a gorgeous, witty movie.").blocks[1]
    parts = decompose(block)
    for query in (0, 3):
        total = sum(_transformed(block, query, key) for key in range(len(block.input)))
        torch.testing.assert_close(total + parts.rest[query], block.output[query], atol=1e-5, rtol=1e-5)


def test_examples_when_verb_number_is_learnt_then_no_test_text_is_among_the_others(shared_data: Path) -> None:
    lab = Lab(shared_data, None, Path("unused"))
    texts = agreement.texts_of(lab)
    assert len(texts.hard.texts) == agreement.HARD and len(texts.chosen.texts) == agreement.CHOSEN_BY
    assert len(texts.learnt.texts) > 80_000
    assert set(texts.learnt.labels) == set(texts.hard.labels) == {"singular", "plural"}
    blanks = sum(text.split(" ").count("[MASK]") for text in texts.learnt.texts)
    words = sum(len(text.split(" ")) for text in texts.learnt.texts)
    assert blanks / words == pytest.approx(agreement.BLANKED, rel=0.05)
    natural = agreement.natural(lab)
    assert len(natural.texts) > 2000
    for tested in (texts.hard, natural):
        assert not set(tested.texts) & texts.seen
        assert not set(tested.texts) & {*texts.learnt.texts, *texts.chosen.texts}
        assert not any("[MASK]" in text for text in tested.texts)


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
    def one(identifiable: float, right: list[int]) -> Measured:
        return Measured(right, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, identifiable, 1.0)

    models = {(LONG, "add", size, seed): one(size / 10 + seed, [seed, 1]) for size in (1, 3) for seed in (0, 1)}
    found = Trained(models, (LONG,), (1, 3), (0, 1))  # pyright: ignore[reportArgumentType]
    assert found.figures("add", [1, 3], lambda m: m.identifiable) == pytest.approx([0.2, 1.2])
    assert found.right(LONG, "add", [1, 3]).tolist() == [[0, 1], [1, 1]]


def test_with_packages_when_all_claims_are_counted_then_none_is_forgotten() -> None:
    """The others are run in tests/real."""
    from tests.real.test_claims import WITH_PACKAGES

    assert sorted([*WITHOUT_PACKAGES, *WITH_PACKAGES, "pronouns"]) == sorted(list_claims())
