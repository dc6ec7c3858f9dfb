"""Rows: the results of one text at one target. Figures of the whole text belong to the row of its first target."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from thalweg.attribution.mixing import maps_from
from thalweg.attribution.mixing_result import KINDS
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.result import Attribution, Comparison
from thalweg.capture.record import Capture
from thalweg.corpus.shards import DIGEST_DIGITS, CorpusText
from thalweg.errors import MissingExtraError
from thalweg.identifiability.brief_certificate import BriefCertificate
from thalweg.identifiability.result import Certificate, Head
from thalweg.jsonable import jsonable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

MAX_ERROR_CHARACTERS = 500

Row = dict[str, Any]


@cache
def row_schema() -> Any:
    """The columns of a shard, as a pyarrow schema."""
    pyarrow, _ = import_parquet()
    text, integer, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()

    def struct_list(**fields: Any) -> Any:
        return pyarrow.list_(pyarrow.struct(list(fields.items())))

    methods = struct_list(
        method=text,
        error=text,
        sources=struct_list(position=integer, token=text, score=number),
        entropy=number,
        special_share=number,
        own_share=number,
        sum=number,
        word_shares=pyarrow.list_(pyarrow.float32()),
    )
    heads = struct_list(
        layer=integer,
        head=integer,
        verdict=text,
        rank=integer,
        ambiguity=integer,
        null_share=number,
        null_share_row_sum=number,
        pearson=number,
        spearman=number,
    )
    return pyarrow.schema(
        [
            ("text", integer),  # from 0, empty texts not counted
            ("line", integer),
            ("id", text),
            ("content", text),
            ("digest", text),
            ("characters", integer),
            ("tokens", integer),
            ("error", text),  # why the text has no results
            ("prediction", text),
            ("probability", number),
            ("target", integer),  # from 0 within the text
            ("position", integer),
            ("token", text),
            ("words", struct_list(word=text, start=integer)),  # as many as shares of words in each method
            ("methods", methods),
            ("agreement", struct_list(method=text, other=text, correlation=number)),
            (
                "layers",
                struct_list(method=text, layer=integer, own=number, not_own=number, **dict.fromkeys(KINDS, number)),
            ),
            ("heads", heads),
            ("certificate_error", text),
            ("checks", struct_list(method=text, identity=text, worst=number, allowed=number)),
            ("seconds", number),
        ]
    )


def make_row(text: CorpusText, **columns: Any) -> Row:
    """A row of a text; columns that are not given are None."""
    readable = text.error is None
    return {
        **dict.fromkeys(row_schema().names),
        "text": text.number,
        "line": text.line,
        "id": text.id,
        "digest": hashlib.sha256(text.text.encode()).hexdigest()[:DIGEST_DIGITS] if readable else None,
        "characters": len(text.text) if readable else None,
        "target": 0,
        **columns,
    }


def word_entries(tokens: Tokens) -> tuple[list[Row], list[list[int]]]:
    """The words of a text with their first characters, special tokens left out, and the positions of their tokens.

    `start` is None if the tokenizer does not tell where its tokens stand.
    """
    entries: list[Row] = []
    groups: list[list[int]] = []
    for word, positions in tokens.word_groups():
        if not tokens.special[positions[0]]:
            span, text = tokens.spans[positions[0]], tokens.texts[tokens.segments[positions[0]]]
            start = None if span is None or text is None else text.find(word, span[0])
            entries.append({"word": encodable(word), "start": None if start == -1 else start})
            groups.append(positions)
    return entries, groups


def method_entry(
    attribution: Attribution,
    name: str,
    target: int,
    position: int | None,
    top: int,
    words: Sequence[Sequence[int]] | None = None,
) -> Row:
    """The `top` sources of a target by |score|, and figures of all its shares |s| / Σ|s|.

    `entropy` is in nats; `special_share` is the share of special tokens, `own_share` that of the target's own position.
    `word_shares` are s / Σ|s|, with their sign, summed over the tokens of each of the `words`.
    """
    scores = attribution.scores[target]
    size = np.abs(scores)
    largest = np.argsort(-size, kind="stable")[:top]
    total = size.sum()
    shares = size / total if total > 0 else np.full_like(size, np.nan)
    pieces = attribution.sources.pieces
    return {
        "method": name,
        "error": None,
        "sources": [
            {"position": int(source), "token": encodable(pieces[source]), "score": jsonable(scores[source])}
            for source in largest
        ],
        "entropy": jsonable(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum()),
        "special_share": jsonable(shares[np.array(attribution.sources.special)].sum()),
        "own_share": None if position is None else jsonable(shares[position]),
        "sum": jsonable(scores.sum()),
        "word_shares": None if words is None or not total > 0 else [float(scores[p].sum() / total) for p in words],
    }


def agreement_entries(attributions: Mapping[str, Attribution], target: int) -> list[Row]:
    """Rank correlation of every pair of methods over the sources of one target."""
    names = list(attributions)
    if len(names) < 2:
        return []
    table = Comparison(tuple(attribution.select([target]) for attribution in attributions.values())).agreement()
    return [
        {"method": names[i], "other": names[j], "correlation": jsonable(table[i, j])}
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]


def layer_entries(capture: Capture, attribution: Attribution, name: str) -> list[Row]:
    """Mixing from the embeddings to each layer; none for methods without a map for every layer."""
    maps = maps_from(capture, attribution)
    if maps is None:
        return []
    sums = MixingSums(len(maps))
    sums.add(maps, capture.tokens, capture.updated_tokens(), attribution.receipt)
    means = sums.means()
    return [
        {
            "method": name,
            "layer": layer,
            "own": jsonable(means.own[layer]),
            "not_own": jsonable(means.not_own[layer]),
            **{kind: jsonable(share) for kind, share in zip(KINDS, means.by_kind[layer], strict=True)},
        }
        for layer in range(len(maps))
    ]


def head_entries(certificate: Certificate | BriefCertificate) -> list[Row]:
    """The certificate of every head; only a full one has a rank correlation (`spearman`)."""
    plain = ("layer", "head", "verdict", "rank", "ambiguity")
    figures = ("null_share", "null_share_row_sum", "pearson")
    return [
        {
            **{name: getattr(head, name) for name in plain},
            **{name: jsonable(getattr(head, name)) for name in figures},
            "spearman": jsonable(head.spearman) if isinstance(head, Head) else None,
        }
        for head in certificate.heads
    ]


def check_entries(receipts: Mapping[str, Receipt]) -> list[Row]:
    """The checks of every method and of the certificate: the worst error and the tolerance."""
    return [
        {"method": name, "identity": identity, "worst": jsonable(check.worst), "allowed": check.allowed}
        for name, receipt in receipts.items()
        for identity, check in receipt.checks.items()
    ]


def shortened(error: str) -> str:
    return error if len(error) <= MAX_ERROR_CHARACTERS else f"{error[:MAX_ERROR_CHARACTERS]}…"


def encodable(piece: str) -> str:
    """A piece as UTF-8 can hold it: a tokenizer may split a character, which leaves a lone surrogate."""
    return piece.encode(errors="backslashreplace").decode()


def import_parquet() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet module, or raise an error that names the extra."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("corpora are written as Parquet: install thalweg[corpus]") from error
    return pyarrow, parquet
