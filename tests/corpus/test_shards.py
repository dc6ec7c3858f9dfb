"""Texts become shards in one way only, and few of them are held at once."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.corpus import shards as planning
from thalweg.corpus.job import TOKENS_AT_ONCE
from thalweg.corpus.shards import Reader, Text, shards
from thalweg.corpus.work import batches


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 7))
def test_shards_when_joined_then_are_the_texts_in_their_order(lengths: list[int], size: int) -> None:
    texts = [Text(number, number + 1, "x" * length) for number, length in enumerate(lengths)]
    found = list(shards(texts, size))
    assert [text for one in found for text in one.texts] == texts
    assert [one.number for one in found] == list(range(len(found)))
    assert all(1 <= len(one.texts) <= size for one in found)
    assert all(len(one.texts) == size for one in found[:-1])


def test_shards_when_texts_are_long_then_hold_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "CHARACTERS", 10)
    texts = [Text(n, n, "x" * length) for n, length in enumerate([4, 4, 4, 30, 1, 9, 1])]
    assert [[len(text.text) for text in one.texts] for one in shards(texts, 5)] == [[4, 4], [4], [30], [1, 9], [1]]


def test_shard_when_a_text_or_its_line_changes_then_has_another_digest() -> None:
    def digest(*texts: Text) -> str:
        (one,) = shards(texts, 9)
        return one.digest

    one, two = Text(0, 1, "a"), Text(1, 2, "b")
    others = [(one,), (one, Text(1, 3, "b")), (one, Text(1, 2, "c")), (one, Text(1, 2, error="b")), (Text(0, 1, "ab"),)]
    assert len({digest(*texts) for texts in [(one, two), *others]}) == 6
    assert digest(one, Text(1, 2, error="in a")) == digest(one, Text(1, 2, error="in b"))  # errors name the file


@given(st.lists(st.integers(1, 700), max_size=40), st.integers(1, 9))
def test_batches_when_made_then_hold_each_text_once_and_not_too_much(lengths: list[int], most: int) -> None:
    waiting = [(length, Text(n, n, "x")) for n, length in enumerate(lengths)]
    found = list(batches(waiting, most, TOKENS_AT_ONCE))
    assert sorted(text.number for batch in found for text in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[text.number] for text in batch)
        assert len(batch) <= most
        assert len(batch) == 1 or len(batch) * longest <= TOKENS_AT_ONCE
    flat = [lengths[text.number] for batch in found for text in batch]
    assert flat == sorted(flat)


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
def test_reader_when_a_file_is_long_then_holds_no_more_than_of_a_short_one(kind: str, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        file = tmp_path / f"{count}.{kind}"
        line = '{"text": "a text of some words"}' if kind == "jsonl" else "a text of some words"
        file.write_text("text\n" * (kind == "csv") + f"{line}\n" * count)
        reader = Reader(file)
        tracemalloc.start()
        try:
            held = max(len(shard.texts) for shard in shards(reader, 100))
            found = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (held, reader.survey().texts) == (100, count)
        return found

    peak(200)
    assert peak(10_000) < 1.5 * peak(500)


def test_survey_when_read_again_then_is_the_same_and_sees_a_change(tmp_path: Path) -> None:
    def survey(content: str, limit: int | None = None) -> object:
        file = tmp_path / "texts.txt"
        file.write_text(content)
        reader = Reader(file, limit=limit)
        for _ in reader:
            pass
        return reader.survey()

    assert survey("a\nb\n") == survey("a\nb") == survey("a\nb\nc\n", 2)
    assert len({repr(survey(content)) for content in ("a\nb", "a\n\nb", "a\nc", "a", "ab")}) == 5
