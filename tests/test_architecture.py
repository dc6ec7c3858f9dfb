"""Imports point downwards: the table of floors against the actual imports."""

import subprocess
import sys
from collections import defaultdict

import pytest

from scripts.architecture import FLOORS, PAGE, Arrow, arrows, modules, page_with_picture, room_of

RESULTS = {"result", "head_result", "length_result", "mixing_result", "summary", "query"}
DRAWINGS = {"view", "alternatives_view", "packed", "saving", "summary_page"}  # results draw and save themselves


def test_imports_when_read_then_point_to_lower_floors_only() -> None:
    imports = arrows()
    assert len(imports) > 500
    wrong = [f"{arrow.source}:{arrow.line} imports {arrow.target}" for arrow in imports if not arrow.allowed]
    assert wrong == []


def test_rooms_when_listed_then_are_exactly_those_that_exist() -> None:
    assert {room_of(name) for name in modules()} == {room for _, rooms in FLOORS for room in rooms}


def test_arrow_when_it_points_up_or_sideways_then_is_not_allowed() -> None:
    assert not Arrow("thalweg.decompose.parts", "thalweg.aggregate.rollout", 1).allowed
    assert not Arrow("thalweg.capture.record", "thalweg.models.load", 1).allowed
    assert Arrow("thalweg.models.load", "thalweg.capture.record", 1).allowed
    with pytest.raises(LookupError, match="attic"):
        room_of("thalweg.attic")


def test_imports_when_followed_then_the_only_cycles_are_results_and_their_views() -> None:
    """A result imports its view inside its methods; there are no other cycles."""
    below: dict[str, set[str]] = defaultdict(set)
    for arrow in arrows():
        room, target_room = arrow.rooms
        draws_itself = arrow.source.split(".")[-1] in RESULTS and arrow.target.split(".")[-1] in DRAWINGS
        if not (room == target_room and draws_itself):
            below[arrow.source].add(arrow.target)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(below[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in list(below):
        visit(module, ())


def test_picture_when_drawn_again_then_equals_that_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_picture(page) == page, "run `make docs`"


@pytest.mark.parametrize(
    ("room", "code"),
    [
        ("attribution", "tw.explain(tw.load(), 'a witty movie.')"),
        ("identifiability", "tw.trust(tw.load(), 'a witty movie.')"),
    ],
)
def test_result_when_shown_then_imports_nothing_of_other_questions(room: str, code: str) -> None:
    questions = {"attribution", "identifiability", "probing", "faithfulness", "corpus", "reports", "encoders.training"}
    script = f"""
import sys, thalweg as tw
from rich.console import Console
result = {code}
Console(file=open('/dev/null', 'w')).print(result)
result.to_html(); result._repr_html_(); result.plot(); result.to_dict()
print(sorted(q for q in {sorted(questions)!r} if f'thalweg.{{q}}' in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == repr([room])
