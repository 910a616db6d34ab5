"""A wheel and a source distribution install into an empty environment and work there, without the repository."""

import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.study.command import SMALL, environment

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.stem for path in (ROOT / "study" / "studies").glob("*.toml"))
SCORES = """
import json
from study import api
rows = api.report("results/quick").systems
print(json.dumps(dict(zip(rows["system"], rows["test_mean"]))))
"""
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, timeout=600)
    return folder


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def place(request: pytest.FixtureRequest, distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder with an environment in which one of the two is installed, with the locked versions."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / ".venv", with_pip=True)
    (built,) = distributions.glob(request.param)
    install = [
        str(folder / ".venv" / "bin" / "pip"),
        "install",
        "-q",
        "-c",
        str(ROOT / "requirements.lock"),
        str(built),
    ]
    subprocess.run(install, cwd=folder, check=True, timeout=2400)
    return folder


def run(place: Path, *arguments: str, timeout: int = 120, **variables: str) -> str:
    """Runs the installed Python in the folder and returns what it prints."""
    result = subprocess.run(
        [str(place / ".venv" / "bin" / "python"), *arguments],
        cwd=place,
        env={name: value for name, value in environment(**variables).items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_help_list_and_plan_work(place: Path) -> None:
    assert "STUDY | SUITE | KEY=VALUE" in run(place, "-m", "study.run", "--help")
    listed = run(place, "-m", "study.run", "--list")
    assert all(name in listed for name in STUDIES)
    assert "minimum detectable effect" in run(place, "-m", "study.run", "--dry-run")
    (place / "quora_duplicate_questions.tsv").touch()
    suite = run(place, "-m", "study.run", "wsls-table-2", "--study", "qqp", "--dry-run", "--json", QQP=str(place))
    assert "wsls-table-2-qqp" in suite
    assert str(ROOT) not in run(place, "-m", "pip", "list", "--format", "freeze")


def test_the_quick_study_gives_what_its_file_expects(place: Path, request: pytest.FixtureRequest) -> None:
    """The whole of it from the wheel, at the size of the tests from the source distribution."""
    is_whole = "whl" in request.node.callspec.id
    printed = run(place, "-m", "study.run", "quick", *(() if is_whole else SMALL), timeout=3000)
    assert "minimum detectable effect" in printed
    assert (place / "results" / ("quick" if is_whole else "small") / "report" / "report.html").is_file()
    if is_whole:
        expected = tomllib.loads((ROOT / "study" / "studies" / "quick.toml").read_text("utf-8"))["expected"]
        found = json.loads(run(place, "-c", SCORES))
        assert found == pytest.approx(expected["scores"], abs=0.01)
