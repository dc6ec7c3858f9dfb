"""Length curves: means over pieces of the same length."""

from thalweg.identifiability.length_result import LengthCurve, LengthPoint

SHORT = LengthPoint(8, 8.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, rows_identifiable=1.0, rows_locally_unique=1.0)
LONG = LengthPoint(32, 16.0, 0.4, 0.2, 0.9, 0.8, 0.3, 0.0, 0.5, rows_identifiable=0.1, rows_locally_unique=0.9)
LONGER = LengthPoint(
    32, 16.0, 0.6, 0.4, 0.7, float("nan"), 0.5, 0.0, 1.0, rows_identifiable=0.0, rows_locally_unique=1.0
)


def test_lengths_when_pieces_have_equal_lengths_then_are_averaged_and_sorted() -> None:
    (first, one_piece), (second, two_pieces) = LengthCurve((LONG, SHORT, LONGER), {}).lengths()
    assert (first, one_piece, two_pieces) == (SHORT, 1, 2)
    assert (second.tokens, second.null_share, second.pearson, second.locally_unique) == (32, 0.5, 0.8, 0.75)


def test_to_dict_when_a_figure_is_nan_then_is_none() -> None:
    described = LengthCurve((LONG, LONGER), {"model": "tiny"}).to_dict()
    assert described["points"][1]["spearman"] is None
    assert described["means"][0]["spearman"] is None
    assert described["means"][0]["pieces"] == 2
    assert described["provenance"] == {"model": "tiny"}
