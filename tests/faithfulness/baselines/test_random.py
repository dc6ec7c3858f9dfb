"""random: fixed by the seed and the number of the example."""

from tests.faithfulness.cases import scores_of, subject_of
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample


def test_random_when_repeated_then_is_the_same_for_a_seed_and_example_only() -> None:
    subject, example = subject_of("bert"), BenchExample("the old dog")
    first, repeated = (scores_of("random", make_case(subject, example, 3, seed=5)) for _ in range(2))
    assert (first == repeated).all()
    assert (first != scores_of("random", make_case(subject, example, 4, seed=5))).any()
    assert (first != scores_of("random", make_case(subject, example, 3, seed=6))).any()
