"""One synthetic study with a search and queries, written once: its records, and the same through the W&B client."""

import shutil
from pathlib import Path

import pytest

from tests.analysis.builders import SETTINGS, STATISTICS, plan_of, queries_of, study_runs, write_records
from tests.analysis.logged import write_wandb
from tests.analysis.searching import told
from tests.conftest import Share


@pytest.fixture(scope="session")
def written(share: Share) -> Path:
    pytest.importorskip("wandb")
    return share("written", write_study)


def write_study(place: Path) -> Path:
    folder = place / "study"
    runs = study_runs(seeds=(1, 2), grid=False)
    plan = plan_of(runs, seeds=[1, 2], pruning="race", settings=SETTINGS)
    search = told(runs)
    write_records(folder, plan, runs, search, queries=queries_of(), statistics=STATISTICS)
    write_wandb(folder, plan, runs, search=search, queries=queries_of(), statistics=STATISTICS)
    return folder


@pytest.fixture
def study(written: Path, tmp_path: Path) -> Path:
    """A copy of the study that a test may damage."""
    return Path(shutil.copytree(written, tmp_path / "study", symlinks=True))
