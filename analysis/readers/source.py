"""Where a study is read from: a folder, with W&B files or records in it, or a W&B server; completed from records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.data.results import Results
from analysis.readers.merge import complete
from analysis.readers.results import read_records, read_server, read_wandb_files
from analysis.readers.wandb_server import PREFIX, ProjectAddress
from trainables.utils.errors import UserError

LogFunction = Callable[[str], None]


@contextmanager
def open_results(
    source: str,
    study: str | None = None,
    records: Path | None = None,
    cache: Path | None = None,
    log: LogFunction = print,
) -> Iterator[Results]:
    """A study, for as long as it is used.

    Args:
        source: a study's folder, its wandb folder, or wandb:ENTITY/PROJECT.
        study: its name, where the project on the server holds several.
        records: a study's folder that completes what W&B lacks.
        cache: folder for scores from a server; none: they are removed at the end.
        say: told what was taken from the records.

    Raises:
        UserError: there is no such study, or something in it is damaged.
        analysis.readers.wandb_server.ServerError: the server does not answer.
    """
    if source.startswith(PREFIX):
        known = read_records(records) if records else None
        with read_server(source, study or (known.plan.study if known else None), cache) as results:
            yield results if known is None or records is None else _merge_records(results, known, records, log)
    elif study or cache:
        raise UserError("--study" if study else "--cache", f"with the folder {source}", f"{PREFIX}ENTITY/PROJECT")
    else:
        yield load_results(Path(source), records, log)


def load_results(folder: Path, records: Path | None = None, log: LogFunction = print) -> Results:
    """The study's W&B files if there are any, completed from its records; else its records alone."""
    has_records = (folder / "plan.json").is_file() and (folder / "runs").is_dir()
    has_wandb = any(folder.glob("wandb/offline-run-*")) or any(folder.glob("offline-run-*"))
    results = read_records(folder) if has_records and not has_wandb else read_wandb_files(folder)
    place = records or (folder if has_records and has_wandb else None)
    return results if place is None else _merge_records(results, read_records(place), place, log)


def _merge_records(results: Results, records: Results, place: Path, log: LogFunction) -> Results:
    completed = complete(results, records)
    if completed.taken:
        log(completed.line(place))
    return completed.results


def default_output_folder(source: str) -> Path:
    """Where the report goes unless told otherwise: into the folder, or of a project into the working folder."""
    return (
        Path(f"report-{ProjectAddress.parse(source).project}") if source.startswith(PREFIX) else Path(source, "report")
    )
