"""README and docs: their code runs, their links resolve, and their tables match the commands that write them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.write_methods import methods_page, own_methods, readme_with_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_readme_when_its_python_is_run_in_order_then_works(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    assert len(blocks("python")) >= 3
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), space)
    assert "True" in capsys.readouterr().out


def test_readme_when_its_commands_are_run_then_succeed(tmp_path: Path) -> None:
    lines = [
        line for block in blocks("bash") for line in block.splitlines() if line.startswith(("thalweg ", "printf "))
    ]
    assert len(lines) >= 4
    ours = shlex.join([sys.executable, "-c", "from thalweg.cli.main import main; main()"])
    for line in lines:
        command = ["bash", "-c", re.sub(r"^thalweg ", lambda _: f"{ours} ", line)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_methods_when_written_again_then_page_and_readme_are_the_same() -> None:
    assert (ROOT / "docs" / "methods.md").read_text() == methods_page(own_methods()), "run `make docs`"
    assert readme_with_table(README) == README, "run `make docs`"
    assert README.count("| `") >= len(own_methods()) >= 11


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]))
def test_page_when_it_links_to_a_file_then_the_file_is_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_choosing_a_method_when_it_cites_numbers_then_they_are_those_of_the_results_page() -> None:
    """Every cell with an interval must stand in the row of the same method on the page that the bench wrote."""
    results = (ROOT / "docs" / "faithfulness_results.md").read_text().split("\n## ")[1]
    cited = 0
    for line in (ROOT / "docs" / "choosing_a_method.md").read_text().splitlines():
        match = re.match(r"\| \**`(\w+)`\** \|", line)
        if match is None:
            continue
        row = next(row for row in results.splitlines() if row.startswith(f"| `{match[1]}` |")).replace("*", "")
        for cell in re.findall(r"-?\d\.\d+ \[[^]]+\]", line):
            assert cell in row, (match[1], cell)
            cited += 1
    assert cited == 30
