"""Opens the results of a study from a folder or a W&B server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.data.results import Results
from analysis.readers.results import read_records, read_server, read_wandb_files
from analysis.readers.wandb_server import PREFIX, ProjectAddress
from trainables.utils.errors import UserError


@contextmanager
def open_results(source: str, study: str | None = None, cache: Path | None = None) -> Iterator[Results]:
    """Open a study; its files are available within the context.

    Args:
        source: a study's folder, its wandb folder, or wandb:ENTITY/PROJECT.
        study: name of the study, if the project on the server contains several.
        cache: folder for scores from a server. If None, they are removed at the end.

    Raises:
        UserError: if there is no such study, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    if source.startswith(PREFIX):
        with read_server(source, study, cache) as results:
            yield results
    elif study or cache:
        raise UserError("--study" if study else "--cache", f"used with the folder {source}", f"{PREFIX}ENTITY/PROJECT")
    else:
        yield read_folder(Path(source))


def read_folder(folder: Path) -> Results:
    """Read a study from its records, or, if the folder has none, from its offline W&B files.

    The records are complete, while the W&B files may lack the latest runs.

    Raises:
        UserError: if the folder contains no study, or a file is damaged.
    """
    has_records = (folder / "plan.json").is_file() and (folder / "runs").is_dir()
    return read_records(folder) if has_records else read_wandb_files(folder)


def default_output_folder(source: str) -> Path:
    """Return the default folder of the report: inside the source folder, or ./report-PROJECT."""
    return (
        Path(f"report-{ProjectAddress.parse(source).project}") if source.startswith(PREFIX) else Path(source, "report")
    )
