"""Writes the joint report of a suite: its tables as text, Markdown, LaTeX and one HTML page, and its data."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.export.report_folder import PAGE, stage_report
from analysis.rendering.document import Document, render_html, render_latex, render_markdown, render_text
from analysis.rendering.escaping import render_csv
from analysis.suites.comparisons import SuiteData, build_suite_data
from analysis.suites.suite_results import SuiteResults
from analysis.suites.tables import answer_suite, list_suite_folds
from analysis.tables.frames import build_runs_frame
from trainables.utils.errors import UserError


@dataclass(frozen=True)
class SuiteReport:
    """The written joint report. A notebook shows it as its tables."""

    folder: Path
    files: list[str]
    text: str
    data: SuiteData

    @property
    def runs(self) -> pd.DataFrame:
        """Metric of every finished run of all studies; see `build_suite_runs_frame`."""
        return build_suite_runs_frame(self.data)

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return render_markdown(_build_document(self.data, self.folder))


def write_suite_report(results: SuiteResults, folder: Path) -> SuiteReport:
    """Analyse a suite and write the files of the joint report, each of them completely or not at all.

    Raises:
        UserError: if no study has results, runs cannot be compared, a file is in the place of the folder, or the folder
            has no report but files with names of its files.
    """
    if not results.studies:
        raise UserError(results.plan.suite, "no study of the suite has results", "a suite that has been run")
    data = build_suite_data(results)
    document = _build_document(data, folder)
    texts = {
        "table.md": render_markdown(document),
        "table.tex": render_latex(document),
        PAGE: render_html(document),
        "comparisons.json": json.dumps(_list_comparisons(data), indent=1, allow_nan=False),
        "results.csv": render_csv(build_suite_runs_frame(data)),
    }
    with stage_report(folder) as staging:
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
    return SuiteReport(folder, sorted(texts), render_text(document, folder / PAGE), data)


def build_suite_runs_frame(data: SuiteData) -> pd.DataFrame:
    """Return the metric of every finished run: a column for each axis, then the columns of the studies' own frames.

    The column of an axis "metric" is called "metric (axis)", since the frames have a column of this name.
    """
    frames = []
    for key, report in data.reports.items():
        frame, labels = build_runs_frame(report), data.plan.get_study(key).labels
        for place, (axis, label) in enumerate(labels.items()):
            frame.insert(place, f"{axis} (axis)" if axis in frame else axis, label)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _build_document(data: SuiteData, folder: Path) -> Document:
    """Return what the joint report says.

    In its usual place, in the folder of the suite, it has links to the reports of the studies.
    """
    plan, suite_folder = data.plan, data.results.folder
    has_links = suite_folder is not None and folder.absolute().parent == suite_folder.absolute()
    return Document(
        title=f"{plan.suite}: {len(plan.studies)} studies, plan {data.results.plan_hash} version {plan.version}",
        answer=answer_suite(data),
        folds=list_suite_folds(data),
        plan=plan,
        links={key: f"../{key}/report/{PAGE}" for key in data.reports} if has_links else {},
    )


def _list_comparisons(data: SuiteData) -> list[dict[str, Any]]:
    """Return the comparisons of all studies and the averages, for JSON."""
    own = [
        {
            "kind": "study",
            "labels": data.plan.get_study(each.study).labels,
            **each.comparison.as_dict(),
            "suite": {
                "comparisons": each.comparisons,
                "interval": each.interval,
                "p": each.p,
                "equivalence_p": each.equivalence_p,
                "verdict": each.verdict,
                "is_late": each.is_late,
            },
        }
        for each in data.comparisons
    ]
    others = [axis for axis in data.plan.axes if axis != data.plan.columns]
    averages = [
        {"kind": "average", **asdict(each), "labels": dict(zip(others, each.labels, strict=True))}
        for each in data.averages
    ]
    return [*own, *averages]
