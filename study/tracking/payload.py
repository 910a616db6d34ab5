"""What a W&B run holds, read from the study's folder."""

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from analysis.data import query_attributes as queries
from analysis.readers.wandb_offline import PROVENANCE
from study.records import run_record as record
from study.records import search_log as searchlog
from study.records.plan_file import PLAN_FILE, read_plan
from study.records.run_name import format_run_name
from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

Document = Literal["plan", "search", "queries", "report"]
DOCUMENTS: tuple[Document, ...] = get_args(Document)
FINDINGS_FILE = Path("report", "findings.json")
"""What the report found, in the study's folder."""


PROJECT_FILE = Path("wandb", ".project.json")
"""Which project the study belongs to, in the study's folder."""


class RunPayload(NamedTuple):
    """A W&B run, whole.

    Attributes:
        rows: the curve, one row a batch or evaluation, in the order of training.
        files: artifacts by name, each one file in the study's folder; the name begins with the artifact's type.
        version: what of it there is to be noted: the state of an evaluation, the digest of a document.
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
        """Whether the run came to nothing."""
        return self.summary.get("state") == "failed"


def read_project(folder: Path) -> tuple[str, str | None]:
    """The project of a study that was run, and whose it is, as far as that was said."""
    try:
        content = read_json(folder / PROJECT_FILE)
        return content["project"], content["entity"]
    except FileNotFoundError:  # it was never mirrored
        return read_plan(folder / PLAN_FILE)["study"], None
    except (ValueError, KeyError, TypeError) as error:
        found, expected = "damaged", "the file as the study wrote it; the same study run again makes it anew"
        raise UserError(str(folder / PROJECT_FILE), found, expected) from error


def make_training_payload(labels: dict[str, Any]) -> RunPayload:
    """A run that trains: what is known of it before there is a record."""
    run_id, group = labels["specification_id"], labels["configuration_id"]
    return RunPayload(run_id, format_run_name(labels), group, labels["role"], labels, [], {}, {}, "running")


def make_evaluation_payload(folder: Path, run_id: str, split: record.Split) -> RunPayload | None:
    """A run with what this evaluation adds to it; None where nothing is recorded. The summary is that of the whole run:
    of several sessions of a run W&B keeps the last one's."""
    main = record.read_run_record(folder, run_id)
    entry = main if split == "dev" else record.read_run_record(folder, run_id, split)
    if main is None or entry is None:
        return None
    config = main["config"] | {key: main[key] for key in PROVENANCE if key in main}
    curve = record.read_history(folder, run_id)
    last = {key: value for row in curve for key, value in row.items()}  # as W&B itself adds them
    scores = record.get_scores_path(folder, run_id, split).relative_to(folder)
    return make_training_payload(main["config"])._replace(
        config=config,
        rows=curve if split == "dev" else [],
        summary=last | main["summary"] | _get_evaluation_summary(entry, split),
        files={f"scores-{split}-{run_id}": scores} if entry["state"] == "finished" else {},
        version=entry["state"],
    )


def _get_evaluation_summary(entry: dict[str, Any], split: record.Split) -> dict[str, Any]:
    """The summary of an evaluation; that the test failed takes nothing from what training has found."""
    if split == "dev" or entry["state"] == "finished":
        summary: dict[str, Any] = entry["summary"]
        return summary
    return {f"test/{key}": value for key, value in entry["summary"].items() if key in ("state", "error")}


def make_document_payload(folder: Path, document: Document) -> RunPayload | None:
    """What W&B holds beside runs of the table; None where the study has it not yet."""
    plan = read_plan(folder / PLAN_FILE)
    plan_hash, summary = hash_json(plan), {"state": "finished"}
    config: dict[str, Any] = {"study": plan["study"], "plan_hash": plan_hash}
    files: dict[str, Path] = {}
    if document == "plan":
        config["plan"], summary = plan, {}
    elif document == "search":
        searches = searchlog.read_search_log(folder)
        if not searches:
            return None
        config["search"] = {"systems": searches}
    elif document == "queries":
        if not (folder / queries.QUERIES_FILE).is_file():
            return None
        summary |= {queries.SHA256_KEY: queries.compute_sha256(folder / queries.QUERIES_FILE)}
        files = {f"queries-{plan_hash}": Path(queries.QUERIES_FILE)}
    else:
        if not (folder / FINDINGS_FILE).is_file():
            return None
        try:
            summary |= read_json(folder / FINDINGS_FILE)
        except ValueError:
            return None
    version = hash_json([config, summary])
    return RunPayload(f"{document}-{plan_hash}", document, None, document, config, [], summary, files, version)
