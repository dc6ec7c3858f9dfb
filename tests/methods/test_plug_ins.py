"""Methods of third parties: packages that are really installed, by pip, into a folder of their own."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.methods import how_to

ROOT = Path(__file__).parents[2]
LIST = "import thalweg as tw; print(*tw.list_methods())"


def install(folder: Path, project: str, module: Path, entry_point: str) -> None:
    """Pack a module as a wheel with one entry point, and install it into the folder."""
    wheel = folder.parent / f"{project}-1.0-py3-none-any.whl"
    info = f"{project}-1.0.dist-info"
    files = {
        module.name: module.read_text(encoding="utf-8"),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: thalweg-tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[thalweg.methods]\n{entry_point}\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, content)
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--target", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True, timeout=300)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(folder), str(ROOT / "src"), str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, cwd=ROOT, timeout=600)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the how-to's package."""
    place = tmp_path_factory.mktemp("plug-ins")
    project = how_to.project()
    ((name, module),) = project["entry-points"]["thalweg.methods"].items()
    (place / "source").mkdir()
    folder = place / "site"
    install(folder, project["name"].replace("-", "_"), how_to.write_module(place / "source"), f"{name} = {module}")
    return folder


def test_package_when_installed_then_its_method_is_listed_and_described(installed: Path) -> None:
    done = python(installed, "-W", "error::RuntimeWarning", "-c", LIST)
    assert done.returncode == 0, done.stderr
    assert {how_to.NAME, "alti"} <= set(done.stdout.split())
    command = ("-c", "from thalweg.cli.main import main; main()", "methods")
    assert how_to.NAME in python(installed, *command).stdout
    assert "--residual" in python(installed, *command, how_to.NAME).stdout


def test_package_when_installed_then_the_contract_tests_cover_its_method(installed: Path) -> None:
    options = ("-q", "-rA", "-p", "no:cacheprovider", "-k", f"{how_to.NAME} and llama")
    done = python(installed, "-m", "pytest", "tests/contracts/test_methods.py", *options)
    assert done.returncode == 0, done.stdout
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for test in ("finite_scores", "chain_to_the_scores", "nothing_comes_from_later", "padded_batch"):
        assert any(test in line and how_to.NAME in line for line in passed), test


def test_package_when_it_cannot_be_imported_then_a_warning_names_it_and_all_other_methods_work(tmp_path: Path) -> None:
    module = tmp_path / "broken_method.py"
    module.write_text("import a_package_that_nobody_has\n")
    install(tmp_path / "site", "broken_method", module, "broken = broken_method")
    done = python(tmp_path / "site", "-c", LIST)
    assert done.returncode == 0, done.stderr
    assert "alti" in done.stdout.split()
    for fact in ("RuntimeWarning", "'broken'", "ModuleNotFoundError", "a_package_that_nobody_has"):
        assert fact in done.stderr
    command = python(tmp_path / "site", "-c", "from thalweg.cli.main import main; main()", "methods")
    assert command.returncode == 0
    assert "alti" in command.stdout


def test_package_when_it_takes_the_name_of_another_method_then_the_error_names_both_modules(tmp_path: Path) -> None:
    module = tmp_path / "my_alti.py"
    code = how_to.write_module(tmp_path).read_text(encoding="utf-8").replace(f"def {how_to.NAME}(", "def alti(")
    module.write_text(code, encoding="utf-8")
    install(tmp_path / "site", "my_alti", module, "mine = my_alti")
    done = python(tmp_path / "site", "-c", LIST)
    assert done.returncode == 1
    assert "NameClashError" in done.stderr
    command = python(tmp_path / "site", "-c", "from thalweg.cli.main import main; main()", "methods")
    assert command.returncode != 0
    for fact in ("'alti'", "thalweg.methods.alti", "my_alti"):
        assert fact in command.stderr
    assert "Traceback" not in command.stderr
