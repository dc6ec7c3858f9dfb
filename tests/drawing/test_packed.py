"""Numbers packed into one or two bytes each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from thalweg.drawing.packed import pack

ROWS = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 20)), elements=st.floats(-1e3, 1e3, width=32))


def test_rows_when_packed_by_hand_then_codes_are_fractions_of_the_largest() -> None:
    packed = pack(np.array([[0.0, 0.4, 1.0], [0.0, 0.0, 0.2]]))
    assert packed.codes.tolist() == [[0, 102, 255], [0, 0, 255]]
    assert packed.codes.dtype == np.uint8
    np.testing.assert_allclose(packed.scale, [1 / 255, 0.2 / 255])
    assert pack(np.array([[-1.0, 0.25]])).codes.tolist() == [[-127, 32]]


def test_rows_when_only_two_entries_are_kept_then_the_others_are_summed() -> None:
    packed = pack(np.array([[0.1, 0.4, 0.2, 0.3]]), keep=2)
    assert packed.columns is not None and packed.rest is not None
    assert sorted(packed.columns[0].tolist()) == [1, 3]
    np.testing.assert_allclose(packed.rest, [0.3], rtol=1e-6)
    np.testing.assert_allclose(packed.unpacked(), [[0.0, 0.4, 0.0, 0.3]], atol=1e-3)


@given(ROWS, st.sampled_from([np.uint8, np.uint16]))
def test_rows_when_packed_then_are_half_a_step_away_at_most(rows: np.ndarray, kind: type) -> None:
    packed = pack(rows, kind)
    assert packed.codes.itemsize == np.dtype(kind).itemsize
    steps = np.iinfo(packed.codes.dtype).max
    allowed = np.abs(rows).max(1, keepdims=True) / steps * 0.501 + 1e-30
    assert (np.abs(packed.unpacked() - rows) <= allowed).all()


@given(ROWS, st.integers(1, 6))
def test_rows_when_only_the_largest_are_kept_then_the_rest_is_stated(rows: np.ndarray, keep: int) -> None:
    packed = pack(rows, np.uint16, keep)
    kept = (packed.unpacked() != 0).sum(1)
    assert (kept <= min(keep, rows.shape[1])).all()
    if keep < rows.shape[1]:
        assert packed.columns is not None and packed.rest is not None
        chosen = np.take_along_axis(rows, packed.columns.astype(np.int64), 1)
        left = np.abs(rows).sum(1) - np.abs(chosen).sum(1)
        smallest = np.abs(chosen).min(1)
        assert (left <= smallest * (rows.shape[1] - keep) + 1e-6).all()
        np.testing.assert_allclose(packed.rest + chosen.sum(1), rows.sum(1), atol=1e-2)


def test_row_when_all_zero_then_stays_zero() -> None:
    assert not pack(np.zeros((2, 3))).unpacked().any()
