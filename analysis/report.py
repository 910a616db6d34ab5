"""Writes the report of a study: tables, comparisons, figures, an Optuna file and one HTML page.

    python -m analysis.report FOLDER [--output DIR]
    python -m analysis.report wandb:ENTITY/PROJECT [--study NAME | --suite NAME] [--cache FOLDER] [--output DIR]

FOLDER is the folder of a study, or a folder with only W&B's offline files. For the folder of a suite, the joint report
is written. The report of a project on a server says how many runs the server lacks;
`python -m study.sync` uploads them.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("analysis.report")

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import pandas as pd

from analysis import figures
from analysis.data.study_results import Results
from analysis.export import optuna as optuna_file
from analysis.export.report_folder import PAGE, stage_report
from analysis.readers.study_reader import open_results
from analysis.readers.wandb_server import PREFIX, ProjectAddress, ServerError
from analysis.rendering.conclusion import answer_study
from analysis.rendering.document import build_document, render_html, render_latex, render_markdown, render_text
from analysis.rendering.escaping import render_csv
from analysis.suites.suite_report import SuiteReport, write_suite_report
from analysis.suites.suite_results import is_suite_folder, open_suite
from analysis.tables.frames import build_comparisons_frame, build_runs_frame, build_scores_frame, build_systems_frame
from analysis.tables.main import ReportData, build_report_data
from trainables.utils.cli import Parser, format_error, print_escaped, report_errors
from trainables.utils.errors import UserError

_STRATA, _SCORES = "strata.csv", "scores.csv"


@dataclass(frozen=True)
class Report:
    """The written report. A notebook shows it as its tables.

    Attributes:
        text: text for the terminal: the conclusion, the main table, what was tested, and the path of the page.
        analysis: the data of the report.
    """

    folder: Path
    files: list[str]
    text: str
    analysis: ReportData

    @property
    def conclusion(self) -> str:
        """The sentence with which the report begins."""
        return answer_study(self.analysis).sentence

    @property
    def systems(self) -> pd.DataFrame:
        """Main table, one row a system; see `analysis.tables.frames.build_systems_frame`."""
        return build_systems_frame(self.analysis)

    @property
    def comparisons(self) -> pd.DataFrame:
        """Every comparison; see `analysis.tables.frames.build_comparisons_frame`."""
        return _build_comparisons_frame(self.analysis)

    @property
    def runs(self) -> pd.DataFrame:
        """Metric of the plan of every finished run; see `analysis.tables.frames.build_runs_frame`."""
        return build_runs_frame(self.analysis)

    @property
    def figures(self) -> dict[str, Path]:
        """PNG file of each figure, by name."""
        return {Path(name).stem: self.folder / name for name in self.files if name.endswith(".png")}

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return render_markdown(build_document(self.analysis))


def write_report(results: Results, folder: Path) -> Report:
    """Analyse a study and write the report's files into `folder`, each of them completely or not at all.

    Args:
        results: a study.
        folder: folder of the report; it is created.

    Raises:
        UserError: if the runs cannot be compared, a file is in the place of the folder, or the folder has no report but
            files with names of its files.
    """
    analysis = build_report_data(results)
    document = build_document(analysis)
    with stage_report(folder, [optuna_file.FILE_NAME, _STRATA, _SCORES, *figures.FIGURE_FILES]) as staging:
        names = figures.draw_figures(analysis, staging)
        texts = {
            "table.md": render_markdown(document),
            "table.tex": render_latex(document),
            "comparisons.json": json.dumps([c.as_dict() for c in analysis.comparisons], indent=1, allow_nan=False),
            "comparisons.csv": render_csv(_build_comparisons_frame(analysis)),
            "systems.csv": render_csv(build_systems_frame(analysis)),
            "results.csv": render_csv(build_runs_frame(analysis)),
            PAGE: render_html(document, {name: (staging / f"{name}.svg").read_bytes() for name in names}),
        }
        if analysis.strata:
            texts[_STRATA] = render_csv(analysis.strata.to_frame())
        scores = build_scores_frame(analysis)
        if not scores.empty:
            texts[_SCORES] = render_csv(scores)
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        if results.search is not None and find_spec("optuna"):
            optuna_file.write_optuna_file(results, staging / optuna_file.FILE_NAME)
        written = sorted(path.name for path in staging.iterdir())
    return Report(folder, written, render_text(document, folder / PAGE), analysis)


def _build_comparisons_frame(analysis: ReportData) -> pd.DataFrame:
    corrections = {family.name: family.correction for family in analysis.results.plan.families}
    return build_comparisons_frame(analysis.comparisons, corrections)


def report(
    source: str | Path,
    study: str | None = None,
    cache: Path | None = None,
    output: Path | None = None,
    suite: str | None = None,
) -> Report | SuiteReport:
    """Analyse a finished study or suite and write its report.

    Args:
        source: folder of a study or suite, or wandb:ENTITY/PROJECT.
        study: name of the study, if the project on the server contains several.
        cache: folder that keeps the scores from a server. If None, they are removed.
        output: folder of the report. If None, it is `report` in the study's folder, or ./report-PROJECT.
        suite: name of a suite in the project, for its joint report.

    Raises:
        UserError: if there is no such study, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    place = str(source)
    if output is None:
        is_project = place.startswith(PREFIX)
        output = Path(f"report-{ProjectAddress.parse(place).project}") if is_project else Path(place, "report")
    if suite is None and not is_suite_folder(place):
        with open_results(place, study, cache) as results:
            return write_report(results, output)
    if study:
        raise UserError("--study", study, "none for the joint report of a suite")
    with open_suite(place, suite, cache) as suite_results:
        return write_suite_report(suite_results, output)


def main(argv: Sequence[str] | None = None, output: TextIO | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser("analysis.report", "Tables, figures and one HTML page.")
    parser.add_argument(
        "source",
        metavar="FOLDER | wandb:ENTITY/PROJECT",
        help="a study's folder, its wandb folder, or a W&B project; wandb:PROJECT uses your default entity",
    )
    parser.add_argument("--study", metavar="NAME", help="name of the study, if the project contains several")
    parser.add_argument("--suite", metavar="NAME", help="name of a suite in the project, for its joint report")
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="keep downloaded scores in this folder (default: they are removed)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the report (default: FOLDER/report, or ./report-PROJECT)"
    )
    arguments = parser.parse_args(argv)
    return report_errors("analysis.report", lambda: _print_report(arguments, output or sys.stdout), _format_error)


def _print_report(arguments: argparse.Namespace, stream: TextIO) -> None:
    written = report(**vars(arguments))
    if isinstance(written, Report) and written.analysis.results.search and not find_spec("optuna"):
        print_escaped(f'no {optuna_file.FILE_NAME}, which needs Optuna: pip install ".[train]"\n', stream)
    print_escaped(written.text, stream)


def _format_error(error: Exception) -> str:
    return str(error) if isinstance(error, ServerError) else format_error(error)


if __name__ == "__main__":
    interruption.run_command(main)
