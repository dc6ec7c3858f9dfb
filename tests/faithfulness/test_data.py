"""Files of examples in the forms that public data have."""

import json
import re
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.faithfulness.data import BenchExample, digest_of, read_examples


def written(file: Path, *rows: dict) -> Path:
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def test_texts_when_there_is_nothing_else_then_are_plain_examples(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "a.tsv").write_text("text\tlabel\none\tx\ntwo\ty\n")
    assert read_examples(tmp_path / "a.txt") == [BenchExample("one"), BenchExample("two")]
    assert read_examples(tmp_path / "a.tsv", limit=1) == [BenchExample("one")]


def test_table_when_its_header_is_quoted_then_columns_are_known(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"prefix","word_good","word_bad","evidence"\n"the key, here,",is,are,key\n')
    assert read_examples(tmp_path / "a.csv") == [BenchExample("the key, here,", None, ((4, 7),), "is", "are")]


def test_rationales_when_given_in_words_or_characters_then_are_characters(tmp_path: Path) -> None:
    words = written(tmp_path / "w.jsonl", {"text": "so very dull", "rationale_spans": [[1, 3]]})
    letters = written(tmp_path / "c.jsonl", {"text": "so very dull", "toxic_spans": [[3, 12]]})
    assert read_examples(words)[0].rationale == ((3, 12),)
    assert read_examples(letters)[0].rationale == ((3, 12),)


def test_pairs_when_evidence_is_named_then_every_place_of_it_is_the_cue(tmp_path: Path) -> None:
    row = {"prefix": "Ann saw Anna and Ann", "word_good": "run", "word_bad": "runs", "evidence": "Ann"}
    (found,) = read_examples(written(tmp_path / "p.jsonl", row))
    assert found == BenchExample(row["prefix"], None, ((0, 3), (17, 20)), "run", "runs")


def test_agreement_when_the_subject_is_known_then_is_the_cue_of_the_text_before_the_verb(tmp_path: Path) -> None:
    row = {"text": "the keys here are old", "verb_index": 3, "verb": "are", "wrong_verb": "is", "subject_index": 1}
    (found,) = read_examples(written(tmp_path / "v.jsonl", row))
    assert found == BenchExample("the keys here", None, ((4, 8),), "are", "is", "old")


VERB = {"text": "the keys here are old", "verb_index": 3, "verb": "are", "wrong_verb": "is", "subject_index": 1}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"text": "so dull", "rationale_spans": [[1, 9]]},
            "has [1, 9]; expected pairs [start, end) of words, of which there are 2",
        ),
        ({"text": "so dull", "rationale_spans": [[0, 1], [2, 1]]}, "rationale_spans has [2, 1]; expected pairs"),
        ({"text": "so dull", "rationale_spans": [[-1, 1]]}, "pairs [start, end)"),
        ({"text": "so dull", "rationale_spans": "abc"}, "rationale_spans has abc"),
        ({"text": "so dull", "rationale_spans": 7}, "rationale_spans has 7"),
        ({"text": "so dull", "toxic_spans": [[0, 8]]}, "of characters, of which there are 7"),
        ({"text": 5, "rationale_spans": [[0, 1]]}, "'text' must be a text, got 5"),
        ({"text": "so \ud800 dull", "rationale_spans": [[0, 1]]}, "no valid Unicode"),
        ({**VERB, "verb_index": "x"}, "verb_index is 'x'; expected the place of a word, from 0 to 4"),
        ({**VERB, "verb_index": 1.5}, "verb_index is 1.5"),
        ({**VERB, "verb_index": 0}, "something before the verb"),
        ({**VERB, "verb": 5}, "verb is 5; expected a word"),
        ({**VERB, "wrong_verb": None}, "expected a verb, a wrong_verb"),
        ({**VERB, "subject_index": -1}, "subject_index is -1"),
        ({"prefix": "the key", "word_good": ["is"], "word_bad": "are"}, "word_good is ['is']"),
    ],
)
def test_examples_when_a_row_is_odd_then_the_line_and_the_cell_are_named(tmp_path: Path, row: dict, said: str) -> None:
    file = written(tmp_path / "w.jsonl", row)
    with pytest.raises(tw.InputError, match=re.escape(said)) as error:
        read_examples(file)
    assert "line 1 of" in str(error.value)


def test_rationales_when_they_stand_in_a_table_then_are_read_from_its_cells(tmp_path: Path) -> None:
    (tmp_path / "r.tsv").write_text("text\trationale_spans\nso very dull\t[[1, 3], [2, 2]]\nso so\t\n")
    assert read_examples(tmp_path / "r.tsv") == [
        BenchExample("so very dull", rationale=((3, 12),)),
        BenchExample("so so"),
    ]


def test_digest_when_a_cue_changes_then_is_another() -> None:
    assert digest_of([BenchExample("a")]) != digest_of([BenchExample("a", cue=((0, 1),))])


@pytest.mark.parametrize(
    ("name", "field"),
    [("eraser_movies/dev.jsonl", "rationale"), ("toxic_spans/dev.jsonl", "rationale"), ("ioi/all.jsonl", "cue"),
     ("blimp_evidence/all.jsonl", "cue"), ("agreement_ewt/dev.jsonl", "cue")],
)  # fmt: skip
def test_public_data_when_read_then_has_what_people_know(shared_data: Path, name: str, field: str) -> None:
    found = read_examples(shared_data / name, limit=20)
    assert len(found) == 20
    assert sum(getattr(one, field) is not None for one in found) >= 15
    for one in found:
        assert all(0 <= start < end <= len(one.text) for start, end in getattr(one, field) or ())
