"""The section on agreement between methods."""

from dataclasses import replace

from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.page.agreement_section import agreement_section
from thalweg.corpus.shard_store import Counts


def test_agreement_when_negative_then_is_shaded_and_symmetric() -> None:
    page = agreement_section(hand_made_summary())
    assert page.count('<td class="less-2">−0.50<small>−0.75 to 0.25</small></td>') == 2
    assert page.count("<td>1</td>") == 2
    assert "Excluded" not in page
    assert '<th scope="col">target</th>' not in page


def test_agreement_when_undefined_for_some_targets_then_counts_them() -> None:
    (pair,) = hand_made_summary().agreement
    page = agreement_section(hand_made_summary(agreement=(replace(pair, undefined=4),)))
    assert "gives all sources the same score: alti and attention_flow 4." in page
    page = agreement_section(hand_made_summary(agreement=(replace(pair, correlation=None),)))
    assert page.count("<td>–</td>") == 2


def test_agreement_when_texts_have_several_targets_then_names_the_target() -> None:
    assert '<th scope="col">target</th>' in agreement_section(hand_made_summary(counts=Counts(20, 60)))


def test_agreement_when_there_is_nothing_to_compare_then_says_why() -> None:
    assert "fewer than two methods" in agreement_section(hand_made_summary({"methods": ["alti"]}))
    assert "No text has scores of two methods." in agreement_section(hand_made_summary(agreement=()))
    assert "No text has 10 tokens" in agreement_section(hand_made_summary(lowest_agreement=()))
