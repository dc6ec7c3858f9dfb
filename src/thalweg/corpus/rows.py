"""A row: what is known of one text at one target. All figures of a text as a whole stand with its first target."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.attribution.mixing import maps_from
from thalweg.attribution.mixing_result import KINDS
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.result import Attribution, Comparison
from thalweg.capture.record import Capture
from thalweg.corpus.shards import Text
from thalweg.errors import MissingExtraError
from thalweg.identifiability.brief_certificate import BriefCertificate
from thalweg.identifiability.result import Certificate, Head
from thalweg.receipt import Receipt

SCHEMA = 1
SAID = 500  # characters of an error that are kept

Row = dict[str, Any]


@cache
def schema() -> Any:
    """The columns of a shard."""
    pyarrow, _ = parquet()
    text, whole, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()

    def listed(**fields: Any) -> Any:
        return pyarrow.list_(pyarrow.struct(list(fields.items())))

    return pyarrow.schema(
        [
            ("text", whole),  # from 0, empty ones not counted
            ("line", whole),
            ("digest", text),
            ("characters", whole),
            ("tokens", whole),
            ("error", text),  # why nothing is known of this text
            ("prediction", text),
            ("target", whole),  # from 0 within the text
            ("position", whole),
            ("token", text),
            (
                "methods",
                listed(
                    method=text,
                    error=text,
                    sources=listed(position=whole, token=text, score=number),
                    entropy=number,
                    special_share=number,
                    own_share=number,
                    sum=number,
                ),
            ),
            ("agreement", listed(method=text, other=text, correlation=number)),
            (
                "layers",
                listed(method=text, layer=whole, own=number, not_own=number, **dict.fromkeys(KINDS, number)),
            ),
            (
                "heads",
                listed(
                    layer=whole,
                    head=whole,
                    verdict=text,
                    rank=whole,
                    ambiguity=whole,
                    null_share=number,
                    null_share_row_sum=number,
                    pearson=number,
                    spearman=number,
                ),
            ),
            ("certificate_error", text),
            ("checks", listed(method=text, identity=text, worst=number, allowed=number)),
            ("seconds", number),
        ]
    )


def row_of(text: Text, **known: Any) -> Row:
    """A row with nothing in it but what is known."""
    readable = text.error is None
    return {
        **dict.fromkeys(schema().names),
        "text": text.number,
        "line": text.line,
        "digest": hashlib.sha256(text.text.encode()).hexdigest()[:16] if readable else None,
        "characters": len(text.text) if readable else None,
        "target": 0,
        **known,
    }


def method_of(found: Attribution, name: str, target: int, position: int | None, top: int) -> Row:
    """The sources that give most to a target, and figures of the whole row of shares |s| / Σ|s|.

    `entropy` is in nats; `special_share` is what special tokens give, `own_share` what the target's own position does.
    """
    scores = found.scores[target]
    size = np.abs(scores)
    best = np.argsort(-size, kind="stable")[:top]
    total = size.sum()
    shares = size / total if total > 0 else np.full_like(size, np.nan)
    return {
        "method": name,
        "sources": [
            {"position": int(place), "token": _plain(found.sources.pieces[place]), "score": _finite(scores[place])}
            for place in best
        ],
        "entropy": _finite(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum()),
        "special_share": _finite(shares[np.array(found.sources.special)].sum()),
        "own_share": None if position is None else _finite(shares[position]),
        "sum": _finite(scores.sum()),
    }


def agreement_of(found: Mapping[str, Attribution], target: int) -> list[Row]:
    """Rank correlation of every pair of methods over the sources of one target."""
    names = list(found)
    if len(names) < 2:
        return []
    table = Comparison(tuple(one.select([target]) for one in found.values())).agreement()
    return [
        {"method": names[i], "other": names[j], "correlation": _finite(table[i, j])}
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]


def layers_of(capture: Capture, found: Attribution, name: str) -> list[Row]:
    """How much of themselves tokens still have in each layer, where a method has a map for every layer."""
    maps = maps_from(capture, found)
    if maps is None:
        return []
    sums = MixingSums(len(maps))
    sums.add(maps, capture.tokens, capture.updated_tokens(), found.receipt)
    means = sums.means()
    return [
        {
            "method": name,
            "layer": layer,
            "own": _finite(means.own[layer]),
            "not_own": _finite(means.not_own[layer]),
            **{kind: _finite(share) for kind, share in zip(KINDS, means.by_kind[layer], strict=True)},
        }
        for layer in range(len(maps))
    ]


def heads_of(certificate: Certificate | BriefCertificate) -> list[Row]:
    """The certificate of every head, in figures; the order within rows is asked by a whole one only."""
    plain = ("layer", "head", "verdict", "rank", "ambiguity")
    figures = ("null_share", "null_share_row_sum", "pearson")
    return [
        {
            **{name: getattr(head, name) for name in plain},
            **{name: _finite(getattr(head, name)) for name in figures},
            "spearman": _finite(head.spearman) if isinstance(head, Head) else None,
        }
        for head in certificate.heads
    ]


def checks_of(receipts: Mapping[str, Receipt]) -> list[Row]:
    """What was checked, for every method and the certificate: the worst error and what is allowed."""
    return [
        {"method": name, "identity": identity, "worst": _finite(one.worst), "allowed": one.allowed}
        for name, receipt in receipts.items()
        for identity, one in receipt.checks.items()
    ]


def shortened(error: str) -> str:
    return error if len(error) <= SAID else f"{error[:SAID]}…"


def plain_tokens(pieces: Sequence[str]) -> list[str]:
    return [_plain(piece) for piece in pieces]


def _plain(piece: str) -> str:
    """A tokenizer may cut a character in two, which no file can hold."""
    return piece.encode(errors="backslashreplace").decode()


def _finite(value: float | np.floating | Float[np.ndarray, ""]) -> float | None:
    return float(value) if np.isfinite(value) else None


def parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("a corpus is written as Parquet: install thalweg[corpus]") from error
    return pyarrow, parquet
