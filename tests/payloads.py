"""Reads the payload of a page, as its scripts do."""

import base64
import json
import re
import zlib
from typing import Any

import numpy as np


def payload_of(page: str) -> str:
    """The encoded payload inside a page."""
    match = re.search(r'id="payload">([^<]*)</script>', page)
    assert match is not None
    return match[1]


def decode(encoded: str) -> tuple[dict[str, Any], bytes]:
    """The description and the buffer of arrays."""
    content = zlib.decompress(base64.b64decode(encoded))
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def array_of(entry: dict[str, Any], buffer: bytes) -> np.ndarray:
    return np.frombuffer(buffer, np.dtype(entry["type"]).newbyteorder("<"), entry["length"], entry["offset"])


def rows_of(packed: dict[str, Any], buffer: bytes) -> np.ndarray:
    """Packed rows as floats."""
    codes = array_of(packed["codes"], buffer).reshape(packed["rows"], packed["kept"])
    values = codes * array_of(packed["scale"], buffer)[:, None].astype(np.float64)
    if packed["columns"] is None:
        return values
    full = np.zeros((packed["rows"], packed["width"]))
    columns = array_of(packed["columns"], buffer).reshape(codes.shape).astype(np.int64)
    np.put_along_axis(full, columns, values, 1)
    return full
