"""A study's dashboard as a W&B workspace: built from its settings alone, written as JSON or saved at a server.

Its name within the project and the ids of its panels follow from the study's name. So the same study gives the same
JSON, and a study that is saved again replaces its workspace, from whatever machine.
"""

from typing import Any, get_args

import wandb
import wandb_workspaces.workspaces as ws
from wandb.errors import AuthenticationError, UsageError

from study.config.schema import Study
from study.config.systems import get_systems
from study.scheduling.trials import Role
from study.wandb_workspace import names
from study.wandb_workspace.panels import MAX_RUNS, build_sections
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json


def build_workspace(study: Study, entity: str = "") -> ws.Workspace:
    """The study's dashboard.

    Args:
        study: its project, name, metric, variants and search decide what is shown.
        entity: user or team that the project belongs to.
    """
    workspace = ws.Workspace(
        entity=entity,
        project=study.project,
        name=f"Study {study.name}",
        sections=build_sections(study),
        settings=ws.WorkspaceSettings(x_axis=names.INSTANCES, max_runs=MAX_RUNS),
        runset_settings=_build_run_set(study),
    )
    workspace._internal_name = f"nw-{_make_id(study, 'workspace')[:11]}-v"  # as W&B forms the names of saved views
    workspace._internal_runset_id = _make_id(study, "run set")
    for section in workspace.sections:
        panels: list[Any] = [*section.panels]
        for place, panel in enumerate(panels):
            panel._id = _make_id(study, section.name, place)
    return workspace


def as_json(workspace: ws.Workspace) -> dict[str, Any]:
    """As W&B stores it."""
    model: dict[str, Any] = workspace._to_model().model_dump(mode="json", by_alias=True, exclude_none=True)
    return model


def save_workspace(study: Study, entity: str | None = None) -> str:
    """Saves the study's dashboard at the W&B server, in place of the one that was saved before; returns its URL.

    Args:
        study: whose project must exist there.
        entity: user or team that the project belongs to; none: the default one of whoever's key it is.

    Raises:
        UserError: there is no key, the server refuses it, or it has no such project.
    """
    try:
        api = wandb.Api()
    except (UsageError, AuthenticationError) as error:
        if _is_server_failure(error):
            raise
        raise UserError(
            "W&B", str(error).rstrip("."), "a key that the server takes, or --json FILE, which needs none"
        ) from error
    owner = entity or api.default_entity
    if not owner:
        raise UserError("tracking.entity", "none, and the key has no default", "the user or team of the project")
    try:
        _ = api.project(study.project, owner).id
    except ValueError as error:
        expected = "a project that runs were logged to, with tracking.mode=online or wandb sync"
        raise UserError(f"W&B project {owner}/{study.project}", "not found", expected) from error
    workspace: Any = build_workspace(study, owner)
    workspace._internal_id = _find_saved_id(workspace.url)
    url: str = workspace.save().url
    return url


def _find_saved_id(url: str) -> str:
    """The server's id of the workspace there; empty if there is none."""
    try:
        workspace_id: str = ws.Workspace.from_url(url)._internal_id
    except ValueError:
        return ""
    return workspace_id


def _is_server_failure(error: Exception) -> bool:
    """Whether it was the server that failed, and not the key."""
    response = getattr(error.__cause__, "response", None)
    return error.__cause__ is not None and getattr(response, "http_status", 0) not in (401, 403)


def _build_run_set(study: Study) -> ws.RunsetSettings:
    """The trained runs of this study and its report's run, those that failed first, then the latest.

    The systems that are not trained have epsilon 0 as the baseline has: without them, epsilon 0 is the baseline. The
    runs of the plan, of the search's log and of a sweep's agent have no role.
    """
    roles = [name for name in get_args(Role) if name != "scorer"]
    trained = ws.And(ws.Config(names.ROLE).isin(roles), ws.Config(names.VARIANT).isin([*get_systems(study)]))
    report = ws.Metric("JobType") == names.REPORT
    pinned = (names.VARIANT, study.study_type.strength_name, names.SWITCH, names.SEED)
    shown = [f"config:{name}.value" for name in pinned]
    score = names.get_dev_metric_key(study.analysis.metric)
    return ws.RunsetSettings(
        filters=ws.And(ws.Config(names.STUDY) == study.name, ws.Or(trained, report)),
        order=[ws.Ordering(ws.Metric("State")), ws.Ordering(ws.Metric("CreatedTimestamp"), ascending=False)],
        pinned_columns=["run:displayName", "run:state", f"summary:{names.ERROR}", *shown, f"summary:{score}"],
    )


def _make_id(study: Study, *about: Any) -> str:
    """What the library would draw at random, as long."""
    return hash_json([study.name, *about])[:12]
