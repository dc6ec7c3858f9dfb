"""Importing is light, and public names are the same whatever was imported before."""

import json
import subprocess
import sys

import thalweg

HEAVY = ("torch", "transformers", "numba", "matplotlib", "captum", "pandas", "scipy")


def fresh(code: str) -> dict[str, object]:
    """Run code in a fresh interpreter and parse the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_package_when_imported_then_imports_nothing_heavy() -> None:
    code = (
        "import json, sys, thalweg, thalweg.errors, thalweg.cli\n"
        "thalweg.InputError, thalweg.__version__, dir(thalweg)\n"
        f"print(json.dumps({{'heavy': [m for m in {HEAVY!r} if m in sys.modules]}}))"
    )
    assert fresh(code) == {"heavy": []}


def test_command_when_imported_then_imports_nothing_heavy() -> None:
    code = (
        "import json, sys, thalweg.cli.main\n"
        f"print(json.dumps({{'heavy': [m for m in {HEAVY!r} if m in sys.modules]}}))"
    )
    assert fresh(code) == {"heavy": []}


def test_names_when_every_submodule_was_imported_first_then_are_still_the_public_ones() -> None:
    code = """
import importlib, json, pkgutil, types
import thalweg.attribution.explain, thalweg.models.load, thalweg.methods.registry
import thalweg
on_ray = ("thalweg.corpus.ray.cluster", "thalweg.corpus.ray.shard_source")  # Ray brings pandas
for module in pkgutil.walk_packages(thalweg.__path__, "thalweg."):
    if module.name not in on_ray:
        importlib.import_module(module.name)
listed = [name for name in dir(thalweg) if not name.startswith("_")]
modules = [n for n in thalweg.__all__ if isinstance(getattr(thalweg, n), types.ModuleType)]
optional = [m for m in ("matplotlib", "captum", "pandas") if m in __import__("sys").modules]
print(json.dumps({"listed": listed, "modules": modules, "optional": optional}))
"""
    names = fresh(code)
    assert names["modules"] == []
    assert names["optional"] == []
    assert names["listed"] == sorted(n for n in thalweg.__all__ if not n.startswith("_"))


def test_public_names_when_accessed_then_resolve_and_are_listed() -> None:
    assert set(thalweg.__all__) <= set(dir(thalweg))
    assert {"load", "explain", "compare", "Subject", "Capture", "Attribution"} <= set(dir(thalweg))
    assert {"ThalwegError", "InputError", "ModelError", "ProofError"} <= set(dir(thalweg))
    for name in thalweg.__all__:
        value = getattr(thalweg, name)
        assert value is getattr(thalweg, name)
        assert name.startswith("__") or (callable(value) and value.__name__ == name)


def test_unknown_name_when_accessed_then_is_an_attribute_error() -> None:
    assert not hasattr(thalweg, "alchemy")
