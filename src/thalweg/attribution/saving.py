"""Attribution files: safetensors for the arrays, a JSON header for everything else."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from thalweg.attribution.result import POOLED, Attribution
from thalweg.errors import InputError
from thalweg.files.atomic import draft_of, read_tensors
from thalweg.files.records import read_as, reading, require
from thalweg.methods.registry import Chain
from thalweg.models.prediction import Prediction
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

SCHEMA = 5
ARRAYS = ("scores", "per_layer", "errors")


def header(attribution: Attribution) -> dict[str, Any]:
    """Everything but the arrays, as plain lists and numbers."""
    return {
        "schema": SCHEMA,
        "method": attribution.method,
        "params": dict(attribution.params),
        "prediction": attribution.prediction,
        "answer": None if attribution.answer is None else asdict(attribution.answer),
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
    arrays = {name: array for name in ARRAYS if (array := getattr(attribution, name)) is not None}
    with draft_of(path) as draft:
        save_file(arrays, draft, metadata={"thalweg": json.dumps(header(attribution), allow_nan=False)})


@dataclass(frozen=True, eq=False)
class _Header:
    """What `header` describes."""

    method: str
    params: Mapping[str, Any]
    answer: Prediction | None
    chain: Chain | None
    targets: Tokens
    sources: Tokens
    positions: tuple[int, ...]
    receipt: Receipt
    provenance: Mapping[str, str]


def load(path: str | Path) -> Attribution:
    """Read a file written by `save`."""
    with reading(Path(path), "an attribution"):
        arrays, described = read_tensors(Path(path), "an attribution", "numpy")
        if described.get("schema") != SCHEMA:
            raise InputError(f"{path} was written with schema {described.get('schema')!r}, expected {SCHEMA}")
        require("scores" in arrays, "it has no scores")
        stored = {name: arrays.get(name) for name in ARRAYS}
        attribution = Attribution(**vars(read_as(_Header, described)), **stored)  # pyright: ignore[reportArgumentType]
        _check(attribution)
        return attribution


def _check(attribution: Attribution) -> None:
    """Raise unless arrays, tokens and positions agree with each other."""
    require("model" in attribution.provenance, "provenance.model is missing")
    counts = (len(attribution.targets), len(attribution.sources))
    require(min(counts) > 0, f"it must have targets and sources, got {counts[0]} and {counts[1]}")
    require(attribution.answer is None or bool(attribution.answer.outcomes), "answer.outcomes must not be empty")
    for name in ("targets", "sources"):
        _check_tokens(name, getattr(attribution, name))
    positions = attribution.positions
    within = len(positions) == counts[0] and all(POOLED <= place < counts[1] for place in positions)
    require(within, f"positions must be {counts[0]} numbers from {POOLED} to {counts[1] - 1}, got {positions}")
    maps = attribution.per_layer
    rows, layers = (counts[0], 0) if maps is None or maps.ndim != 3 else (maps.shape[1], len(maps))
    square = attribution.chain is not None
    shapes = {"scores": counts, "errors": counts, "per_layer": (layers, counts[1] if square else rows, counts[1])}
    for name in ARRAYS:
        array = getattr(attribution, name)
        if array is not None:
            require(array.dtype.kind == "f", f"{name} must be floating-point numbers, got {array.dtype}")
            require(array.shape == shapes[name], f"{name} must have shape {shapes[name]}, got {array.shape}")
            require(bool(np.isfinite(array).all()), f"{name} must be finite")


def _check_tokens(name: str, tokens: Tokens) -> None:
    for column, entries in vars(tokens).items():
        agree = column == "texts" or len(entries) == len(tokens)
        require(agree, f"{name}.{column} must have {len(tokens)} entries like its pieces, got {len(entries)}")
    texts = len(tokens.texts)
    known = all(0 <= segment < texts for segment in tokens.segments)
    require(known, f"{name}.segments must be from 0 to {texts - 1}, got {tokens.segments}")
    ordered = all(span is None or 0 <= span[0] <= span[1] for span in tokens.spans)
    require(ordered, f"{name}.spans must be ranges of characters, got {tokens.spans}")
