"""Tests mirror the source: the test of a module is found by its path, and so is the module of a test."""

import ast
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "thalweg"

BATTERIES = ("contracts", "reference", "browser", "real", "docs", "papers")  # over many modules
ABOUT_THE_CODE = ("test_architecture.py", "test_import.py", "test_style.py", "test_mirror.py")
ADDING = ("test_toy_method.py", "test_plug_ins.py")  # what it takes to add a method, in every room

# Modules that need no test file of their own: path, text they contain, and the battery that runs all of them.
TESTED_ELSEWHERE = (("methods/*.py", "@method(", "contracts/test_methods.py"),)


def covered(file: Path, pattern: str, text: str) -> bool:
    return fnmatch(file.relative_to(SOURCE).as_posix(), pattern) and text in file.read_text(encoding="utf-8")


def is_tested_elsewhere(file: Path) -> bool:
    return any(covered(file, pattern, text) for pattern, text, _ in TESTED_ELSEWHERE)


def mirror(path: Path) -> Path:
    """`a/b.py` is tested by `a/test_b.py`."""
    return path.parent / f"test_{path.name}"


def has_logic(file: Path) -> bool:
    """Whether a module defines a function or method; constants and plain records need no test."""
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def test_tests_when_outside_the_batteries_then_have_a_module_of_the_same_path() -> None:
    files = [file.relative_to(TESTS) for file in sorted(TESTS.rglob("test_*.py"))]
    mirrored = [file for file in files if file.parts[0] not in BATTERIES and file.name not in ABOUT_THE_CODE + ADDING]
    assert len(mirrored) > 80
    modules = {mirror(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py")}
    assert [str(file) for file in mirrored if file not in modules] == []


def test_modules_when_they_have_logic_then_have_a_test_of_the_same_path() -> None:
    modules = [file for file in sorted(SOURCE.rglob("*.py")) if file.name != "__init__.py" and has_logic(file)]
    assert len(modules) > 100
    untested = [
        file.relative_to(SOURCE)
        for file in modules
        if not (TESTS / mirror(file.relative_to(SOURCE))).exists() and not is_tested_elsewhere(file)
    ]
    assert [str(path) for path in untested] == []


@pytest.mark.parametrize(("pattern", "text", "battery"), TESTED_ELSEWHERE)
def test_table_when_read_then_names_existing_modules_and_batteries(pattern: str, text: str, battery: str) -> None:
    assert [file for file in SOURCE.rglob("*.py") if covered(file, pattern, text)]
    assert (TESTS / battery).exists()


def test_logic_when_a_module_has_only_names_or_records_then_is_none(tmp_path: Path) -> None:
    for code, expected in (
        ("A = 1", False),
        ("def f(): ...", True),
        ("class A:\n  def f(self): ...", True),
        ("class A:\n  b: int", False),
        ("import os", False),
    ):
        file = tmp_path / "module.py"
        file.write_text(code)
        assert has_logic(file) is expected
