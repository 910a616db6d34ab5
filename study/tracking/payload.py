"""What a W&B run holds, read from the study's folder."""

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from analysis.data import query_attributes as queries
from analysis.readers.wandb_offline import PROVENANCE
from study.records import run_record as record
from study.records import search_log as searchlog
from study.records.plan_file import NAME, read_plan
from study.records.run_name import run_name
from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import digest

Document = Literal["plan", "search", "queries", "report"]
DOCUMENTS: tuple[Document, ...] = get_args(Document)
FINDINGS = Path("report", "findings.json")
"""What the report found, in the study's folder."""


PROJECT = Path("wandb", ".project.json")
"""Which project the study belongs to, in the study's folder."""


class Content(NamedTuple):
    """A W&B run, whole.

    Attributes:
        rows: the curve, one row a batch or evaluation, in the order of training.
        files: artifacts by name, each one file in the study's folder; the name begins with the artifact's type.
        of: what of it there is to be noted: the state of an evaluation, the digest of a document.
    """

    id: str
    name: str
    group: str | None
    kind: str
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    files: dict[str, Path]
    of: str

    @property
    def failed(self) -> bool:
        """Whether the run came to nothing."""
        return self.summary.get("state") == "failed"


def project_of(folder: Path) -> tuple[str, str | None]:
    """The project of a study that was run, and whose it is, as far as that was said."""
    try:
        told = read_json(folder / PROJECT)
        return told["project"], told["entity"]
    except FileNotFoundError:  # it was never mirrored
        return read_plan(folder / NAME)["study"], None
    except (ValueError, KeyError, TypeError) as error:
        found, expected = "damaged", "the file as the study wrote it; the same study run again makes it anew"
        raise UserError(str(folder / PROJECT), found, expected) from error


def begun(labels: dict[str, Any]) -> Content:
    """A run that trains: what is known of it before there is a record."""
    run_id, group = labels["specification_id"], labels["configuration_id"]
    return Content(run_id, run_name(labels), group, labels["role"], labels, [], {}, {}, "running")


def evaluation(folder: Path, run_id: str, split: record.Split) -> Content | None:
    """A run with what this evaluation adds to it; None where nothing is recorded. The summary is that of the whole run:
    of several sessions of a run W&B keeps the last one's."""
    main = record.read(folder, run_id)
    entry = main if split == "dev" else record.read(folder, run_id, split)
    if main is None or entry is None:
        return None
    config = main["config"] | {key: main[key] for key in PROVENANCE if key in main}
    curve = record.history(folder, run_id)
    last = {key: value for row in curve for key, value in row.items()}  # as W&B itself adds them
    scores = record.scores_file(folder, run_id, split).relative_to(folder)
    return begun(main["config"])._replace(
        config=config,
        rows=curve if split == "dev" else [],
        summary=last | main["summary"] | _own(entry, split),
        files={f"scores-{split}-{run_id}": scores} if entry["state"] == "finished" else {},
        of=entry["state"],
    )


def _own(entry: dict[str, Any], split: record.Split) -> dict[str, Any]:
    """The summary of an evaluation; that the test failed takes nothing from what training has found."""
    if split == "dev" or entry["state"] == "finished":
        summary: dict[str, Any] = entry["summary"]
        return summary
    return {f"test/{key}": value for key, value in entry["summary"].items() if key in ("state", "error")}


def document(folder: Path, which: Document) -> Content | None:
    """What W&B holds beside runs of the table; None where the study has it not yet."""
    declared = read_plan(folder / NAME)
    plan_hash, summary = digest(declared), {"state": "finished"}
    config: dict[str, Any] = {"study": declared["study"], "plan_hash": plan_hash}
    files: dict[str, Path] = {}
    if which == "plan":
        config["plan"], summary = declared, {}
    elif which == "search":
        found = searchlog.read(folder)
        if not found:
            return None
        config["search"] = {"systems": found}
    elif which == "queries":
        if not (folder / queries.FILE).is_file():
            return None
        summary |= {queries.SHA256: queries.digest_of(folder / queries.FILE)}
        files = {f"queries-{plan_hash}": Path(queries.FILE)}
    else:
        if not (folder / FINDINGS).is_file():
            return None
        try:
            summary |= read_json(folder / FINDINGS)
        except ValueError:
            return None
    of = digest([config, summary])
    return Content(f"{which}-{plan_hash}", which, None, which, config, [], summary, files, of)
