"""With the packages of the base alone the analysis works, and what trains says in one line what to install."""

import os
import pkgutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import analysis
import records
from analysis.readers.study_reader import read_records
from analysis.report import write_report

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TRAINING = ("study.run", "study.sync", "study.export", "study.rerank", "study.dashboard")
INSTALL = 'source .venv/bin/activate, or pip install ".[train]"'


def find_needed(requirements: list[str]) -> set[str]:
    """The distributions that these requirements bring, without extras."""
    found, left = set[str](), list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            left += distribution(name).requires or []
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the base, and no others."""
    folder = tmp_path_factory.mktemp("base")
    for name in find_needed(PROJECT["dependencies"]):
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            (folder / top).symlink_to(Path(str(package.locate_file(top))))
    return folder


def run(base: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs Python without its installed packages (-S), with those of the base and this repository."""
    variables = os.environ | {"PYTHONPATH": f"{base}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False)


def test_every_module_of_the_analysis_is_imported(base: Path) -> None:
    found = [
        module.name
        for package in (analysis, records)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    assert len(found) > 50
    result = run(base, "-c", f"import {', '.join(found)}")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("command", TRAINING)
def test_a_command_that_trains_says_what_to_install(base: Path, command: str) -> None:
    result = run(base, "-m", command, "--help")
    assert (result.returncode, result.stdout) == (2, "")
    expected = f"expected the environment of the project: {INSTALL}"
    assert result.stderr == f"{command}: {sys.executable} has no package torch; {expected}\n"


def test_the_interface_for_scripts_says_what_to_install(base: Path) -> None:
    result = run(base, "-c", "from study import api")
    error = f"ModuleNotFoundError: study.api: {sys.executable} has no package torch; "
    assert result.stderr.splitlines()[-1] == f"{error}expected the environment of the project: {INSTALL}"


@pytest.mark.parametrize(("script", "target"), PROJECT["scripts"].items())
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_console_script_is_its_command(base: Path, script: str, target: str, is_whole: bool) -> None:
    """With all packages its help has the name of the script; with the base alone it is told what to install."""
    module, function = target.split(":")
    call = f"from {module} import {function}; {function}()"
    assert callable(getattr(import_module(module), function))
    if is_whole:
        command = {"ranker-study": "study.run", "compare-runs": "analysis.compare"}[script]
        texts = [
            subprocess.run([sys.executable, *started, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
            for started in (("-c", call), ("-m", command))
        ]
        assert texts[0].stdout.startswith(f"usage: {script} ")
        assert texts[0].stdout.split() == texts[1].stdout.replace(f"python -m {command}", script).split()
        wrong = subprocess.run([sys.executable, "-c", call, "--unknown"], cwd=ROOT, capture_output=True, text=True)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert wrong.stderr.startswith(f"{script}: ")
    else:
        result = run(base, "-c", call, *(["examples/scores.csv"] if script == "compare-runs" else []))
        assert result.returncode == (0 if script == "compare-runs" else 2)
        assert result.stderr.count("\n") == result.returncode // 2
        assert result.stderr.startswith(f"{script}: " * (script == "ranker-study"))


def test_a_report_lacks_the_file_of_optuna_alone(base: Path, study: Path, tmp_path: Path) -> None:
    whole = write_report(read_records(study), tmp_path / "whole")
    result = run(base, "-m", "analysis.report", str(study), "--output", str(tmp_path / "base"))
    assert (result.returncode, result.stderr) == (0, "")
    assert 'no optuna.db, which needs Optuna: pip install ".[train]"' in result.stdout
    names = {path.name for path in (tmp_path / "base").iterdir()}
    assert names == {*whole.files} - {"optuna.db"}
    for name in names:
        assert (tmp_path / "base" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_reading_from_wandb_says_what_to_install(base: Path, study: Path) -> None:
    for source, where in (("wandb:team/rankers", "W&B"), (str(study / "wandb"), str(study))):
        result = run(base, "-m", "analysis.report", source)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.startswith(f"analysis.report: {where}")
        assert result.stderr.endswith('the package wandb is not installed; expected `pip install ".[train]"`\n')
