"""The data of an HTML page: a description in JSON and arrays in few bytes, compressed together."""

import base64
import json
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from thalweg.drawing.packed import Packed
from thalweg.drawing.terminal import printable
from thalweg.jsonable import jsonable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

ALIGNED = 8  # bytes: where an array may begin
ROWS_SUM_TO_ONE = 1e-3  # largest error with which rows count as summing to one


class Arrays:
    """Arrays behind each other in one buffer, each known by where it begins; what is there twice is kept once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.known: dict[bytes, int] = {}

    def add(self, array: np.ndarray) -> dict[str, Any]:
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        name = sha256(data).digest()
        if name not in self.known:
            padded = data + bytes(-len(data) % ALIGNED)
            self.known[name] = self.size
            self.parts.append(padded)
            self.size += len(padded)
        return {"type": array.dtype.name, "offset": self.known[name], "length": array.size}

    def packed(self, rows: Packed | None) -> dict[str, Any] | None:
        if rows is None:
            return None
        return {
            "rows": len(rows.codes),
            "width": rows.width,
            "kept": rows.codes.shape[1],
            "codes": self.add(rows.codes),
            "scale": self.add(rows.scale),
            "columns": None if rows.columns is None else self.add(rows.columns),
            "rest": None if rows.rest is None else self.add(rows.rest),
        }


def encode_payload(description: Mapping[str, Any], arrays: Arrays) -> str:
    """The description and its arrays in base64, of which no character means anything in HTML."""
    described = json.dumps(description, allow_nan=False).encode()
    described += b" " * (-(len(described) + 4) % ALIGNED)
    whole = len(described).to_bytes(4, "little") + described + b"".join(arrays.parts)
    return base64.b64encode(zlib.compress(whole, 9)).decode()


def describe_tokens(tokens: Tokens) -> dict[str, Any]:
    groups = tokens.word_groups()
    word = [number for number, (_, positions) in enumerate(groups) for _ in positions]
    return {
        "labels": [printable(_label(tokens, i)) for i in range(len(tokens))],
        "pieces": [printable(piece) for piece in tokens.pieces],
        "glued": [_glued(tokens, i) for i in range(len(tokens))],
        "special": list(tokens.special),
        "segments": list(tokens.segments),
        "words": word,
        "wordLabels": [printable(label) for label, _ in groups],
        "wordsKnown": any(span is not None for span in tokens.spans),
    }


def _label(tokens: Tokens, place: int) -> str:
    """What a token stands for in the text; its own name where it has no place there."""
    span, text = tokens.spans[place], tokens.texts[tokens.segments[place]]
    if span is None or text is None:
        return tokens.pieces[place]
    return text[slice(*span)].strip(" ") or "␣"


def _glued(tokens: Tokens, place: int) -> bool:
    """Whether no space stands between a token and the one before."""
    span, text = tokens.spans[place], tokens.texts[tokens.segments[place]]
    before = tokens.spans[place - 1] if place else None
    if span is None or before is None or text is None or tokens.segments[place] != tokens.segments[place - 1]:
        return False
    return span[0] <= before[1] and not text[span[0] : span[0] + 1].isspace()


def describe_receipt(receipt: Receipt, row_sum_error: float | None = None) -> dict[str, Any]:
    checks = [
        {"name": name.replace("_", " "), "worst": jsonable(check.worst), "allowed": jsonable(check.allowed)}
        for name, check in receipt.checks.items()
    ]
    figures = jsonable(receipt.figures)
    if row_sum_error is not None and row_sum_error < ROWS_SUM_TO_ONE:
        figures["rows sum to one within"] = row_sum_error
    return {"checks": checks, "figures": figures, "assumed": list(receipt.assumed)}
