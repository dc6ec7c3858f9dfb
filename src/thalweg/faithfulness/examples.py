"""Examples for a bench, with the annotations of their file: human rationales, or a word that decides between two.

The columns of a file decide how it is read:

text                                        plain texts
text, rationale_spans                       with the words that people marked (split at spaces), as [start, end)
text, toxic_spans                           with the characters that people marked
prefix, word_good, word_bad, evidence       a text that continues with one of two words (BLiMP), and the deciding word
text, verb_index, verb, wrong_verb, …       the same for a verb and its wrong number; subject_index is the subject
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
ANNOTATIONS = (
    "rationale_spans toxic_spans prefix word_good word_bad evidence verb_index verb wrong_verb subject_index"
).split()
SHOWN_CHARACTERS = 80  # of a cell in an error


@dataclass(frozen=True)
class BenchExample:
    """A text with its annotations, if any.

    `rationale` and `cue` are spans of characters: those that people marked, and the word that decides the answer. For
    language models, `good` is the expected next word and `bad` a wrong one; `rest` is the text after that word, which
    only masked language models read.
    """

    text: str
    rationale: Spans | None = None
    cue: Spans | None = None
    good: str | None = None
    bad: str | None = None
    rest: str = ""


def examples_digest(examples: Sequence[BenchExample]) -> str:
    """Digest of the texts and their annotations, in order."""
    return text_digest([repr(example) for example in examples])


def read_examples(file: Path, text_column: str = "text", limit: int | None = None) -> list[BenchExample]:
    """Read the examples of a file, at most `limit` of them. Empty texts are skipped."""
    columns = read_columns(file)
    annotations = [name for name in ANNOTATIONS if name in columns]
    if "prefix" in annotations and text_column not in columns:
        text_column = "prefix"
    if not set(annotations) & {"rationale_spans", "toxic_spans", "prefix", "verb_index"}:
        return [BenchExample(text) for text in read_texts(file, text_column, limit)]
    names = list(dict.fromkeys([text_column, *annotations]))
    examples: list[BenchExample] = []
    for line, cells in read_rows(file, names):
        if limit is not None and len(examples) == limit:
            break
        row = dict(zip(names, cells, strict=True))
        if is_empty(row[text_column]):
            continue
        text = as_text(file, line, text_column, row[text_column])
        try:
            examples.append(_read_example(text, row))
        except _CellError as error:
            raise InputError(f"line {line} of {file} is not a valid example: {error}") from error
    if not examples:
        raise InputError(f"{file} has no examples: all texts are empty")
    return examples


class _CellError(Exception):
    """An invalid cell, reported together with its line."""


def _read_example(text: str, row: Mapping[str, Any]) -> BenchExample:
    if not is_empty(row.get("rationale_spans")):
        words = _read_spans(row, "rationale_spans", len(text.split(" ")), "words")
        return BenchExample(text, rationale=_character_spans(text, words))
    if not is_empty(row.get("toxic_spans")):
        return BenchExample(text, rationale=_read_spans(row, "toxic_spans", len(text), "characters"))
    if not is_empty(row.get("verb_index")):
        return _agreement_example(text, row)
    evidence = _read_word(row, "evidence")
    matches = [] if evidence is None else re.finditer(rf"\b{re.escape(evidence)}\b", text)
    cue = tuple(match.span() for match in matches)
    return BenchExample(text, None, cue or None, _read_word(row, "word_good"), _read_word(row, "word_bad"))


def _agreement_example(text: str, row: Mapping[str, Any]) -> BenchExample:
    """The text before a verb, its subject as the cue, and the verb in both numbers."""
    words = text.split(" ")
    verb = _read_index(row, "verb_index", len(words))
    before = " ".join(words[:verb])
    good, bad = _read_word(row, "verb"), _read_word(row, "wrong_verb")
    if good is None or bad is None or not before.strip():
        raise _CellError("expected a verb, a wrong_verb and text before the verb")
    cue = None
    if not is_empty(row.get("subject_index")) and (subject := _read_index(row, "subject_index", len(words))) < verb:
        cue = _character_spans(before, ((subject, subject + 1),))
    return BenchExample(before, None, cue, good, bad, " ".join(words[verb + 1 :]))


def _read_word(row: Mapping[str, Any], name: str) -> str | None:
    word = row.get(name)
    if word is not None and not isinstance(word, str):
        raise _CellError(f"{name} must be a word, got {word!r}")
    return word or None


def _read_index(row: Mapping[str, Any], name: str, count: int) -> int:
    cell = row[name]
    try:
        place = int(cell) if isinstance(cell, str) else index(cell)
    except (TypeError, ValueError):
        place = -1
    if not 0 <= place < count:
        raise _CellError(f"{name} must be the index of a word, from 0 to {count - 1}, got {cell!r}")
    return place


def _read_spans(row: Mapping[str, Any], name: str, count: int, unit: str) -> Spans:
    """Pairs [start, end), also as JSON in a cell of CSV or TSV. Empty spans are dropped."""
    cell: Any = row[name]
    try:
        pairs = json.loads(cell) if isinstance(cell, str) else cell
        spans = tuple((index(start), index(end)) for start, end in pairs)
        wrong: Any = next((list(span) for span in spans if not 0 <= span[0] <= span[1] <= count), None)
    except (TypeError, ValueError, RecursionError):
        spans, wrong = (), cell
    if wrong is not None:
        raise _CellError(
            f"{name} must be pairs [start, end) within {count} {unit}, got {str(wrong)[:SHOWN_CHARACTERS]}"
        )
    return tuple(span for span in spans if span[0] < span[1])


def _character_spans(text: str, word_spans: Spans) -> Spans:
    """Convert spans of words, split at single spaces, to spans of characters."""
    starts = [0]
    for word in text.split(" "):
        starts.append(starts[-1] + len(word) + 1)
    return tuple((starts[start], starts[end] - 1) for start, end in word_spans)
