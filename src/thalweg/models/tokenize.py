"""Texts and token ids as `Tokens`, with the help of a transformers tokenizer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from thalweg.errors import InputError
from thalweg.tokens import Tokens

Tokenizer = Any  # the options that a tokenizer takes depend on its class


def tokenize(
    tokenizer: Tokenizer, texts: tuple[str, ...], limit: int | None = None
) -> tuple[Tokens, dict[str, list[int]]]:
    """Tokenize a text or a pair: the tokens, and the rows that the model reads by name.

    With a `limit`, texts of more tokens are cut; of a pair, the longer text first.
    """
    check_texts(texts)
    cut = {} if limit is None else {"truncation": True, "max_length": limit}
    encoding = tokenizer(*texts, return_offsets_mapping=tokenizer.is_fast, return_special_tokens_mask=True, **cut)
    tokens = _from_encoding(tokenizer, encoding, texts)
    if all(tokens.special):
        raise InputError(f"the text {_shown(texts)} has only special tokens with this tokenizer")
    return tokens, {name: encoding[name] for name in tokenizer.model_input_names if name in encoding}


def check_texts(texts: tuple[str, ...]) -> None:
    """Raise for a text that no tokenizer can read: empty, or not valid Unicode."""
    if not all(text.strip() for text in texts):
        raise InputError(f"the text {_shown(texts)} is empty; expected a text to explain")
    _check_unicode(*texts)


def tokenize_target(tokenizer: Tokenizer, text: str, start: int) -> Tokens:
    """Tokenize the text of a decoder, after its start token."""
    _check_unicode(text)
    encoding = tokenizer(
        text_target=text,
        add_special_tokens=False,
        return_offsets_mapping=tokenizer.is_fast,
        return_special_tokens_mask=True,
    )
    body = _from_encoding(tokenizer, encoding, (text,))
    both = tokens_from_ids(tokenizer, [start]) + body
    segments = (0,) * len(both)
    return replace(both, special=(True, *body.special), segments=segments, texts=(text,))


def tokens_from_ids(tokenizer: Tokenizer | None, ids: Sequence[int]) -> Tokens:
    """Tokens whose text is not known; without a tokenizer, the ids are the pieces."""
    special = special_ids(tokenizer)
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(ids)] if tokenizer else map(str, ids)
    absent = (None,) * len(ids)
    return Tokens(
        pieces=tuple(pieces),
        ids=tuple(ids),
        special=tuple(i in special for i in ids),
        spans=absent,
        words=absent,
        segments=(0,) * len(ids),
        texts=(None,),
        unknown=_unknown(tokenizer, ids),
    )


def special_ids(tokenizer: Tokenizer | None) -> set[int]:
    """Ids without text of their own; an unknown word is still a word."""
    return set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} if tokenizer else set()


def _from_encoding(tokenizer: Tokenizer, encoding: Any, texts: tuple[str, ...]) -> Tokens:
    ids = encoding["input_ids"]
    special = tuple(bool(flag) for flag in encoding["special_tokens_mask"])
    pieces = tokenizer.convert_ids_to_tokens(ids)
    spans: list[tuple[int, int] | None] = [None] * len(ids)
    words: list[int | None] = [None] * len(ids)
    segments = [0] * len(ids)
    if tokenizer.is_fast:
        words, sequences = encoding.word_ids(), encoding.sequence_ids()
        for i, (start, end) in enumerate(encoding["offset_mapping"]):
            segments[i] = sequences[i] or 0
            if not special[i] and end > start:
                spans[i] = (start, end)
                pieces[i] = _readable(tokenizer, ids[i], pieces[i], texts[segments[i]][start:end].strip())
    return Tokens(
        tuple(pieces), tuple(ids), special, tuple(spans), tuple(words), tuple(segments), texts, _unknown(tokenizer, ids)
    )


def _readable(tokenizer: Tokenizer, token_id: int, piece: str, surface: str) -> str:
    """What the model reads: the piece without the marks of its tokenizer, or the text that it is a part of.

    Bytes of a character and spaces are not readable by themselves.
    """
    if not surface or piece == surface:
        return surface or piece
    bare = piece.removeprefix("##")
    if token_id == tokenizer.unk_token_id or bare == surface or piece.lstrip("▁Ġ") == surface:
        return piece if token_id == tokenizer.unk_token_id else surface
    decoded = tokenizer.decode([token_id], clean_up_tokenization_spaces=False).strip().removeprefix("##")
    return surface if not decoded or "\ufffd" in decoded else decoded


def _unknown(tokenizer: Tokenizer | None, ids: Sequence[int]) -> tuple[bool, ...]:
    """Which ids stand for text outside the vocabulary; a token with another role, as in GPT-2, does not."""
    names = ("bos", "eos", "pad", "mask", "cls", "sep")
    roles = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    unknown = getattr(tokenizer, "unk_token_id", None)
    return tuple(i == unknown and unknown not in roles for i in ids)


def _check_unicode(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the text {text!r} is not valid Unicode: {error.reason}") from error


def _shown(texts: tuple[str, ...]) -> str:
    return repr(texts[0] if len(texts) == 1 else texts)
