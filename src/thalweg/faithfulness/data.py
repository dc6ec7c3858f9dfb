"""Examples with what their file knows of them: human rationales, or the word that decides between two others.

Which columns a file has says which form it is:

text                                        any text
text, rationale_spans                       and which of its words (split at spaces) people marked, as [start, end)
text, toxic_spans                           or which characters
prefix, word_good, word_bad, evidence       a text that goes on with one word or the other (BLiMP), and what decides
text, verb_index, verb, wrong_verb, …       the same for a verb and its wrong number; subject_index names the subject
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.digests import digest
from thalweg.errors import InputError
from thalweg.tables import read_columns, read_rows, read_texts

Spans = tuple[tuple[int, int], ...]  # characters of the text, [start, end)
KNOWN = (
    "rationale_spans toxic_spans prefix word_good word_bad evidence verb_index verb wrong_verb subject_index"
).split()


@dataclass(frozen=True)
class Example:
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


def digest_of(examples: Sequence[Example]) -> str:
    return digest([repr(one) for one in examples])


def read_examples(file: Path, text_column: str = "text", limit: int | None = None) -> list[Example]:
    """The examples of a file, empty ones left out."""
    columns = read_columns(file)
    extra = [name for name in KNOWN if name in columns]
    if "prefix" in extra and text_column not in columns:
        text_column = "prefix"
    if not set(extra) & {"rationale_spans", "toxic_spans", "prefix", "verb_index"}:
        return [Example(text) for text in read_texts(file, text_column, limit)]
    names = list(dict.fromkeys([text_column, *extra]))
    found: list[Example] = []
    for line, cells in read_rows(file, names):
        if limit is not None and len(found) == limit:
            break
        row = dict(zip(names, cells, strict=True))
        if isinstance(row[text_column], str) and row[text_column].strip():
            try:
                found.append(_example(row[text_column], row))
            except (TypeError, ValueError, IndexError, KeyError) as error:
                raise InputError(f"line {line} of {str(file)!r} cannot be read as an example: {error!r}") from error
    if not found:
        raise InputError(f"{str(file)!r} has no examples: all texts are empty")
    return found


def _example(text: str, row: Mapping[str, Any]) -> Example:
    if row.get("rationale_spans") is not None:
        return Example(text, rationale=_characters(text, row["rationale_spans"]))
    if row.get("toxic_spans") is not None:
        return Example(text, rationale=tuple((int(start), int(end)) for start, end in row["toxic_spans"]))
    if row.get("verb_index") is not None:
        words, place = text.split(" "), int(row["verb_index"])
        before = " ".join(words[:place])
        subject = row.get("subject_index")
        cue = None if subject is None or int(subject) >= place else _characters(before, [(subject, subject + 1)])
        if not before.strip():
            raise ValueError("nothing stands before the verb")
        return Example(before, None, cue, row["verb"], row["wrong_verb"], " ".join(words[place + 1 :]))
    evidence = row.get("evidence")
    cue = None if not evidence else tuple(m.span() for m in re.finditer(rf"\b{re.escape(evidence)}\b", text))
    return Example(text, None, cue or None, row.get("word_good"), row.get("word_bad"))


def _characters(text: str, spans: Any) -> Spans:
    """Spans of words, split at single spaces, as spans of characters."""
    starts = [0]
    for word in text.split(" "):
        starts.append(starts[-1] + len(word) + 1)
    return tuple((starts[int(start)], starts[int(end)] - 1) for start, end in spans)
