"""Tallies in batches against plain counting over all values at once."""

from collections import Counter, defaultdict
from math import ceil
from statistics import fmean

import numpy as np
import pyarrow
import pytest

from thalweg.corpus.tallies import Names, Spread, Tally, entries, numbers


def test_tally_when_added_in_batches_then_equals_plain_sums() -> None:
    draw = np.random.default_rng(0)
    keys, values = draw.integers(0, 7, 100), draw.normal(size=100)
    tally = Tally(1)
    for part in np.array_split(np.arange(100), 6):
        tally.add(keys[part], values[part])
    assert dict(zip(tally.keys.tolist(), tally.counts.tolist(), strict=True)) == Counter(keys.tolist())
    for key, (mean,) in tally.means().items():
        assert mean == pytest.approx(fmean(values[keys == key]))


def test_spread_when_added_in_batches_then_bands_are_those_of_sorted_values() -> None:
    draw = np.random.default_rng(0)
    groups, values = draw.integers(0, 4, 300), draw.normal(size=300)
    values[::7] = np.nan
    spread = Spread()
    for part in np.array_split(np.arange(300), 5):
        spread.add(groups[part], values[part])
    known: dict[int, list[float]] = defaultdict(list)
    for group, value in zip(groups.tolist(), values.tolist(), strict=True):
        if value == value:
            known[group].append(value)
    bands = spread.bands()
    assert set(bands) == set(known)
    for group, band in bands.items():
        low, high = (sorted(known[group])[ceil(part * len(known[group]) / 10) - 1] for part in (1, 9))
        assert (band.low, band.high) == pytest.approx((low, high), abs=5.1e-4)
        assert (band.mean, band.count) == (pytest.approx(fmean(known[group])), len(known[group]))


def test_spread_when_every_value_is_unknown_then_has_no_band() -> None:
    spread = Spread()
    spread.add(np.array([0]), np.array([np.nan]))
    assert spread.bands() == {}


def test_names_when_null_or_beyond_the_limit_then_are_unknown() -> None:
    names = Names(["b"], limit=2)
    assert names.codes(pyarrow.array(["a", None, "b", "c", "a"])).tolist() == [1, -1, 0, -1, 1]
    assert names.list == ["b", "a"]


def test_entries_when_lists_are_null_or_empty_then_are_skipped() -> None:
    column = pyarrow.chunked_array([[[{"a": 1.5}, {"a": None}], None], [[], [{"a": 2.0}]]])
    rows, structs = entries(column)
    assert rows.tolist() == [0, 0, 3]
    assert np.isnan(numbers(structs.field("a"))).tolist() == [False, True, False]
