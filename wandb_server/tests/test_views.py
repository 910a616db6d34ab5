"""Workspaces saved and loaded by wandb-workspaces."""

from pathlib import Path

import pytest

from wandb_server import Server, client

pytest.importorskip("wandb_workspaces")
SAVE = """
import wandb_workspaces.workspaces as ws
import wandb_workspaces.reports.v2 as wr
panels = [wr.LinePlot(x="instances", y=["dev/R10@1"])]
made = ws.Workspace(entity="laboratory", project="views", name="Study", sections=[ws.Section(name="s", panels=panels)])
made.save()
loaded = ws.Workspace.from_url(made.url)
loaded.name = "Renamed"
loaded.save()
print(loaded.name, [section.name for section in loaded.sections])
"""


def test_a_workspace_is_saved_and_loaded(server: Server, tmp_path: Path):
    assert client.run(server, tmp_path, *client.script(SAVE)).splitlines()[-1] == "Renamed ['s']"
    (view,) = server.views("views")
    assert (view.name, view.type) == ("Renamed", "project-view")
    assert "dev/R10@1" in str(view.spec["section"])
