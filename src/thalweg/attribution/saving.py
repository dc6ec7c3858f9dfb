"""Attribution files: safetensors for the arrays, a JSON header for everything else."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from thalweg.attribution.result import Attribution
from thalweg.errors import InputError
from thalweg.files.atomic import draft_of, read_tensors
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

SCHEMA = 4


def header(attribution: Attribution) -> dict[str, Any]:
    """Everything but the arrays, as plain lists and numbers."""
    return {
        "schema": SCHEMA,
        "method": attribution.method,
        "params": dict(attribution.params),
        "prediction": attribution.prediction,
        "chain": attribution.chain,
        "targets": asdict(attribution.targets),
        "sources": asdict(attribution.sources),
        "positions": list(attribution.positions),
        "receipt": attribution.receipt.to_dict(),
        "provenance": dict(attribution.provenance),
    }


def save(attribution: Attribution, path: str | Path) -> None:
    """Write the file atomically: an interrupted run leaves the previous file."""
    path = Path(path)
    names = ("scores", "per_layer", "errors")
    arrays = {name: array for name in names if (array := getattr(attribution, name)) is not None}
    with draft_of(path) as draft:
        save_file(arrays, draft, metadata={"thalweg": json.dumps(header(attribution), allow_nan=False)})


def load(path: str | Path) -> Attribution:
    """Read a file written by `save`."""
    arrays, described = read_tensors(Path(path), "an attribution", "numpy")
    if described.get("schema") != SCHEMA:
        raise InputError(f"{path} was written with schema {described.get('schema')!r}, expected {SCHEMA}")
    try:
        attribution = _attribution(described, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a complete attribution: {error!r}") from error
    expected = (len(attribution.targets), len(attribution.sources))
    if attribution.scores.shape != expected or len(attribution.positions) != len(attribution.targets):
        raise InputError(
            f"{path} has scores of shape {attribution.scores.shape} and {len(attribution.positions)} positions, "
            f"expected {expected} (targets, sources)"
        )
    return attribution


def _attribution(described: dict[str, Any], arrays: dict[str, Any]) -> Attribution:
    return Attribution(
        scores=arrays["scores"],
        per_layer=arrays.get("per_layer"),
        errors=arrays.get("errors"),
        targets=_tokens(described["targets"]),
        sources=_tokens(described["sources"]),
        positions=tuple(described["positions"]),
        method=described["method"],
        params=described["params"],
        prediction=described["prediction"],
        chain=described["chain"],
        receipt=Receipt.from_dict(described["receipt"]),
        provenance=described["provenance"],
    )


def _tokens(columns: dict[str, list]) -> Tokens:
    spans = tuple(None if span is None else (span[0], span[1]) for span in columns["spans"])
    return Tokens(**{**{name: tuple(column) for name, column in columns.items()}, "spans": spans})
