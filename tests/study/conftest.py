"""A W&B server for the tests of a module, and a study's folder that is written to it."""

import os

import pytest

from study.tracking import Tracking
from tests.study.mirrors import PLAN
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json
from wandb_server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def tracking(server, tmp_path, monkeypatch):
    """Tracks to a project of the test's own."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    at_once = {"WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "1"}  # seconds; the client sends rows every 15 s otherwise
    for name, value in (server.environment() | at_once).items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "the study's folder"
    write_json(folder / "plan.json", {"plan": PLAN, "hash": hash_json(PLAN)})
    yield Tracking(mode="online", project=tmp_path.name, folder=folder)
    server.heal()
