"""Opens the results of a study from a folder or a W&B server and adds missing runs from run records."""

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
    """Open a study; its files are available within the context.

    Args:
        source: a study's folder, its wandb folder, or wandb:ENTITY/PROJECT.
        study: name of the study, if the project on the server contains several.
        records: a study's folder with run records, for what W&B lacks.
        cache: folder for scores from a server. If None, they are removed at the end.
        log: called with a line that says what was taken from the records.

    Yields:
        The results of the study.

    Raises:
        UserError: if there is no such study, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    if source.startswith(PREFIX):
        known = read_records(records) if records else None
        with read_server(source, study or (known.plan.study if known else None), cache) as results:
            yield results if known is None or records is None else _merge_records(results, known, records, log)
    elif study or cache:
        raise UserError("--study" if study else "--cache", f"used with the folder {source}", f"{PREFIX}ENTITY/PROJECT")
    else:
        yield load_results(Path(source), records, log)


def load_results(folder: Path, records: Path | None = None, log: LogFunction = print) -> Results:
    """Load a study from its W&B files, with missing runs from its records.

    Without W&B files, load it from its records.
    """
    has_records = (folder / "plan.json").is_file() and (folder / "runs").is_dir()
    has_wandb = any(folder.glob("wandb/offline-run-*")) or any(folder.glob("offline-run-*"))
    results = read_records(folder) if has_records and not has_wandb else read_wandb_files(folder)
    records_folder = records or (folder if has_records and has_wandb else None)
    return (
        results
        if records_folder is None
        else _merge_records(results, read_records(records_folder), records_folder, log)
    )


def _merge_records(results: Results, records: Results, place: Path, log: LogFunction) -> Results:
    completed = complete(results, records)
    if completed.taken:
        log(completed.line(place))
    return completed.results


def default_output_folder(source: str) -> Path:
    """Return the default folder of the report: inside the source folder, or ./report-PROJECT."""
    return (
        Path(f"report-{ProjectAddress.parse(source).project}") if source.startswith(PREFIX) else Path(source, "report")
    )
