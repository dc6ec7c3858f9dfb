"""occlusion: windows of blanks, averaged."""

import numpy as np
import pytest

import thalweg as tw
from tests.faithfulness.cases import scores_of, subject_of, tiny_case
from tests.families import BY_NAME
from thalweg.faithfulness.case import Case


def literal(case: Case, width: int) -> list[float]:
    """Every window of removable tokens covered by mask tokens in the text itself, one pass each."""
    full, places = float(case.scorer([case.original])[0]), case.removable
    windows = [places[first : first + width] for first in range(len(places) - width + 1)]
    falls = [full - float(case.scorer([case.without(window, "mask")])[0]) for window in windows]
    by_token = [
        [fall for fall, w in zip(falls, windows, strict=True) if place in w] for place in range(len(case.original))
    ]
    return [sum(own) / len(own) if own else 0.0 for own in by_token]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "electra"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_occlusion_when_compared_with_masked_texts_then_is_their_mean_over_windows(family: str, width: int) -> None:
    case = tiny_case(family)
    scores = scores_of(f"occlusion:window={width}", case)
    assert scores == pytest.approx(literal(case, width), abs=1e-6)
    assert np.abs(scores).max() > 1e-5


def test_occlusion_when_the_window_is_one_token_then_is_leave_one_out_by_mask() -> None:
    case = tiny_case("bert")
    assert scores_of("occlusion:window=1", case) == pytest.approx(
        scores_of("leave_one_out:operator=mask", case), abs=1e-6
    )


def test_occlusion_when_the_window_is_longer_than_the_text_then_covers_all_of_it() -> None:
    case = tiny_case("bert")
    scores = scores_of("occlusion:window=99", case)
    full, covered = case.scorer([case.original, case.without(case.removable, "mask")])
    assert scores[list(case.removable)] == pytest.approx([full - covered] * len(case.removable), abs=1e-6)


def test_occlusion_when_the_text_has_only_the_position_it_is_read_at_then_nothing_has_a_score() -> None:
    assert tw.explain(subject_of("gpt2"), "the", "occlusion", 0).scores[0, 0] == 0


def test_occlusion_when_explained_then_the_receipt_names_the_blank() -> None:
    assert (
        "a covered token is the token [MASK]" in tw.explain(subject_of("bert"), "the dog", "occlusion").receipt.assumed
    )
    image = tw.explain(tw.load(BY_NAME["vit"].build()), BY_NAME["vit"].inputs(1, 12), "occlusion").receipt
    assert any("a state of zeros" in sentence for sentence in image.assumed)


def test_occlusion_when_the_window_is_empty_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="window must be at least 1, got 0"):
        scores_of("occlusion:window=0", tiny_case("bert"))
