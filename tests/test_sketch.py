"""Sketches: a module's own code runs, the packages that it imports do not."""

import sys
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.sketch import Sketch, SketchError

DECLARING = """
from dataclasses import dataclass
from typing import Literal

import heavy.parts as parts
from heavy import Array, traced
from thalweg.errors import InputError

from . import names
from .names import KNOWN
from .stubborn import LIMIT

Alias = Array["row column"] | None


@dataclass
class Params:
    kind: Literal["l1", "l2"] = "l1"
    weights: Alias = None


class Layer(Array):
    size: int = 3


@traced(cache=True)
def run(array: Array, limit: int = LIMIT) -> Array:
    return parts.sum(array)


def check(name: str) -> str:
    if name not in KNOWN:
        raise InputError(f"unknown {name}")
    return names.shout(name)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that imports another one, which must not run."""
    files = {
        "heavy/__init__.py": "raise AssertionError('imported')",
        "declaring/__init__.py": "",
        "declaring/module.py": DECLARING,
        "declaring/names.py": "import heavy\nKNOWN = ['alti']\ndef shout(name): return name.upper()",
        "declaring/stubborn.py": "import heavy\nLIMIT = 2 * heavy.LIMIT",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "declaring"


@pytest.mark.usefixtures("package")
def test_module_when_sketched_then_its_declarations_can_be_read_and_called() -> None:
    sketch = Sketch(["declaring"])
    module = sketch.load("declaring.module")
    assert module.Params().kind == "l1"
    assert module.Layer.size == 3
    assert module.check("alti") == "ALTI"
    assert sketch.load("declaring.module") is module
    with pytest.raises(tw.InputError, match="unknown zeal"):
        module.check("zeal")
    assert not {"heavy", "declaring", "declaring.module"} & set(sys.modules)


@pytest.mark.parametrize(
    "line",
    [
        "if heavy.available(): pass",
        "size = heavy.SIZE + 1",
        "size = 2 ** heavy.SIZE",
        "size = int(heavy.SIZE)",
        "names = [name for name in heavy.NAMES]",
        "label = f'{heavy.NAME}'",
        "label = str(heavy.NAME)",
        "known = 'a' in heavy.NAMES",
        "same = heavy.NAME == 'a'",
        "kind = isinstance(3, heavy.Kind)",
        "with heavy.context(): pass",
        "from dataclasses import dataclass\n@dataclass\nclass Params(heavy.Params):\n  size: int = 3",
    ],
)
def test_module_when_it_depends_on_an_import_then_cannot_be_sketched(package: Path, line: str) -> None:
    (package / "deciding.py").write_text(f"import heavy\n{line}\n")
    with pytest.raises(SketchError):
        Sketch(["declaring"]).load("declaring.deciding")


@pytest.mark.parametrize("name", ["a_package_that_nobody_has", "declaring.nothing"])
def test_module_when_its_import_does_not_exist_then_says_so(package: Path, name: str) -> None:
    (package / "missing.py").write_text("import a_package_that_nobody_has")
    with pytest.raises(ModuleNotFoundError, match=r"nobody_has|nothing"):
        Sketch(["declaring"]).load("declaring.missing" if name.startswith("a_") else name)


def test_import_when_called_as_a_function_then_the_sketch_is_loaded_or_the_reason_raised(package: Path) -> None:
    (package / "listing.py").write_text("def load(name): return __import__(f'declaring.{name}')")
    listing = Sketch(["declaring"]).load("declaring.listing")
    assert listing.load("names").names.KNOWN == ["alti"]
    with pytest.raises(SketchError):
        listing.load("stubborn")
    assert "declaring" not in sys.modules
