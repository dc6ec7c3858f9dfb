"""The data of an HTML page: a JSON description and binary arrays, compressed together."""

import base64
import json
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from thalweg.drawing.packed import Packed
from thalweg.drawing.terminal import MAX_ROW_SUM_ERROR
from thalweg.jsonable import jsonable
from thalweg.printable import printable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

ALIGNMENT = 8  # bytes: every array begins at a multiple


class Arrays:
    """Arrays concatenated into one buffer and known by their offsets; equal arrays are stored once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.offsets: dict[bytes, int] = {}

    def add(self, array: np.ndarray) -> dict[str, Any]:
        """Store an array and return its type, offset and length."""
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        digest = sha256(data).digest()
        if digest not in self.offsets:
            padded = data + bytes(-len(data) % ALIGNMENT)
            self.offsets[digest] = self.size
            self.parts.append(padded)
            self.size += len(padded)
        return {"type": array.dtype.name, "offset": self.offsets[digest], "length": array.size}

    def packed(self, rows: Packed | None) -> dict[str, Any] | None:
        """Store packed rows and return their description."""
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
    """The description and its arrays in base64, whose alphabet has no special characters of HTML."""
    header = json.dumps(description, allow_nan=False).encode()
    header += b" " * (-(len(header) + 4) % ALIGNMENT)
    content = len(header).to_bytes(4, "little") + header + b"".join(arrays.parts)
    return base64.b64encode(zlib.compress(content, 9)).decode()


def describe_tokens(tokens: Tokens) -> dict[str, Any]:
    """Tokens as a page reads them: labels, spacing, segments and words."""
    groups = tokens.word_groups()
    return {
        "labels": [printable(_label(tokens, i)) for i in range(len(tokens))],
        "surfaces": [printable(surface) if (surface := tokens.surface(i)) else None for i in range(len(tokens))],
        "unknown": list(tokens.unknown),
        "warnings": [printable(warning) for warning in tokens.warnings()],
        "glued": [_glued(tokens, i) for i in range(len(tokens))],
        "special": list(tokens.special),
        "segments": list(tokens.segments),
        "words": [number for number, (_, positions) in enumerate(groups) for _ in positions],
        "wordLabels": [printable(label) for label, _ in groups],
        "wordsKnown": any(span is not None for span in tokens.spans),
    }


def _label(tokens: Tokens, position: int) -> str:
    """What the model reads; for white space, the text itself."""
    span, text = tokens.spans[position], tokens.texts[tokens.segments[position]]
    if span is None or text is None or text[slice(*span)].strip():
        return tokens.pieces[position]
    return text[slice(*span)].strip(" ") or "␣"


def _glued(tokens: Tokens, position: int) -> bool:
    """Whether a token follows the previous one without a space."""
    span, text = tokens.spans[position], tokens.texts[tokens.segments[position]]
    before = tokens.spans[position - 1] if position else None
    if span is None or before is None or text is None or tokens.segments[position] != tokens.segments[position - 1]:
        return False
    return span[0] <= before[1] and not text[span[0] : span[0] + 1].isspace()


def describe_receipt(receipt: Receipt, row_sum_error: float | None = None) -> dict[str, Any]:
    """A receipt as a page reads it."""
    checks = [
        {"name": name.replace("_", " "), "worst": jsonable(check.worst), "allowed": jsonable(check.allowed)}
        for name, check in receipt.checks.items()
    ]
    figures = dict(jsonable(receipt.figures))
    if row_sum_error is not None and row_sum_error < MAX_ROW_SUM_ERROR:
        figures["rows sum to one within"] = row_sum_error
    return {"checks": checks, "figures": figures, "learnt": list(receipt.learnt), "assumed": list(receipt.assumed)}
