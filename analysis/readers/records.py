"""Reads the run records of a study: runs/<id>/ with record.json, history.json, test.json and scores."""

from functools import partial
from pathlib import Path

from analysis.data.recorded_run import Run
from records.json_files import read_intact_object
from records.run_record import (
    SPLITS,
    get_marker_name,
    get_run_folder,
    get_scores_path,
    get_settings,
    get_summary,
    read_history,
    read_run_record,
)
from trainables.utils.errors import UserError


def read_recorded_runs(folder: Path) -> list[Run]:
    """Read the runs that ended from a study's folder, in order of id.

    Raises:
        UserError: if a record cannot be read, or its scores are missing.
    """
    return [_read_run(folder, path.parent.name) for path in sorted((folder / "runs").glob("*/record.json"))]


def _read_run(folder: Path, run_id: str) -> Run:
    records = {split: record for split in SPLITS if (record := read_run_record(folder, run_id, split))}
    summary, files = {"state": records["dev"]["state"]}, dict[str, Path]()
    for split, record in records.items():
        summary |= get_summary(record, split)
        if record["state"] == "finished":
            files[split] = get_scores_path(folder, run_id, split)
            if not files[split].is_file():
                expected = "the scores that belong to its record; rerun the study to recreate them"
                raise UserError(str(files[split]), "no such file", expected)
    curve = partial(read_history, folder, run_id)
    return Run(run_id, get_settings(records["dev"]), summary, curve, files, _read_wandb_url(folder, run_id))


def _read_wandb_url(folder: Path, run_id: str) -> str | None:
    """Return the address of the run that the study recorded when it logged the run.

    It is a link and no result, so a missing or damaged file costs the link alone; the study writes the file again.
    """
    url = read_intact_object(get_run_folder(folder, run_id) / get_marker_name("dev")).get("url")
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None
