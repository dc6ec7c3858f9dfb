"""Rows of numbers packed into one or two bytes each, to keep pages small."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer

Rows = Float[np.ndarray, "row column"]


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows as integers: value = code · scale of its row, with an error of at most half a scale.

    Long rows may keep their largest entries only: `columns` holds their positions, `rest` the sum of the entries
    dropped from each row. `width` is the number of columns before packing.
    """

    codes: Integer[np.ndarray, "row kept"]
    scale: Float[np.ndarray, " row"]
    width: int
    columns: Integer[np.ndarray, "row kept"] | None = None
    rest: Float[np.ndarray, " row"] | None = None

    def unpacked(self) -> Rows:
        """The rows as floats; dropped entries are zero."""
        values = self.codes * self.scale[:, None].astype(np.float64)
        if self.columns is None:
            return values
        full = np.zeros((len(self.codes), self.width))
        np.put_along_axis(full, self.columns.astype(np.int64), values, 1)
        return full


def pack(rows: Rows, kind: type[np.unsignedinteger] = np.uint8, keep: int | None = None) -> Packed:
    """Pack rows into integers of this type, or its signed twin if any value is negative.

    `keep` is the number of entries to keep of each row, largest first; None keeps all.
    """
    rows = np.asarray(rows, dtype=np.float64)
    width = rows.shape[1]
    columns = rest = None
    if keep is not None and keep < width:
        chosen = np.argpartition(-np.abs(rows), keep, axis=1)[:, :keep]
        kept = np.take_along_axis(rows, chosen, 1)
        rest = (rows.sum(1) - kept.sum(1)).astype(np.float32)
        columns, rows = chosen.astype(np.uint16 if width <= 2**16 else np.uint32), kept
    if (rows < 0).any():
        kind = {np.uint8: np.int8, np.uint16: np.int16}[kind]  # pyright: ignore[reportAssignmentType, reportArgumentType]
    largest = np.abs(rows).max(1, initial=0.0)
    scale = (largest / np.iinfo(kind).max).astype(np.float32)
    unit = np.where(scale > 0, scale, 1).astype(np.float64)
    codes = np.rint(rows / unit[:, None]).clip(np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
    return Packed(codes, scale, width, columns, rest)
