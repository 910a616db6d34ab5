"""Content of W&B runs, read from the study's folder."""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from records.data_statistics import STATISTICS_FILE, STATISTICS_KEY
from records.json_files import read_intact_object
from records.plan_file import PLAN_FILE, SETUP_KEY, SUITE_FILE, read_plan, read_suite_plan
from records.queries import QUERIES_FILE, SHA256_KEY
from records.run_record import Split, get_scores_path, get_settings, get_summary, read_history, read_run_record
from records.search_log import read_searches
from study.folder.run_name import format_run_name
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

Document = Literal["plan", "suite", "search", "queries", "report"]
DOCUMENTS: tuple[Document, ...] = get_args(Document)
FINDINGS_FILE = Path("report", "findings.json")
"""Findings of the report, relative to the study's folder."""
PROJECT_FILE = Path("wandb", ".project.json")
"""W&B project of the study, relative to the study's folder."""


class RunPayload(NamedTuple):
    """Complete content of a W&B run.

    Attributes:
        name: name that W&B shows.
        group: id of the configuration. None for documents.
        job_type: role of the run, or name of the document.
        rows: the learning curve, one row for each batch or evaluation, in the order of training.
        files: artifacts by name, each one file in the study's folder. The name begins with the artifact's type.
        version: what the sync state stores: the state of an evaluation, or the hash of a document.
    """

    id: str
    name: str
    group: str | None
    job_type: str
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    files: dict[str, Path]
    version: str

    @property
    def is_failed(self) -> bool:
        """True if the run failed."""
        return self.summary.get("state") == "failed"


class Project(NamedTuple):
    """W&B project of a study, and what is known of `Tracking.entity` and `Tracking.group`."""

    name: str
    entity: str | None
    group: str | None = None


def read_project(folder: Path) -> Project:
    """Return the project of a study.

    Raises:
        UserError: the file of the project is damaged.
    """
    try:
        content = read_json(folder / PROJECT_FILE)
        return Project(content["project"], content["entity"], content.get("group"))
    except FileNotFoundError:  # the study was never uploaded
        return Project(read_plan(folder / PLAN_FILE).document["study"], None)
    except (ValueError, KeyError, TypeError) as error:
        found, expected = "damaged", "the file as the study wrote it; rerun the study to create it again"
        raise UserError(str(folder / PROJECT_FILE), found, expected) from error


def make_training_payload(labels: dict[str, Any]) -> RunPayload:
    """Return what is known of a run that trains, before there is a record."""
    run_id, group = labels["specification_id"], labels["configuration_id"]
    return RunPayload(run_id, format_run_name(labels), group, labels["role"], labels, [], {}, {}, "running")


def make_evaluation_payload(folder: Path, run_id: str, split: Split) -> RunPayload | None:
    """Return the content of a run with one evaluation, or None if the evaluation is not recorded.

    The summary is that of the whole run, because W&B keeps the last one of several sessions.
    """
    main = read_run_record(folder, run_id)
    entry = main if split == "dev" else read_run_record(folder, run_id, split)
    if main is None or entry is None:
        return None
    curve = read_history(folder, run_id)
    last = {key: value for row in curve for key, value in row.items()}  # as W&B itself does
    scores = get_scores_path(folder, run_id, split).relative_to(folder)
    return make_training_payload(main["config"])._replace(
        config=get_settings(main),
        rows=curve if split == "dev" else [],
        summary=last | main["summary"] | get_summary(entry, split),
        files={f"scores-{split}-{run_id}": scores} if entry["state"] == "finished" else {},
        version=entry["state"],
    )


def make_document_payload(folder: Path, document: Document) -> RunPayload | None:
    """Return the content of a W&B run that holds a document, or None if the document does not exist yet."""
    plan, plan_hash, setup = read_plan(folder / PLAN_FILE)
    summary: dict[str, Any] = {"state": "finished"}
    config: dict[str, Any] = {"study": plan["study"], "plan_hash": plan_hash}
    files: dict[str, Path] = {}
    if document == "plan":
        config["plan"], summary = plan, {}
        if setup:
            config[SETUP_KEY] = setup
        if statistics := read_intact_object(folder / STATISTICS_FILE):
            config[STATISTICS_KEY] = statistics
    elif document == "suite":
        if not (folder / SUITE_FILE).is_file():
            return None
        config["suite"], summary = json.dumps(read_suite_plan(folder / SUITE_FILE).document), {}
    elif document == "search":
        if not (searches := read_searches(folder)):
            return None
        config["search"] = {"systems": searches}
    elif document == "queries":
        if not (folder / QUERIES_FILE).is_file():
            return None
        summary |= {SHA256_KEY: hash_file(folder / QUERIES_FILE)}
        files = {f"queries-{plan_hash}": Path(QUERIES_FILE)}
    elif findings := read_intact_object(folder / FINDINGS_FILE):
        summary |= findings
    else:
        return None
    version = hash_json([config, summary])
    return RunPayload(f"{document}-{plan_hash}", document, None, document, config, [], summary, files, version)
