"""Tokens as a person reads them: pieces, their places in the text, and words."""

from dataclasses import dataclass, replace
from unicodedata import category


@dataclass(frozen=True)
class Tokens:
    """The tokens of a forward pass, with one entry per position in every column but `texts`.

    `spans` are character ranges [start, end) in `texts[segment]`, or None if a token has no text of its own (special
    tokens) or its place is unknown. `words` are the word numbers of the tokenizer.
    """

    pieces: tuple[str, ...]
    ids: tuple[int | None, ...]
    special: tuple[bool, ...]
    spans: tuple[tuple[int, int] | None, ...]
    words: tuple[int | None, ...]
    segments: tuple[int, ...]
    texts: tuple[str | None, ...]

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
        groups: list[tuple[str, list[int]]] = []
        for position, piece in enumerate(self.pieces):
            if groups and self._continues(position):
                positions = groups[-1][1] + [position]
                groups[-1] = (self._surface(positions), positions)
            else:
                label = piece if self.spans[position] is None else self._surface([position])
                groups.append((label, [position]))
        return groups

    def _continues(self, position: int) -> bool:
        span, before = self.spans[position], self.spans[position - 1]
        text = self.texts[self.segments[position]]
        if span is None or before is None or text is None:
            return False
        if self.segments[position] != self.segments[position - 1]:
            return False
        if before[0] <= span[0] < before[1]:
            return True  # several tokens for one character
        if span[0] != before[1] or text[span[0] : span[0] + 1].isspace():
            return False
        own, other = self.words[position], self.words[position - 1]
        return own is None or own == other

    def _surface(self, positions: list[int]) -> str:
        spans = [span for p in positions if (span := self.spans[p])]
        text = self.texts[self.segments[positions[0]]]
        if not spans or text is None:
            return "".join(self.pieces[p] for p in positions)
        return text[spans[0][0] : max(end for _, end in spans)].strip() or "".join(self.pieces[p] for p in positions)


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
