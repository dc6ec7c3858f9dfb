"""The rooms of the code base and the arrows between them: `python -m scripts.architecture` draws the picture.

A room is a package or a module at the top of `src/thalweg`. A room may import rooms of lower floors only, never one of
its own floor or above; imports inside functions and for type checkers count. `tests/test_architecture.py` enforces
this table, and the picture in docs/architecture.md is drawn from it.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
START, END = "<!-- picture: written by `make docs` -->", "<!-- end of picture -->"

# From the top floor to the ground. A nested package may be a room of its own.
FLOORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("entry point", ("__main__",)),
    ("command line", ("cli",)),
    ("public names", ("thalweg",)),
    ("built on several questions", ("reports", "faithfulness", "corpus", "encoders.training")),
    ("one question each", ("attribution", "identifiability", "probing")),
    ("methods", ("methods",)),
    ("decompositions and aggregation", ("decompose", "aggregate")),
    ("a model and its texts", ("models",)),
    ("one verified pass", ("capture", "encoders")),
    ("files and pictures", ("files", "drawing")),
    ("leaves", ("digests", "memory", "receipt", "rates", "progress", "indices", "sketch")),
    ("words and numbers", ("errors", "axes", "numerics", "ranks", "tokens", "jsonable", "version")),
    ("characters", ("printable",)),
)
FLOOR = {room: len(FLOORS) - level for level, (_, rooms) in enumerate(FLOORS) for room in rooms}


@dataclass(frozen=True)
class Arrow:
    """One import: the importing module, the imported one, and the line."""

    source: str
    target: str
    line: int

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.source), room_of(self.target)

    @property
    def allowed(self) -> bool:
        above, below = self.rooms
        return above == below or FLOOR[above] > FLOOR[below]


def room_of(module: str) -> str:
    """The room that a module is in: the longest name in the table that it starts with."""
    parts = module.removeprefix("thalweg.").split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    room = next((name for name in names if name in FLOOR), None)
    if room is None:
        raise LookupError(f"{module} is in no room: add it to FLOORS in scripts/architecture.py")
    return room


def modules() -> dict[str, Path]:
    """Every module by name; the root package imports lazily what its stub lists."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        names[name] = path.with_suffix(".pyi") if name == "thalweg" else path
    return names


def arrows() -> list[Arrow]:
    """All imports among our own modules, also those inside functions and for type checkers."""
    known = modules()
    return [arrow for name, path in known.items() for arrow in _imports(name, path, known)]


def _imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[Arrow]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            package = f"thalweg.{node.module}" if node.level else node.module  # only the root's stub is relative
            for alias in node.names:
                target = f"{package}.{alias.name}"
                target = target if target in known else package
                if target in known and target != name:
                    yield Arrow(name, target, node.lineno)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known and alias.name != name:
                    yield Arrow(name, alias.name, node.lineno)


def picture() -> str:
    """The floors as a Mermaid diagram with the arrows that are really there, each room pointing down."""
    drawn = sorted({arrow.rooms for arrow in arrows() if arrow.rooms[0] != arrow.rooms[1]})
    grounds = {room for _, rooms in FLOORS[-3:] for room in rooms}  # every room uses these
    lines = ["```mermaid", "flowchart TB"]
    for level, (title, rooms) in enumerate(FLOORS[:-3]):
        lines.append(f'  subgraph floor{level}["{title}"]')
        lines += [f'    {room.replace(".", "_")}["{room}"]' for room in rooms]
        lines.append("  end")
    lines += [
        f"  {above.replace('.', '_')} --> {below.replace('.', '_')}"
        for above, below in _nearest(drawn)
        if below not in grounds and above not in grounds
    ]
    return "\n".join([*lines, "```"])


def _nearest(drawn: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Arrows that follow from no other two, so that the picture can be read."""
    below: dict[str, set[str]] = {}
    for above, target in drawn:
        below.setdefault(above, set()).add(target)

    def reaches(room: str, target: str) -> bool:
        return any(step == target or reaches(step, target) for step in below.get(room, ()))

    return [
        (above, target)
        for above, target in drawn
        if not any(step != target and reaches(step, target) for step in below[above])
    ]


def page_with_picture(page: str) -> str:
    """The page with the picture between its two marks."""
    before, rest = page.split(START)
    return f"{before}{START}\n{picture()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    PAGE.write_text(page_with_picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    wrong = [arrow for arrow in arrows() if not arrow.allowed]
    for arrow in wrong:
        print(f"{arrow.source}:{arrow.line} imports {arrow.target}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
