"""Terminal view of a training run: its figures are on the screen, beside the teacher's if it had one."""

from dataclasses import replace

from rich.console import Console

from thalweg.encoders import Inherited
from thalweg.encoders.training.result import Training


def shown(training: Training) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(training)
    return capture.get()


def test_training_when_shown_then_has_accuracy_length_and_epochs(trained: Training) -> None:
    text = shown(trained)
    assert trained.figures.test is not None
    assert f"{trained.figures.test.rate:.1%}" in text
    assert f"{trained.figures.certified_length} tokens" in text
    assert "labels bad, good" in text
    assert "216 training, 24 validation, 40 test examples" in text
    assert text.count("best") == 1
    assert "before" not in text


def test_training_when_it_had_a_teacher_then_shows_both(trained: Training) -> None:
    teacher = replace(trained.figures, parameters=123_456)
    text = shown(replace(trained, teacher=teacher, inherited=Inherited(("a", "b"), (), ("c",)), seconds=180.0))
    assert "before" in text and "after" in text
    assert "123,456" in text and f"{trained.figures.parameters:,}" in text
    assert "2 exact, 0 approximate, 1 fresh" in text
    assert "3.0 minutes" in text
