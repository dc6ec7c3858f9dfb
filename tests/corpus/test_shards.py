"""Texts of a file as shards: always the same split, with few texts in memory at once."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.corpus import shards as shards_module
from thalweg.corpus.shards import CorpusText, TextReader, split_shards


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 7))
def test_shards_when_joined_then_are_the_texts_in_their_order(lengths: list[int], size: int) -> None:
    texts = [CorpusText(number, number + 1, "x" * length) for number, length in enumerate(lengths)]
    shards = list(split_shards(texts, size))
    assert [text for shard in shards for text in shard.texts] == texts
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(1 <= len(shard.texts) <= size for shard in shards)
    assert all(len(shard.texts) == size for shard in shards[:-1])


def test_shards_when_texts_are_long_then_hold_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "MAX_SHARD_CHARACTERS", 10)
    texts = [CorpusText(n, n, "x" * length) for n, length in enumerate([4, 4, 4, 30, 1, 9, 1])]
    lengths = [[len(text.text) for text in shard.texts] for shard in split_shards(texts, 5)]
    assert lengths == [[4, 4], [4], [30], [1, 9], [1]]


def test_shard_when_a_text_or_its_line_changes_then_has_another_digest() -> None:
    def digest(*texts: CorpusText) -> str:
        (shard,) = split_shards(texts, 9)
        return shard.digest

    first, second = CorpusText(0, 1, "a"), CorpusText(1, 2, "b")
    others = [
        (first,),
        (first, CorpusText(1, 3, "b")),
        (first, CorpusText(1, 2, "c")),
        (first, CorpusText(1, 2, error="b")),
        (first, CorpusText(1, 2, "b", id="x")),
        (CorpusText(0, 1, "ab"),),
    ]
    assert len({digest(*texts) for texts in [(first, second), *others]}) == 7
    assert digest(first, CorpusText(1, 2, error="in a")) == digest(
        first, CorpusText(1, 2, error="in b")
    )  # errors name the file


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
def test_reader_when_a_file_is_long_then_holds_no_more_than_of_a_short_one(kind: str, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        file = tmp_path / f"{count}.{kind}"
        line = '{"text": "a text of some words"}' if kind == "jsonl" else "a text of some words"
        file.write_text("text\n" * (kind == "csv") + f"{line}\n" * count)
        reader = TextReader(file)
        tracemalloc.start()
        try:
            held = max(len(shard.texts) for shard in split_shards(reader, 100))
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (held, reader.survey().texts) == (100, count)
        return peak_bytes

    peak(200)
    assert peak(10_000) < 1.5 * peak(500)


def test_survey_when_read_again_then_is_the_same_and_sees_a_change(tmp_path: Path) -> None:
    def survey(content: str, limit: int | None = None) -> object:
        file = tmp_path / "texts.txt"
        file.write_text(content)
        reader = TextReader(file, limit=limit)
        for _ in reader:
            pass
        again = reader.restarted()
        assert sum(1 for _ in again) == reader.survey().texts
        assert again.survey() == reader.survey()
        return reader.survey()

    assert survey("a\nb\n") == survey("a\nb") == survey("a\nb\nc\n", 2)
    assert len({repr(survey(content)) for content in ("a\nb", "a\n\nb", "a\nc", "a", "ab")}) == 5
