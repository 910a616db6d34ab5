"""Every example data set can be prepared, and its study runs to the report."""

import re
from pathlib import Path

import pytest

from study.config.loader import load_study
from study.run import main
from tests.study.command import called, comparisons

ROOT = Path(__file__).parents[2]
FOLDER = Path("examples") / "own_text"
NAMES = ["beir", "dialogues", "hard-negatives", "msmarco", "qqp", "sentences"]
LONGEST = 25


def write_places(place: Path) -> list[str]:
    return [f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]


@pytest.fixture(autouse=True)
def top(monkeypatch):
    """The folder to which the paths in the study files are relative."""
    monkeypatch.chdir(ROOT)


def test_every_format_has_an_example():
    assert sorted(path.parent.name for path in FOLDER.glob("*/study.toml")) == sorted([*NAMES, "irds"])


@pytest.mark.parametrize("name", [*NAMES, "irds"])
def test_a_study_file_is_short_and_begins_with_what_it_is_for(name):
    lines = (FOLDER / name / "study.toml").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert len(lines) <= LONGEST
    assert load_study(str(FOLDER / name / "study.toml")).name == f"own-{name}"


@pytest.mark.parametrize("name", NAMES)
def test_the_data_can_be_prepared_and_every_split_has_queries(name, tmp_path, capsys):
    assert main([str(FOLDER / name / "study.toml"), "--prepare", *write_places(tmp_path)]) == 0
    out = capsys.readouterr().out
    if name == "sentences":
        counts = re.findall(r"^(?:task sentences, .*, |dev: |test: )(\d+) (?:sentences|pairs)", out, re.MULTILINE)
    else:
        counts = re.findall(r"^(?:train|dev|test) +(\d+)", out, re.MULTILINE)
    assert len(counts) == 3
    assert all(int(count) >= 3 for count in counts)
    assert not (tmp_path / "study").exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_study_of_it_runs_to_its_report(name, tmp_path):
    words = ["-m", "study.run", str(FOLDER / name / "study.toml"), *write_places(tmp_path)]
    result = called(ROOT, *words, timeout=800)
    assert result.returncode == 0, result.stdout + result.stderr
    report = tmp_path / "study" / "report"
    assert (report / "report.html").is_file()
    assert {row["baseline"] for row in comparisons(report)} >= {"cosine"}
