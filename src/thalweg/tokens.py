"""Tokens as a person reads them: pieces, their places in the text, and words."""

from dataclasses import dataclass, replace
from unicodedata import category

MAX_WARNED = 8  # unknown tokens that a warning lists


@dataclass(frozen=True)
class Tokens:
    """The tokens of a forward pass, with one entry per position in every column but `texts`.

    `pieces` are what the model reads, after the tokenizer's normalisation and without its space marks; `unknown` marks
    those that stand for text outside the vocabulary. `spans` are character ranges [start, end) in `texts[segment]`, or
    None if a token has no text of its own (special tokens) or its place is unknown. `words` are the word numbers of the
    tokenizer.
    """

    pieces: tuple[str, ...]
    ids: tuple[int | None, ...]
    special: tuple[bool, ...]
    spans: tuple[tuple[int, int] | None, ...]
    words: tuple[int | None, ...]
    segments: tuple[int, ...]
    texts: tuple[str | None, ...]
    unknown: tuple[bool, ...] = ()  # none of them by default

    def __post_init__(self) -> None:
        object.__setattr__(self, "unknown", self.unknown or (False,) * len(self.pieces))

    def __len__(self) -> int:
        return len(self.pieces)

    def __add__(self, other: "Tokens") -> "Tokens":
        """Source tokens followed by target tokens."""
        shift = len(self.texts)
        return Tokens(
            self.pieces + other.pieces,
            self.ids + other.ids,
            self.special + other.special,
            self.spans + other.spans,
            self.words + other.words,
            self.segments + tuple(segment + shift for segment in other.segments),
            self.texts + other.texts,
            self.unknown + other.unknown,
        )

    def select(self, positions: tuple[int, ...]) -> "Tokens":
        """The tokens at these positions, in this order."""

        def pick(column: tuple) -> tuple:
            return tuple(column[p] for p in positions)

        return replace(
            self,
            pieces=pick(self.pieces),
            ids=pick(self.ids),
            special=pick(self.special),
            spans=pick(self.spans),
            words=pick(self.words),
            segments=pick(self.segments),
            unknown=pick(self.unknown),
        )

    def surface(self, position: int) -> str | None:
        """The text that a token stands for, if it differs from what the model reads: `CC` for `[UNK]`, `O` for `o`."""
        span, text = self.spans[position], self.texts[self.segments[position]]
        surface = text[slice(*span)].strip() if span and text else ""
        return surface if surface and surface != self.pieces[position] else None

    def labels(self) -> tuple[str, ...]:
        """The pieces, with the original text beside those that are unknown."""
        return tuple(
            f"{piece} ‹{surface}›" if unknown and (surface := self.surface(position)) else piece
            for position, (piece, unknown) in enumerate(zip(self.pieces, self.unknown, strict=True))
        )

    def warnings(self) -> tuple[str, ...]:
        """What a reader must know about the tokens: how many of them the model could not read."""
        count = sum(self.unknown)
        if not count:
            return ()
        labels = list(
            dict.fromkeys(label for label, unknown in zip(self.labels(), self.unknown, strict=True) if unknown)
        )
        more = f" and {len(labels) - MAX_WARNED} others" if len(labels) > MAX_WARNED else ""
        return (
            f"{count} of {len(self)} tokens {'is' if count == 1 else 'are'} unknown to the model, which cannot tell "
            f"what {'it stands' if count == 1 else 'they stand'} for: {', '.join(labels[:MAX_WARNED])}{more}",
        )

    def kinds(self) -> tuple[str, ...]:
        """The kind of every token: the name of a special token, "first token", "punctuation" or "content"."""
        firsts = {self.segments.index(segment) for segment in set(self.segments)}
        return tuple(
            piece
            if special
            else "first token"
            if position in firsts
            else "punctuation"
            if _is_punctuation(piece)
            else "content"
            for position, (piece, special) in enumerate(zip(self.pieces, self.special, strict=True))
        )

    def word_groups(self) -> list[tuple[str, list[int]]]:
        """Words with the positions of their tokens.

        A token joins the word before it if it continues the same text without white space and the tokenizer does not
        begin a new word. A token without a place in the text is a word of its own.
        """
        groups: list[list[int]] = []
        for position in range(len(self)):
            if groups and self._continues(position):
                groups[-1].append(position)
            else:
                groups.append([position])
        return [(self._word(positions), positions) for positions in groups]

    def _continues(self, position: int) -> bool:
        span, before = self.spans[position], self.spans[position - 1]
        text = self.texts[self.segments[position]]
        if span is None or before is None or text is None:
            return False
        if self.segments[position] != self.segments[position - 1]:
            return False
        if self._same_character(position):
            return True
        if span[0] != before[1] or text[span[0] : span[0] + 1].isspace():
            return False
        own, other = self.words[position], self.words[position - 1]
        return own is None or own == other

    def _word(self, positions: list[int]) -> str:
        """The pieces of a word as one, without white space; of several tokens for one character, the first."""
        parts = [p for p in positions if p == positions[0] or not self._same_character(p)]
        return "".join(self.pieces[p] for p in parts if not self._is_blank(p)) or self.pieces[positions[0]]

    def _is_blank(self, position: int) -> bool:
        """Whether a token stands for white space."""
        span, text = self.spans[position], self.texts[self.segments[position]]
        return span is not None and text is not None and not text[slice(*span)].strip()

    def _same_character(self, position: int) -> bool:
        span, before = self.spans[position], self.spans[position - 1]
        return span is not None and before is not None and before[0] <= span[0] < before[1]


def _is_punctuation(piece: str) -> bool:
    """Whether the piece consists of punctuation, apart from the space marks and prefixes that tokenizers add."""
    marks = [c for c in piece if not c.isspace() and c not in "▁Ġ#"] or [c for c in piece if c == "#"]
    return bool(marks) and all(category(c)[0] in "PS" for c in marks)


def anonymous(count: int) -> Tokens:
    """Numbered positions without text: patches of an image, frames of speech."""
    unknown = (None,) * count
    return Tokens(
        pieces=tuple(f"#{i}" for i in range(count)),
        ids=unknown,
        special=(False,) * count,
        spans=unknown,
        words=unknown,
        segments=(0,) * count,
        texts=(None,),
    )
