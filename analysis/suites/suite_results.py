"""Reads the results of a suite: from its folder, or from its projects on a W&B server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from analysis.data.study_results import Results
from analysis.readers.study_reader import read_folder, read_server
from analysis.readers.wandb_project import WandbProject
from analysis.readers.wandb_server import PREFIX, Connection, ProjectAddress, connect
from records.json_files import parse_model
from records.plan_file import PLAN_FILE, SUITE_FILE, read_suite_plan
from records.suite_plan import PlannedStudy, SuitePlan
from trainables.utils.errors import UserError


@dataclass(frozen=True)
class SuiteResults:
    """The results of a suite.

    Attributes:
        studies: results of each study by key, in the order of the plan. Studies without results are absent.
        folder: folder of the suite; None if they were read from a server.
    """

    plan: SuitePlan
    plan_hash: str
    studies: dict[str, Results]
    folder: Path | None = None


def is_suite_folder(source: str) -> bool:
    """Return whether a source is the folder of a suite, and not that of one of its studies."""
    return Path(source, SUITE_FILE).is_file() and not Path(source, PLAN_FILE).is_file()


def read_suite_folder(folder: Path) -> SuiteResults:
    """Read a suite from its folder; each study from its records, or from W&B's offline files if it has none.

    Raises:
        UserError: if a file is damaged.
    """
    stored = read_suite_plan(folder / SUITE_FILE)
    plan = parse_model(SuitePlan, stored.document, f"plan of the suite in {folder / SUITE_FILE}")
    places = {study.key: folder / study.key for study in plan.studies}
    studies = {key: read_folder(place) for key, place in places.items() if _is_study(place)}
    return SuiteResults(plan, stored.hash, studies, folder)


@contextmanager
def open_suite(source: str, suite: str | None = None, cache: Path | None = None) -> Iterator[SuiteResults]:
    """Open a suite; its files are available within the context.

    Args:
        source: folder of a suite, or wandb:ENTITY/PROJECT of one of its studies.
        suite: name of the suite, if the project on the server contains several.
        cache: folder for scores from a server. If None, they are removed at the end.

    Yields:
        The results of the suite.

    Raises:
        UserError: if there is no such suite, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    if source.startswith(PREFIX):
        with _read_server(source, suite, cache) as results:
            yield results
    elif suite or cache:
        raise UserError("--suite" if suite else "--cache", f"used with the folder {source}", f"{PREFIX}ENTITY/PROJECT")
    else:
        yield read_suite_folder(Path(source))


@contextmanager
def _read_server(address: str, suite: str | None, cache: Path | None) -> Iterator[SuiteResults]:
    project_address = ProjectAddress.parse(address)
    with connect() as connection:
        found = WandbProject(connection, project_address, connection.folder).find_suites()
        if suite not in found and (suite is not None or len(found) != 1):
            known = ", ".join(found) or "none"
            raise UserError("--suite", repr(suite) if suite else "not given", f"a suite of {address}: {known}")
        document, plan_hash = found[suite or next(iter(found))]
        plan = parse_model(SuitePlan, document, f"plan of the suite in {address}")
        places = {study.key: _find_project(connection, project_address, study) for study in plan.studies}
    with ExitStack() as stack:
        studies = {}
        for study in plan.studies:
            if place := places[study.key]:
                study_cache = cache / study.key if cache else None
                studies[study.key] = stack.enter_context(read_server(str(place), study.study, study_cache))
        yield SuiteResults(plan, plan_hash, studies)


def _find_project(connection: Connection, address: ProjectAddress, study: PlannedStudy) -> ProjectAddress | None:
    """Return the project that has a study: the addressed one, or else the study's own; None if neither has it."""
    for place in dict.fromkeys((address, address._replace(project=study.project))):
        with suppress(UserError):  # a study that has not started has no project yet
            if study.study in WandbProject(connection, place, connection.folder).list_studies():
                return place
    return None


def _is_study(folder: Path) -> bool:
    """Return whether a folder has results; the plan alone is written when the suite starts."""
    return any(folder.glob("runs/*/record.json")) or any(folder.glob("wandb/offline-run-*"))
