"""One synthetic study, written once: its records, and its runs through the real W&B client."""

import shutil
from pathlib import Path

import pytest

from tests.analysis.builders import plan_of, study_runs, write_records, write_wandb


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("written") / "study"
    runs = study_runs(seeds=(1, 2), grid=False)
    plan = plan_of(runs, seeds=[1, 2])
    write_records(folder, plan, runs)
    write_wandb(folder, plan, runs)
    return folder


@pytest.fixture
def study(written: Path, tmp_path: Path) -> Path:
    """A copy of the study that a test may damage."""
    return Path(shutil.copytree(written, tmp_path / "study", symlinks=True))
