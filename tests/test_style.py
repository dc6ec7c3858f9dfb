"""Names say something: no variable, argument or attribute has a name that fits anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/thalweg", "papers")

# Names that are not allowed, and names to choose from instead.
EMPTY_NAMES = {
    "one": "the noun: row, head, block, entry, example",
    "found": "match, matches, result, or the noun",
    "given": "params, inputs, options, or the noun",
    "said": "message, sentence, label",
    "asked": "question, request, options",
}


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of variables, arguments, attributes, functions, classes and imports, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del(), lineno=line):
                yield name, line
            case ast.Attribute(attr=name, ctx=ast.Store(), lineno=line):
                yield name, line
            case ast.arg(arg=name, lineno=line):
                yield name, line
            case ast.FunctionDef(name=name, lineno=line) | ast.AsyncFunctionDef(name=name, lineno=line):
                yield name, line
            case ast.ClassDef(name=name, lineno=line):
                yield name, line
            case ast.ExceptHandler(name=str(name), lineno=line):
                yield name, line
            case ast.MatchAs(name=str(name), lineno=line) | ast.MatchStar(name=str(name), lineno=line):
                yield name, line
            case ast.MatchMapping(rest=str(name), lineno=line):
                yield name, line
            case ast.alias(asname=str(name), lineno=line):
                yield name, line
            case _:
                pass


@pytest.mark.parametrize("name", EMPTY_NAMES)
def test_names_when_bound_then_none_is_empty(name: str) -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 100
    places = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        for bound, line in bound_names(ast.parse(file.read_text(encoding="utf-8")))
        if bound == name
    ]
    assert places == [], f"choose {EMPTY_NAMES[name]}"


@pytest.mark.parametrize(
    "code",
    [
        "one = 1",
        "one: int",
        "a, (b, *one) = rows",
        "for one in rows: pass",
        "[one for one in rows]",
        "def f(one): pass",
        "def f(*, one=1): pass",
        "lambda one: 1",
        "self.one = 1",
        "class Record:\n    one: int = 0",
        "def one(): pass",
        "with file as one: pass",
        "import row as one",
        "try: pass\nexcept Error as one: pass",
        "if (one := row): pass",
        "match row:\n    case [one]: pass",
        "match row:\n    case {'a': 1, **one}: pass",
    ],
)
def test_binding_when_of_any_kind_then_is_seen(code: str) -> None:
    assert "one" in {name for name, _ in bound_names(ast.parse(code))}


@pytest.mark.parametrize("code", ["print(one)", "row.one", "one[0] = 1", "'one'", "f(one=1)"])
def test_use_when_it_binds_nothing_then_is_not_counted(code: str) -> None:
    assert "one" not in {name for name, _ in bound_names(ast.parse(code))}
