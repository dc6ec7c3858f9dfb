"""Examples with what their file knows of them: human rationales, or the word that decides between two others.

Which columns a file has says which form it is:

text                                        any text
text, rationale_spans                       and which of its words (split at spaces) people marked, as [start, end)
text, toxic_spans                           or which characters
prefix, word_good, word_bad, evidence       a text that goes on with one word or the other (BLiMP), and what decides
text, verb_index, verb, wrong_verb, …       the same for a verb and its wrong number; subject_index names the subject
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.files.tables import as_text, is_empty, read_columns, read_rows, read_texts

Spans = tuple[tuple[int, int], ...]  # characters of the text, [start, end)
KNOWN = (
    "rationale_spans toxic_spans prefix word_good word_bad evidence verb_index verb wrong_verb subject_index"
).split()


@dataclass(frozen=True)
class BenchExample:
    """A text, and where people know them: characters that matter, the word that decides, and what it decides.

    Of a language model `good` is what follows the text and `bad` what must not; `rest` stands behind that word and is
    read by models that see both sides.
    """

    text: str
    rationale: Spans | None = None
    cue: Spans | None = None
    good: str | None = None
    bad: str | None = None
    rest: str = ""


def digest_of(examples: Sequence[BenchExample]) -> str:
    return text_digest([repr(one) for one in examples])


def read_examples(file: Path, text_column: str = "text", limit: int | None = None) -> list[BenchExample]:
    """The examples of a file, empty ones left out."""
    columns = read_columns(file)
    extra = [name for name in KNOWN if name in columns]
    if "prefix" in extra and text_column not in columns:
        text_column = "prefix"
    if not set(extra) & {"rationale_spans", "toxic_spans", "prefix", "verb_index"}:
        return [BenchExample(text) for text in read_texts(file, text_column, limit)]
    names = list(dict.fromkeys([text_column, *extra]))
    found: list[BenchExample] = []
    for line, cells in read_rows(file, names):
        if limit is not None and len(found) == limit:
            break
        row = dict(zip(names, cells, strict=True))
        if is_empty(row[text_column]):
            continue
        text = as_text(file, line, text_column, row[text_column])
        try:
            found.append(_example(text, row))
        except _OddError as error:
            raise InputError(f"line {line} of {str(file)!r} cannot be read as an example: {error}") from error
    if not found:
        raise InputError(f"{str(file)!r} has no examples: all texts are empty")
    return found


class _OddError(Exception):
    """What is wrong with a row, for whoever knows its line."""


def _example(text: str, row: Mapping[str, Any]) -> BenchExample:
    if not is_empty(row.get("rationale_spans")):
        return BenchExample(
            text, rationale=_characters(text, _spans(row, "rationale_spans", len(text.split(" ")), "words"))
        )
    if not is_empty(row.get("toxic_spans")):
        return BenchExample(text, rationale=_spans(row, "toxic_spans", len(text), "characters"))
    if not is_empty(row.get("verb_index")):
        return _agreement(text, row)
    evidence = _word(row, "evidence")
    cue = None if evidence is None else tuple(m.span() for m in re.finditer(rf"\b{re.escape(evidence)}\b", text))
    return BenchExample(text, None, cue or None, _word(row, "word_good"), _word(row, "word_bad"))


def _agreement(text: str, row: Mapping[str, Any]) -> BenchExample:
    """The text before a verb, its subject, and the verb in both numbers."""
    words = text.split(" ")
    place = _index(row, "verb_index", len(words))
    before = " ".join(words[:place])
    good, bad = _word(row, "verb"), _word(row, "wrong_verb")
    if good is None or bad is None or not before.strip():
        raise _OddError("expected a verb, a wrong_verb, and something before the verb")
    cue = None
    if not is_empty(row.get("subject_index")) and (subject := _index(row, "subject_index", len(words))) < place:
        cue = _characters(before, ((subject, subject + 1),))
    return BenchExample(before, None, cue, good, bad, " ".join(words[place + 1 :]))


def _word(row: Mapping[str, Any], name: str) -> str | None:
    found = row.get(name)
    if found is not None and not isinstance(found, str):
        raise _OddError(f"{name} is {found!r}; expected a word")
    return found or None


def _index(row: Mapping[str, Any], name: str, count: int) -> int:
    given = row[name]
    try:
        found = int(given) if isinstance(given, str) else index(given)
    except (TypeError, ValueError):
        found = -1
    if not 0 <= found < count:
        raise _OddError(f"{name} is {given!r}; expected the place of a word, from 0 to {count - 1}")
    return found


def _spans(row: Mapping[str, Any], name: str, count: int, of: str) -> Spans:
    """Pairs [start, end), also as they stand in a cell of CSV or TSV; those that hold nothing are left out."""
    given: Any = row[name]
    try:
        pairs = json.loads(given) if isinstance(given, str) else given
        found = tuple((index(start), index(end)) for start, end in pairs)
        given = next((list(pair) for pair in found if not 0 <= pair[0] <= pair[1] <= count), None)
    except (TypeError, ValueError, RecursionError):
        found = ()
    if given is not None:
        raise _OddError(
            f"{name} has {str(given)[:80]}; expected pairs [start, end) of {of}, of which there are {count}"
        )
    return tuple(pair for pair in found if pair[0] < pair[1])


def _characters(text: str, spans: Spans) -> Spans:
    """Spans of words, split at single spaces, as spans of characters."""
    starts = [0]
    for word in text.split(" "):
        starts.append(starts[-1] + len(word) + 1)
    return tuple((starts[start], starts[end] - 1) for start, end in spans)
