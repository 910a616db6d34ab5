"""Models reach the hub and W&B as they are in their folder; a place that refuses them is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wandb

from analysis.readers.results import read_records
from analysis.tables.main import build_report_data
from study.models.chosen import list_chosen_runs
from study.models.upload import check_repository, check_tracking, log_artifacts
from study.plan.analysis_plan import register_plan
from study.tracking import WandbLogger
from tests.study.models.hub import KEY, serve_hub
from tests.study.small import conduct, scheduler, study
from trainables.utils.errors import MachineError, UserError

SCRIPT = """
import sys
from pathlib import Path
from study.models.upload import check_repository, push_to_hub
from trainables.utils.cli import report_errors

def run():
    check_repository(sys.argv[2])
    print(push_to_hub(Path(sys.argv[1]), sys.argv[2]))

sys.exit(report_errors("study.export", run))
"""


@pytest.fixture(scope="module")
def hub():
    with serve_hub() as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    """A folder with a card, a binary file and a folder below it."""
    (tmp_path / "model" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "model" / "README.md").write_text("---\nlibrary_name: sentence-transformers\n---\n# A model\n")
    (tmp_path / "model" / "model.safetensors").write_bytes(bytes(range(256)))
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text("{}")
    return tmp_path / "model"


def push(folder: Path, url: str, key: str | None, name: str = "me/ranker") -> subprocess.CompletedProcess[str]:
    """In a process of its own, since the library reads the address of the hub once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    given = {"HF_ENDPOINT": url, "HF_HOME": str(folder.parent / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    given |= {"HF_TOKEN": key} if key else {}
    command = [sys.executable, "-c", SCRIPT, str(folder), name]
    return subprocess.run(command, capture_output=True, text=True, env=kept | given, timeout=120, check=False)


def test_the_folder_is_in_a_private_repository(hub, folder):
    result = push(folder, hub.url, KEY)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{hub.url}/me/ranker\n"
    assert hub.repositories["me/ranker"]["visibility"] == "private"
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert hub.files["me/ranker"] == files


@pytest.mark.parametrize(
    ("key", "url", "status", "message"),
    [
        (None, None, 2, "--push: no key of the Hugging Face hub; expected HF_TOKEN in the environment, or `hf auth"),
        ("hf_wrong", None, 1, "but not in the repository me/ranker: "),
        (KEY, "http://127.0.0.1:9", 1, "the model is in"),
    ],
)
def test_a_key_that_is_missing_or_wrong_and_a_hub_that_is_away_are_one_line(hub, folder, key, url, status, message):
    result = push(folder, url or hub.url, key)
    assert result.returncode == status
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "hf_wrong" not in result.stderr


@pytest.mark.parametrize("name", ["ranker", "me/my/ranker", "me/", "me/a b"])
def test_the_name_of_a_repository_has_two_parts(name):
    with pytest.raises(UserError, match=r"--push: .*; expected a repository as OWNER/NAME"):
        check_repository(name)


def test_an_artifact_belongs_to_the_run_that_trained_the_model(world, fresh, server, tracking, folder):
    wandb.teardown()  # an earlier test of this process may have talked to another server
    changes = {"seeds": [1], "variants": ["BERT", "LS"], "search": {"epsilon": [0.2], "n_configurations": {"LS": 1}}}
    settings = {"mode": "online", "project": tracking.project}
    made = study(world, tracking.folder, fresh(), **changes, tracking=settings)
    (tracking.folder / "plan.json").unlink()
    begun = scheduler(world, made)
    register_plan(made, begun.resolved.model_digest, made.folder)
    conduct(begun)
    (run,) = list_chosen_runs(made, build_report_data(read_records(made.folder)), "LS")
    other = run._replace(specification=run.specification.model_copy(update={"seed": 9}))
    with pytest.raises(MachineError, match="but not in W&B"):
        log_artifacts(made, [other], [folder])  # the server does not have this run
    logger = WandbLogger(tracking, print)
    logger.log_evaluation(run.specification.id, "dev")
    assert logger.flush(), logger.failure_reason
    logger.close()
    name = log_artifacts(made, [run], [folder])
    assert name == f"model-{run.specification.id}"
    logged = wandb.Api().run(f"{server.entity}/{made.project}/{run.specification.id}")
    (artifact,) = [each for each in logged.logged_artifacts() if each.type == "model"]
    assert artifact.name == f"{name}:v0"
    place = Path(artifact.download(str(folder.parent / "down")))
    assert (place / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    offline = made.model_copy(update={"tracking": made.tracking.model_copy(update={"mode": "offline"})})
    with pytest.raises(UserError, match=r"--wandb: tracking\.mode is offline"):
        check_tracking(offline)
