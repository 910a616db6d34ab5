"""The command that saves a study's dashboard: without a server, at one, and with a user's mistakes."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wandb
import wandb_workspaces.workspaces as ws
from wandb.errors import AuthenticationError
from wandb.proto.wandb_api_pb2 import ApiErrorResponse
from wandb.sdk.lib.service.service_connection import WandbApiFailedError

from study.config.loader import load_study
from study.wandb_workspace.workspace import as_json, build_workspace, save_workspace
from tests.study.command import called, light
from trainables.utils.errors import UserError


def _command(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return called(folder, "-m", "study.dashboard", *arguments, HOME=str(folder), **changes)


def test_json_needs_neither_server_nor_key_and_is_the_same_in_every_process(tmp_path):
    written = _command(tmp_path, "quick", "--json", "board.json", PYTHONHASHSEED="1")
    assert (written.returncode, written.stdout) == (0, ""), written.stderr
    printed = _command(tmp_path, "--json", "-", PYTHONHASHSEED="2", WANDB_MODE="disabled")
    assert printed.stdout == (tmp_path / "board.json").read_text(encoding="utf-8")
    assert json.loads(printed.stdout)["displayName"] == "Study quick"
    assert str(tmp_path) not in printed.stdout


def test_without_a_key_it_says_what_needs_none(tmp_path):
    result = _command(tmp_path, "quick")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert result.stderr.startswith("study.dashboard: ")
    for part in ("W&B", "No API key", "--json FILE", "expected"):
        assert part in result.stderr


def test_help_and_import_are_light(tmp_path):
    more = ("wandb_workspaces", "numpy", "pandas")
    assert light(tmp_path, "--help", module="study.dashboard", more=more).stderr == ""


class _Server:
    """A W&B server of one project that answers what the client asks about views."""

    app_url = "http://127.0.0.1/"

    def __init__(self) -> None:
        self.views: dict[str, dict[str, Any]] = {}

    def execute_graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "mutation UpsertView2" in query:
            key = variables.get("id") or f"view-{len(self.views)}"
            self.views[key] = {**variables, "id": key}
            return {"upsertView": {"view": self.views[key], "inserted": "id" not in variables}}
        found = [view for view in self.views.values() if view["name"] == variables["viewName"]]
        return {"project": {"allViews": {"edges": [{"node": view} for view in found]}}}


@pytest.fixture
def server(monkeypatch):
    made = _Server()

    def find_project(name: str, entity: str) -> Any:
        if (name, entity) != ("quick", "team"):
            raise ValueError(f"Project {name} not found")
        return SimpleNamespace(id="project")

    api = SimpleNamespace(default_entity="team", _service_api=made, project=find_project)
    monkeypatch.setattr(wandb, "Api", lambda: api)
    return made


def test_saved_again_it_replaces_what_was_saved_before(server):
    first = save_workspace(load_study("quick"))
    again = save_workspace(load_study("quick", ['variants=["BERT", "LS"]']))
    assert first == again
    assert first.startswith("http://127.0.0.1/team/quick?nw=")
    (view,) = server.views.values()
    assert "T-WSLS" not in view["spec"]
    assert save_workspace(load_study("quick", ["name=other", "tracking.project=quick"])) != first
    assert len(server.views) == 2


def test_what_is_saved_is_what_the_json_says(server):
    url = save_workspace(load_study("quick"), "team")
    (view,) = server.views.values()
    loaded = as_json(ws.Workspace.from_url(url))
    assert loaded == as_json(build_workspace(load_study("quick"), "team")) | {"id": view["id"]}


@pytest.mark.parametrize(("status", "expected"), [(401, UserError), (403, UserError), (0, AuthenticationError)])
def test_a_key_that_is_an_error_is_a_mistake_and_a_silent_server_is_not(monkeypatch, status, expected):
    def refuse() -> None:
        response = ApiErrorResponse(http_status=status)
        raise AuthenticationError("not verified") from WandbApiFailedError("failed", response)

    monkeypatch.setattr(wandb, "Api", refuse)
    with pytest.raises(expected, match="not verified"):
        save_workspace(load_study("quick"))


def test_a_project_that_is_not_there_is_a_mistake(server):
    with pytest.raises(UserError, match="W&B project someone/quick: not found; expected a project that runs"):
        save_workspace(load_study("quick"), "someone")
    assert not server.views
