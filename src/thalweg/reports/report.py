"""Build a report: run every method, the certificate and mixing on one capture."""

from collections.abc import Sequence

from thalweg.attribution.packed import POOLED
from thalweg.capture.record import Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.errors import InputError
from thalweg.identifiability.head_result import Intervals
from thalweg.identifiability.trust import intervals as intervals_of_head
from thalweg.identifiability.trust import with_example
from thalweg.methods.registry import find_method
from thalweg.models.encode import ModelInput
from thalweg.models.prediction import Outcome, Prediction, prediction
from thalweg.models.subject import Subject
from thalweg.progress import progress
from thalweg.reports.explanations import explain_by_all
from thalweg.reports.generation import continue_text
from thalweg.reports.head_maps import MAX_CERTIFIED_TOKENS, certificate_and_maps
from thalweg.reports.result import Report

INTERVALS_PER_ROW = 8  # of the largest weights


def report(
    subject: Subject,
    text: ModelInput | Capture,
    methods: Sequence[str] | None = None,
    target: TargetLike = None,
    *,
    generate: int = 0,
    intervals: bool = False,
    words: bool = False,
) -> Report:
    """Explain one text by several methods, certify its attention, and put everything on one page.

    `methods` defaults to those of `DEFAULT_METHODS` that support the model and are affordable at this length; the first
    one gives the headline. `target` is the initial target, as in `explain`; readers can select any other on the page.
    With `generate`, a causal language model first continues the text by up to that many tokens, which can be selected
    like those of the prompt. `intervals` adds the ranges of the largest weights in the target's rows, computed by
    linear programming in every head. `words` opens the page with words instead of tokens. Anything left out because
    the text is long is listed in `Report.left_out` and on the page.

    >>> import thalweg as tw
    >>> page = tw.report(tw.load(), "a witty movie.", methods=["alti", "raw_attention"])
    >>> page.prediction, len(page.heads), page.to_html().startswith("<!doctype html>")
    ('positive', 4, True)
    """
    if methods is not None:
        check_reported(methods)
    prompt = None
    if generate:
        text, prompt = continue_text(subject, text, generate)
        target = prompt - 1 if target is None else target  # the first generated token is predicted there
    capture = subject.capture_one(text)
    opened, answer = _initial_target(subject, capture, target)
    explanations = explain_by_all(subject, capture, methods, opened)
    certificate, heads = certificate_and_maps(capture)
    certificate = certificate and with_example(subject, capture, certificate)
    cell = max((entry.cell for entry in heads), default=1)
    left_out = list(explanations.left_out)
    if cell > 1:
        left_out.append(f"head maps at full resolution: each cell covers {cell} × {cell} tokens")
    if certificate is None:
        left_out.append(f"certificate: not computed above {MAX_CERTIFIED_TOKENS} tokens (use thalweg trust)")
    if not intervals:
        left_out.append("intervals: not requested (two linear programs per weight)")
    return Report(
        tokens=capture.tokens,
        target=opened,
        answer=answer,
        explained=explanations.packed,
        provenance=dict(capture.provenance),
        blocks=tuple((block.name, block.role) for block in capture.blocks),
        certificate=certificate,
        heads=heads,
        intervals=_intervals(subject, capture, opened) if intervals else (),
        mixing=explanations.mixing,
        prompt=prompt,
        outputs=_outputs(subject, capture),
        words=words,
        left_out=tuple(left_out),
    )


def check_reported(methods: Sequence[str]) -> None:
    """Raise unless these are the names of one or more different methods."""
    if isinstance(methods, str) or not methods or len(set(methods)) < len(methods):
        raise InputError(f"report needs a list of one or more different methods, got {methods!r}")
    for name in methods:
        find_method(name)


def _initial_target(
    subject: Subject, capture: Capture, target: TargetLike
) -> tuple[tuple[int, ...], Prediction | None]:
    """The positions that the page opens with, and the prediction if it is read there."""
    if target in (None, "all") and not capture.readout:
        return (next((i for i, special in enumerate(capture.tokens.special) if not special), 0),), None
    goal = find_target(capture, "prediction" if target in (None, "all") else target)
    answer = prediction(subject, capture, goal) if goal.positions == capture.readout else None
    return ((POOLED,) if goal.pooled else goal.positions), answer


def _outputs(subject: Subject, capture: Capture) -> tuple[Outcome | None, ...]:
    """The most probable output at every position; empty if it has one output for the whole text, or none."""
    if capture.logits is None or capture.logits.dim() != 2:
        return ()
    answers = (prediction(subject, capture, find_target(capture, place)) for place in range(len(capture.tokens)))
    return tuple(None if answer is None else answer.outcomes[0] for answer in answers)


def _intervals(subject: Subject, capture: Capture, opened: tuple[int, ...]) -> tuple[Intervals, ...]:
    """Intervals of the largest weights in the target's rows, for every head that has these rows."""
    positions = list(capture.readout if opened == (POOLED,) else opened)
    heads = [
        (layer, head)
        for layer, block in enumerate(capture.blocks)
        if any(block.queries.start <= position < block.queries.stop for position in positions)
        for head in range(block.attention.heads)
    ]
    results = []
    with progress("intervals") as advance:
        for done, (layer, head) in enumerate(heads, 1):
            results.append(intervals_of_head(subject, capture, layer, head, positions, INTERVALS_PER_ROW))
            advance(done, len(heads))
    return tuple(results)
