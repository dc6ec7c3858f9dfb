"""occlusion: windows of blanks, averaged."""

import pytest

import thalweg as tw
from tests.faithfulness.cases import key_word_case, scores_of, tiny_case


def test_occlusion_when_one_word_decides_then_its_neighbours_share_the_windows_that_cover_it() -> None:
    """Windows of two among the words 1 to 4 are (1 2), (2 3), (3 4); the first two cover word 2."""
    assert scores_of("occlusion:window=2", key_word_case()) == pytest.approx([0, 0.6, 0.6, 0.3, 0, 0])


def test_occlusion_when_the_window_is_one_token_then_is_leave_one_out_by_mask() -> None:
    case = tiny_case("bert")
    assert scores_of("occlusion:window=1", case) == pytest.approx(scores_of("leave_one_out:operator=mask", case))


def test_occlusion_when_the_window_is_longer_than_the_text_then_covers_all_of_it() -> None:
    assert scores_of("occlusion:window=99", key_word_case()) == pytest.approx([0, 0.6, 0.6, 0.6, 0.6, 0])


def test_occlusion_when_the_window_is_empty_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="window must be at least 1, got 0"):
        scores_of("occlusion:window=0", tiny_case("bert"))
