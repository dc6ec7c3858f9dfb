"""A summary in sentences, as plain values and as a file."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

from tests.corpus.summaries import CLASSES, DULL, WORDS, hand_made_summary
from thalweg.corpus.shard_store import Counts
from thalweg.corpus.summary import Band, ClassWords, PairAgreement, signed
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS


def test_sentences_when_texts_failed_and_heads_are_certified_then_give_both() -> None:
    assert hand_made_summary(counts=Counts(20, 20, failed=3)).sentences() == (
        "20 texts, 3 failed.",
        "75% of heads are identifiable, over all texts.",
        "Rank correlation between alti and attention_flow: −0.50 on average.",
    )


def test_sentences_when_classes_are_predicted_then_give_their_shares_and_the_clearest_words() -> None:
    first, *_ = hand_made_summary(classes=CLASSES, words=WORDS, counts=Counts(20, 20, failed=1)).sentences()
    assert first == "20 texts, 1 failed: 60% negative, 40% positive; ‘dull’ speaks most for negative (alti)."
    two = ClassWords("alti", "positive", (replace(DULL, word="w" * 99, low=0.9), replace(DULL, word="fun")))
    many = tuple(replace(CLASSES[0], name=f"class {n}", share=0.2) for n in range(5))
    first, *_ = hand_made_summary(classes=many, words=(*WORDS, two)).sentences()
    assert "20% class 2, 2 other classes; " in first
    assert first.endswith(f"‘{'w' * 40}…’ and ‘fun’ speak most for positive (alti).")


def test_leading_method_when_the_default_did_not_run_then_is_the_first() -> None:
    words = tuple(ClassWords(name, "negative", (DULL,)) for name in ("decompx", "attention_rollout"))
    assert hand_made_summary(words=words).leading_method == "decompx"
    assert hand_made_summary(words=(*words, *WORDS)).leading_method == "alti"
    assert hand_made_summary().leading_method is None


def test_sentences_when_there_are_several_pairs_then_name_the_lowest() -> None:
    pairs = (
        PairAgreement("a", "b", Band(0.5, 0.0, 1.0, 9), 0),
        PairAgreement("a", "c", None, 9),
        PairAgreement("b", "c", Band(0.25, 0.0, 1.0, 9), 0),
    )
    *_, last = hand_made_summary(agreement=pairs).sentences()
    assert last == "Rank correlation is lowest between b and c: 0.25 on average."


def test_sentences_when_the_run_is_unfinished_and_empty_then_only_count_texts() -> None:
    summary = hand_made_summary(counts=Counts(5, 5), heads=(), agreement=())
    assert (summary.complete, summary.sentences()) == (False, ("5 of 20 texts.",))


def test_verdicts_when_judged_by_values_then_are_two() -> None:
    assert hand_made_summary().possible_verdicts == VERDICTS
    assert hand_made_summary({"certificate": "values"}).possible_verdicts == BRIEF_VERDICTS
    assert hand_made_summary().verdicts == {VERDICTS[0]: 15, VERDICTS[1]: 5, VERDICTS[2]: 0}


def test_signed_when_rounded_to_zero_then_has_no_sign() -> None:
    assert [signed(value) for value in (-0.004, -0.256, 1.0)] == ["0.00", "−0.26", "1.00"]


def test_summary_when_exported_then_is_json_and_a_page(tmp_path: Path) -> None:
    summary = hand_made_summary()
    values = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert (values["counts"]["texts"], values["complete"], values["digest"]) == (20, True, summary.digest)
    summary.save(tmp_path / "page.html")
    page = summary.to_html()
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    (framed,) = re.findall(r'srcdoc="([^"]*)"', summary._repr_html_())
    assert html.unescape(framed) == page


def test_digest_when_the_identity_differs_then_differs() -> None:
    assert hand_made_summary().digest == hand_made_summary().digest != hand_made_summary({"top": 6}).digest
