"""Builds a study's dashboard as a W&B workspace, from its settings alone. Saves it or returns JSON.

The name of the workspace within the project follows from the study's name. So saving it again replaces it, from any
machine. The library offers no public way to choose this name.
"""

from contextlib import suppress
from typing import Any, get_args

import wandb
import wandb_workspaces.workspaces as ws
from wandb.errors import AuthenticationError, UsageError

from study.config.schema import Study
from study.config.systems import get_systems
from study.scheduling.trials import Role
from study.wandb_workspace.panels import INSTANCES, MAX_RUNS, SWITCH, VARIANT, build_sections, get_dev_metric_key
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

STUDY, ROLE, SEED = "study", "role", "seed"
"""Further keys of a run's config."""
ERROR = "error"
"""Key of the cause of a failed run in its summary."""
REPORT = "report"
"""Job type of the report's run."""


def build_workspace(study: Study, entity: str = "") -> ws.Workspace:
    """Return the dashboard of a study as a workspace.

    Example:
        >>> from study.config.loader import load_study
        >>> build_workspace(load_study("quick")).name
        'Study quick'
    """
    workspace = ws.Workspace(
        entity=entity,
        project=study.project,
        name=f"Study {study.name}",
        sections=build_sections(study),
        settings=ws.WorkspaceSettings(x_axis=INSTANCES, max_runs=MAX_RUNS),
        runset_settings=_build_run_set(study),
    )
    name = hash_json([study.name, "workspace"])[:11]
    workspace._internal_name = f"nw-{name}-v"  # the form of W&B's names of saved views
    return workspace


def as_json(workspace: ws.Workspace) -> dict[str, Any]:
    """Return a workspace in the form in which W&B stores it, its panels numbered instead of their random ids.

    So the same study gives the same JSON.
    """
    model: dict[str, Any] = workspace._to_model().model_dump(mode="json", by_alias=True, exclude_none=True)
    sections = model["spec"]["section"]["panelBankConfig"]["sections"]
    for number, panel in enumerate(panel for section in sections for panel in section["panels"]):
        panel["__id__"] = str(number)
    return model


def save_workspace(study: Study, entity: str | None = None) -> str:
    """Save the study's dashboard on the W&B server, replacing the previous one, and return its URL.

    Raises:
        UserError: there is no API key, the server refuses it, or the project does not exist.
    """
    try:
        api = wandb.Api()
    except (UsageError, AuthenticationError) as error:
        if _is_server_failure(error):
            raise
        raise UserError(
            "W&B", str(error).rstrip("."), "an API key that the server accepts, or --json FILE, which needs none"
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
    with suppress(ValueError):  # raised if it was never saved
        workspace._internal_id = ws.Workspace.from_url(workspace.url)._internal_id
    url: str = workspace.save().url
    return url


def _is_server_failure(error: Exception) -> bool:
    """Return whether the server failed, and not the API key."""
    response = getattr(error.__cause__, "response", None)
    return error.__cause__ is not None and getattr(response, "http_status", 0) not in (401, 403)


def _build_run_set(study: Study) -> ws.RunsetSettings:
    """Return the set of runs that is shown: failed ones first, then the latest.

    It contains the trained runs of this study and its report's run.

    Systems that are not trained have epsilon 0, as the baseline has. Without them, epsilon 0 is the baseline alone. The
    W&B runs of the plan, of the searches and of a sweep's agent have no role and are left out.
    """
    roles = [name for name in get_args(Role) if name != "scorer"]
    is_trained = ws.And(ws.Config(ROLE).isin(roles), ws.Config(VARIANT).isin([*get_systems(study)]))
    is_report = ws.Metric("JobType") == REPORT
    pinned = (VARIANT, study.study_type.strength_name, SWITCH, SEED)
    shown = [*(f"config:{name}.value" for name in pinned), f"summary:{get_dev_metric_key(study)}"]
    return ws.RunsetSettings(
        filters=ws.And(ws.Config(STUDY) == study.name, ws.Or(is_trained, is_report)),
        order=[ws.Ordering(ws.Metric("State")), ws.Ordering(ws.Metric("CreatedTimestamp"), ascending=False)],
        pinned_columns=["run:displayName", "run:state", f"summary:{ERROR}", *shown],
    )
