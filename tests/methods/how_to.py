"""The example of docs/adding_a_method.md, as the page shows it."""

import re
import tomllib
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_method.md"
NAME = "strongest_head_rollout"


def _block(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return code


def write_module(folder: Path) -> Path:
    """Write the page's module, under the name that its entry point has."""
    (module,) = project()["entry-points"]["thalweg.methods"].values()
    path = folder / f"{module}.py"
    path.write_text(_block("python"), encoding="utf-8")
    return path


def project() -> dict[str, Any]:
    """The table `project` of the page's pyproject.toml."""
    return tomllib.loads(_block("toml"))["project"]


def command() -> str:
    return _block("bash").strip()
