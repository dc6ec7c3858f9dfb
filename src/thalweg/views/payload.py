"""A report as a page carries it: a description in JSON and arrays in few bytes, compressed together."""

import base64
import json
import zlib
from hashlib import sha256
from typing import Any

import numpy as np

from thalweg.registry import list_methods
from thalweg.results.packed import Packed
from thalweg.results.receipt import Receipt
from thalweg.results.report import Explained, HeadMap, Report
from thalweg.results.trust import Certificate, Intervals
from thalweg.tokens import Tokens
from thalweg.views.terminal import printable

ALIGNED = 8  # bytes: where an array may begin


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


def payload(report: Report) -> str:
    """Everything in base64, of which no character means anything in HTML."""
    arrays = Arrays()
    described = json.dumps(describe(report, arrays), allow_nan=False).encode()
    described += b" " * (-(len(described) + 4) % ALIGNED)
    whole = len(described).to_bytes(4, "little") + described + b"".join(arrays.parts)
    return base64.b64encode(zlib.compress(whole, 9)).decode()


def describe(report: Report, arrays: Arrays) -> dict[str, Any]:
    """What a page knows, with the places of its arrays."""
    return {
        "tokens": _tokens(report.tokens),
        "target": list(report.target),
        "prediction": None if report.prediction is None else printable(report.prediction),
        "outputs": [printable(one) for one in report.outputs],
        "prompt": report.prompt,
        "openWords": report.words,
        "methods": [_method(one, arrays) for one in report.explained],
        "blocks": [{"name": name, "role": role} for name, role in report.blocks],
        "certificate": None if report.certificate is None else _certificate(report.certificate),
        "maps": [_map(one, arrays) for one in report.heads],
        "intervals": [_intervals(one) for one in report.intervals],
        "mixing": None if report.mixing is None else report.mixing.to_dict()["methods"],
        "leftOut": list(report.left_out),
        "provenance": dict(report.provenance),
    }


def _tokens(tokens: Tokens) -> dict[str, Any]:
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


def _method(one: Explained, arrays: Arrays) -> dict[str, Any]:
    known = list_methods().get(one.method)
    return {
        "name": one.method,
        "summary": known.summary if known else "",
        "params": {name: str(value) for name, value in one.params.items()},
        "targets": list(one.targets),
        "scores": arrays.packed(one.scores),
        "signed": bool((one.scores.codes < 0).any()),
        "layers": arrays.packed(one.layers),
        "chain": one.chain,
        "receipt": _receipt(one.receipt, one.row_sum_error),
    }


def _receipt(receipt: Receipt, row_sum_error: float | None = None) -> dict[str, Any]:
    checks = [
        {"name": name.replace("_", " "), "worst": _number(check.worst), "allowed": _number(check.allowed)}
        for name, check in receipt.checks.items()
    ]
    figures = {name: _number(value) for name, value in receipt.figures.items()}
    if row_sum_error is not None and row_sum_error < 1e-3:
        figures["rows sum to one within"] = row_sum_error
    return {"checks": checks, "figures": figures, "assumed": list(receipt.assumed)}


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "summary": certificate.summary(),
        "counts": dict(certificate.counts()),
        "heads": [
            {
                "layer": one.layer,
                "head": one.head,
                "verdict": one.verdict,
                "sentence": one.sentence(),
                "nullShare": _number(one.null_share_row_sum),
                "rank": one.rank,
                "ambiguity": one.ambiguity,
                "longest": one.longest,
            }
            for one in certificate.heads
        ],
        "layers": [one.sentence() for one in certificate.layers if not one.separable],
        "receipt": _receipt(certificate.receipt),
    }


def _map(one: HeadMap, arrays: Arrays) -> dict[str, Any]:
    return {
        "layer": one.layer,
        "heads": one.heads,
        "queries": one.queries,
        "keys": one.keys,
        "cell": one.cell,
        "weights": arrays.packed(one.weights),
        "null": arrays.packed(one.null),
    }


def _intervals(one: Intervals) -> dict[str, Any]:
    columns = zip(one.targets, one.sources, one.weights, one.low, one.high, strict=True)
    rows = [[int(t), int(s), round(float(w), 5), round(float(a), 5), round(float(b), 5)] for t, s, w, a, b in columns]
    return {"layer": one.layer, "head": one.head, "rows": rows}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
