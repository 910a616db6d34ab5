"""A wheel, a source distribution and the steps of the Dockerfile install into an empty environment and work there."""

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.container import ROOT, copy_context, read_steps
from tests.study.command import SMALL, environment

STUDIES = sorted(path.stem for path in (ROOT / "study" / "studies").glob("*.toml"))
SCORES = """
import json
from study import api
rows = api.report("results/quick").systems
print(json.dumps(dict(zip(rows["system"], rows["test_mean"]))))
"""
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """A folder with a wheel and a source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, timeout=600)
    return folder


def install(folder: Path, requirement: str) -> Path:
    """Installs into a new environment in the folder, with the locked versions."""
    venv.create(folder / ".venv", with_pip=True)
    pip = [str(folder / ".venv" / "bin" / "pip"), "install", "-q", "-c", str(ROOT / "requirements.lock")]
    subprocess.run([*pip, requirement], cwd=folder, check=True, timeout=2400)
    return folder


@pytest.fixture(scope="module")
def base(distributions, tmp_path_factory):
    """A folder with an environment in which the wheel is installed, without extras."""
    (wheel,) = distributions.glob("*.whl")
    return install(tmp_path_factory.mktemp("base"), str(wheel))


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def place(request, distributions, tmp_path_factory):
    """An empty folder with an environment in which one of the two is installed, with all that trains."""
    (built,) = distributions.glob(request.param)
    return install(tmp_path_factory.mktemp("installed"), f"{built}[train]")


def run(place: Path, *arguments: str, timeout: int = 120, program: str = "python", status: int = 0, **variables) -> str:
    """Runs the installed Python, or another program of its environment, and returns what it prints."""
    result = subprocess.run(
        [str(place / ".venv" / "bin" / program), *arguments],
        cwd=place,
        env={name: value for name, value in environment(**variables).items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status == 0 else result.stderr


def test_what_is_built_is_described_as_an_index_asks(distributions):
    built = [str(path) for path in distributions.iterdir()]
    assert len(built) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built], check=True, timeout=120)


def test_the_base_compares_scores_without_what_trains(base):
    listed = run(base, "-m", "pip", "list", "--format", "freeze").lower()
    assert not {"torch", "ray", "transformers", "wandb"} & {line.split("==")[0] for line in listed.splitlines()}
    arguments = (str(ROOT / "examples" / "scores.csv"), "--baseline", "baseline")
    assert run(base, *arguments, program="compare-runs") == run(base, "-m", "analysis.compare", *arguments)
    (line,) = run(base, program="ranker-study", status=2).splitlines()
    assert "has no package torch; expected" in line


def test_help_list_and_plan_work(place):
    assert "STUDY | SUITE | KEY=VALUE" in run(place, "-m", "study.run", "--help")
    listed = run(place, "-m", "study.run", "--list")
    assert all(name in listed for name in STUDIES)
    assert "minimum detectable effect" in run(place, "-m", "study.run", "--dry-run")
    (place / "quora_duplicate_questions.tsv").touch()
    suite = run(place, "-m", "study.run", "wsls-table-2", "--study", "qqp", "--dry-run", "--json", QQP=str(place))
    assert "wsls-table-2-qqp" in suite
    assert str(ROOT) not in run(place, "-m", "pip", "list", "--format", "freeze")


def test_the_quick_study_gives_what_its_file_expects(place, base, request):
    """The whole of it from the wheel, a small one from the source distribution; the base writes the same report."""
    is_whole = "whl" in request.node.callspec.id
    if is_whole:
        printed = run(place, "quick", program="ranker-study", timeout=3000)
    else:
        printed = run(place, "-m", "study.run", "quick", *SMALL, timeout=3000)
    assert "This study can detect differences of about" in " ".join(printed.split())
    folder = place / "results" / ("quick" if is_whole else "small")
    assert (folder / "report" / "report.html").is_file()
    again = base / request.node.callspec.id
    assert "no optuna.db" in run(base, "-m", "analysis.report", str(folder), "--output", str(again))
    assert (again / "table.md").read_bytes() == (folder / "report" / "table.md").read_bytes()
    if is_whole:
        expected = tomllib.loads((ROOT / "study" / "studies" / "quick.toml").read_text("utf-8"))["expected"]
        found = json.loads(run(place, "-c", SCORES))
        assert found == pytest.approx(expected["scores"], abs=0.01)


def test_the_steps_of_the_image_install_the_study_and_the_tools_for_clusters(tmp_path):
    """Those of pip, in an environment instead of a container; torch comes from where pip looks on this machine."""
    (tmp_path / "index").mkdir()
    (tmp_path / "app").mkdir()
    copy_context(tmp_path / "app")
    venv.create(tmp_path / ".venv", with_pip=True)
    variables = environment(PATH=f"{tmp_path / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    variables.pop("PYTHONPATH", None)
    variables["PIP_EXTRA_INDEX_URL"] = (tmp_path / "index").as_uri()
    for step in filter(lambda step: step.startswith("pip"), read_steps("RUN")):
        subprocess.run(["bash", "-c", step], cwd=tmp_path / "app", env=variables, check=True, timeout=2400)
    (started,) = map(json.loads, read_steps("CMD"))
    for command in (started, ["ranker-study", "--list"], ["ray", "job", "submit", "--help"], ["pip", "check"]):
        found = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
        assert found.returncode == 0, found.stdout + found.stderr
