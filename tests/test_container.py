"""The Dockerfile keeps to a linter's rules and copies what the project needs; test_distribution.py runs its steps."""

import subprocess
import sys
from pathlib import Path

from tests.container import ROOT, copy_context, read_steps


def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([linter, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_image_has_the_locked_versions_and_a_user_without_rights() -> None:
    installs = [step for step in read_steps("RUN") if step.startswith("pip install")]
    assert "-r requirements.lock -c requirements-test.lock" in installs[0]
    assert all("--no-cache-dir" in step for step in installs)
    assert "--no-deps" in installs[-1]
    assert read_steps("USER") == ["1000"]


def test_the_files_that_are_sent_are_those_of_the_packages(tmp_path: Path) -> None:
    copy_context(tmp_path)
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {
        *("analysis", "records", "search_spaces", "study", "trainables"),
        *("LICENSE", "README.md", "pyproject.toml", "requirements.lock", "requirements-test.lock"),
    }
    assert not [*tmp_path.rglob("*.pyc")]
