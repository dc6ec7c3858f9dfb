"""The result of a run: loaded from its folder, and as plain values."""

import json
from pathlib import Path

import pytest

import thalweg as tw
from tests.corpus.folders import hand_made, write_folder


def test_corpus_when_loaded_then_counts_what_is_written(tmp_path: Path) -> None:
    write_folder(
        tmp_path,
        [
            hand_made(0, methods=[{"method": "alti", "error": "broken"}]),
            hand_made(0, target=1),
            hand_made(1, error="unreadable"),
        ],
        texts=5,
    )
    corpus = tw.Corpus.load(str(tmp_path))
    assert (corpus.texts, corpus.counts.rows, corpus.counts.failed, corpus.counts.incomplete) == (2, 3, 1, 1)
    assert (corpus.counts.first_error, corpus.shards, corpus.complete, corpus.memory) == ("unreadable", 1, False, None)
    values = json.loads(json.dumps(corpus.to_dict(), allow_nan=False))
    assert (values["texts"], values["failed"], values["resumed"], values["complete"]) == (2, 1, 2, False)
    assert values["identity"]["texts"] == 5
    assert values["provenance"]["model"] == "some model"


def test_corpus_when_the_folder_holds_none_then_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"not the folder of a corpus run.*run\.json"):
        tw.Corpus.load(tmp_path)
