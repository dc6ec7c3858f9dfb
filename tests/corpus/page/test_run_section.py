"""The section on the run."""

from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.page.run_section import run_section
from thalweg.corpus.shard_store import Counts


def test_run_when_complete_then_lists_options_and_errors() -> None:
    summary = hand_made_summary()
    page = run_section(summary)
    for text in (
        "weights w, config c, tokenizer t",
        "alti, attention_flow",
        "the prediction, or every position",
        "20 of 20, 20 rows",
        "9.0 on average, 10th to 90th percentile 4 to 16",
        f"{summary.digest}, schema 4, texts d",
        "line 7 is broken",
    ):
        assert text in page
    assert "not finished" not in page


def test_run_when_unfinished_then_counts_the_missing_texts() -> None:
    page = run_section(hand_made_summary(counts=Counts(5, 5), tokens=None, errors=()))
    assert "not finished: 15 texts are missing" in page
    assert "<dd>unknown</dd>" in page
    assert "<table" not in page
