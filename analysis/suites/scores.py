"""Tables of scores of a suite: systems by column, gains, and published beside measured scores."""

from collections.abc import Mapping
from dataclasses import replace

from analysis.data.configurations import Score, format_score
from analysis.suites.comparisons import (
    count_comparisons,
    find_common_metric,
    has_one_protocol,
)
from analysis.suites.data import SuiteData
from analysis.suites.plan import PlannedStudy, PublishedScore, SuitePlan
from analysis.tables.main import ReportData, SystemRow
from analysis.tables.marks import build_marks, format_marks_legend
from analysis.tables.section import Section
from trainables.metrics import LOWER_IS_BETTER

_NOTHING = "-"


def build_score_section(data: SuiteData, group: list[PlannedStudy], split: str) -> Section:
    """Build the systems by column, as the papers' tables have them.

    Args:
        data: the suite.
        group: studies that differ in the column only.
        split: dev or test.
    """
    plan, reports = data.plan, [data.reports.get(study.key) for study in group]
    rows = [_index_rows(report) for report in reports]
    systems, baselines = _list_systems(reports), _list_baselines(reports)
    marked = [_build_marks(data, study, split) for study in group]
    scores = {name: [_get_score(by_system.get(name), split) for by_system in rows] for name in systems}
    present = [report for report in reports if report]
    has_average = len(group) > 1 and find_common_metric(present) is not None and has_one_protocol(present)
    averages = {name: _average(scores[name]) for name in systems} if has_average else {}
    first = _find_first_baseline(reports)
    base = averages.get(first) if first else None
    metric = find_common_metric(filter(None, reports))
    header = ["system", *(_title_column(plan, study, reports) for study in group)]
    header += ["average", "gain"] if has_average else []
    cells = []
    for name in systems:
        row = [name]
        for score, by_system, marks in zip(scores[name], rows, marked, strict=True):
            row.append(_format_cell(score, by_system.get(name), marks.get(name, "")))
        if has_average:
            row += [_format_mean(averages[name]), _format_percent(_compute_gain(averages[name], base, metric))]
        cells.append(row)
    legend = f"Mean ± standard deviation over seeds{f' of {metric}' if metric else ''}. "
    if split == "test":
        number = count_comparisons(plan, data.reports)
        legend += (
            f"Marks: {format_marks_legend(baselines)}, on new queries and with new seeds, corrected for the {number} "
            f"comparisons of the suite ({plan.correction}, {plan.alpha:g}). "
        )
    else:
        legend += "Scores of the chosen configurations on the split by which they were chosen. "
        if any(map(any, (marks.values() for marks in marked))):
            legend += f"Marks: {format_marks_legend(baselines)}, corrected within each study. "
    if has_average:
        legend += f"Gain: of the average, relative to {first}; positive is better. "
    legend += _describe_candidates(plan, group, data.reports)
    return Section(f"On {split}{_describe_row(plan, group)}", header, cells, legend.strip(), len(header) > 6)


def build_gain_section(data: SuiteData, group: list[PlannedStudy]) -> Section:
    """Build the gains over the first baseline in percent, and their mean.

    Args:
        data: the suite.
        group: studies that differ in the column only.
    """
    plan, reports = data.plan, [data.reports.get(study.key) for study in group]
    rows, first = [_index_rows(report) for report in reports], _find_first_baseline(reports)
    metrics = [_get_metric(report) for report in reports]
    bases = [_get_mean(_get_score(by_system.get(first or ""), "test")) for by_system in rows]
    cells = []
    for name in [name for name in _list_systems(reports) if name != first]:
        means = [_get_mean(_get_score(by_system.get(name), "test")) for by_system in rows]
        gains = [_compute_gain(*each) for each in zip(means, bases, metrics, strict=True)]
        known = [gain for gain in gains if gain is not None]
        is_known = len(known) == len(gains) and has_one_protocol(filter(None, reports))
        mean = sum(known) / len(known) if is_known else None
        cells.append([name, *map(_format_percent, [*gains, mean])])
    header = ["system", *(study.labels[plan.columns] for study in group), "mean"]
    legend = f"Gain of the mean over seeds, in percent of {first}; positive is better. Mean: of the gains."
    return Section(f"Gain over {first}, on test{_describe_row(plan, group)}", header, cells, legend)


def build_published_section(data: SuiteData, group: list[PlannedStudy]) -> list[Section]:
    """Build the published scores beside the measured ones, and the gains of both over the same baseline.

    It is the first baseline that has a published score.

    Args:
        data: the suite.
        group: studies that differ in the column only.
    """
    published, plan = data.plan.published, data.plan
    if published is None or not any(published.get_scores(study) for study in group):
        return []
    reports = [data.reports.get(study.key) for study in group]
    baselines, rows = _list_baseline_systems(reports), []
    known = {name for study in group for name in published.get_scores(study)}
    first = next((name for name in baselines if name in known), baselines[0] if baselines else None)
    for study, report in zip(group, reports, strict=True):
        theirs, own = published.get_scores(study), _index_rows(report)
        theirs_first = theirs.get(first) if first else None
        own_first = _get_score(own.get(first), published.split) if first else None
        systems = [name for name in _list_systems([report]) if name in own or name in theirs]
        for name in [*systems, *(name for name in theirs if name not in systems)]:
            score = _get_score(own.get(name), published.split)
            rows.append([
                study.labels[plan.columns], name, _format_published(theirs.get(name)), format_score(score),
                _format_difference(theirs.get(name), theirs_first if name != first else None, published.metric),
                _format_difference(score, own_first if name != first else None, published.metric),
            ])  # fmt: skip
    header = [plan.columns, "system", "published", "measured", "published gain", "measured gain"]
    legend = (
        f"Published: {published.source}. {published.metric} on {published.split}. Gains: over {first}; positive is "
        f"better. {published.note}"
    ).strip()
    return [Section(f"Published and measured{_describe_row(plan, group)}", header, rows, legend)]


def _index_rows(report: ReportData | None) -> dict[str, SystemRow]:
    return {row.system: row for row in report.table.rows} if report else {}


def _list_systems(reports: list[ReportData | None]) -> list[str]:
    """Return all systems: those of the plans in their order, then those that only comparisons name, such as BM25."""
    plans = [report.results.plan for report in reports if report]
    own = dict.fromkeys(name for plan in plans for name in plan.systems)
    return [*own, *dict.fromkeys(name for plan in plans for name in plan.all_systems if name not in own)]


def _list_baseline_systems(reports: list[ReportData | None]) -> list[str]:
    """Return the systems that others are compared with, in order of the marks."""
    groups = [group for report in reports if report for group in report.results.plan.mark_groups]
    return list(dict.fromkeys(baseline for group in groups for _, baseline in group.pairs))


def _find_first_baseline(reports: list[ReportData | None]) -> str | None:
    return next(iter(_list_baseline_systems(reports)), None)


def _list_baselines(reports: list[ReportData | None]) -> list[str]:
    """Return what systems are compared with, in words, for the legend of the marks."""
    return list(dict.fromkeys(name for report in reports if report for name in report.results.plan.mark_baselines))[:2]


def _build_marks(data: SuiteData, study: PlannedStudy, split: str) -> dict[str, str]:
    """Return the marks of a study: on test corrected over the suite, on dev within the study, if it compares there."""
    report = data.reports.get(study.key)
    if report is None:
        return {}
    own = [replace(each.comparison, verdict=each.verdict) for each in data.comparisons if each.study == study.key]
    if split == "dev":
        own = [c for c in report.comparisons if c.split == report.results.plan.search_split]
    return build_marks(report.results.plan, own)


def _title_column(plan: SuitePlan, study: PlannedStudy, reports: list[ReportData | None]) -> str:
    """Return the label of a column, with its metric if the columns have different ones."""
    label = study.labels[plan.columns]
    own = next((report for report in reports if report and report.results.plan.study == study.study), None)
    if own is None or find_common_metric(filter(None, reports)) is not None:
        return label
    return f"{label} ({own.results.plan.metric})"


def _get_score(row: SystemRow | None, split: str) -> Score | None:
    return None if row is None else row.test if split == "test" else row.dev


def _average(scores: list[Score | None]) -> float | None:
    means = [score[0] for score in scores if score is not None]
    return sum(means) / len(means) if len(means) == len(scores) else None


def _format_cell(score: Score | None, row: SystemRow | None, marks: str) -> str:
    if score is None:
        return "incomplete" if row is not None and row.note else _NOTHING
    return f"{format_score(score)} {marks}".rstrip()


def _format_mean(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.4f}"


def _compute_gain(value: float | None, base: float | None, metric: str | None) -> float | None:
    """Return the gain in percent, positive if the value is better; None if it is not known."""
    if value is None or not base:
        return None
    return 100 * (value - base) / abs(base) * (-1 if metric in LOWER_IS_BETTER else 1)


def _get_metric(report: ReportData | None) -> str | None:
    return report.results.plan.metric if report else None


def _format_percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:+.2f} %"


def _get_mean(score: Score | None) -> float | None:
    return None if score is None else score[0]


def _describe_candidates(plan: SuitePlan, group: list[PlannedStudy], reports: Mapping[str, ReportData]) -> str:
    """Return a sentence on the candidates that are ranked, by column if they differ; empty if there are none."""
    known = {
        study.labels[plan.columns]: reports[study.key].results.plan.candidates
        for study in group
        if study.key in reports
    }
    if not any(known.values()):
        return ""
    if len({*known.values()}) == 1:
        return f"Candidates: {next(iter(known.values()))}."
    return f"Candidates: {'; '.join(f'{label}: {text}' for label, text in known.items() if text)}."


def _describe_row(plan: SuitePlan, group: list[PlannedStudy]) -> str:
    """Return the labels of studies on all axes but that of the columns, for a title."""
    return f", {', '.join(plan.get_row_labels(group[0]))}" if len(plan.axes) > 1 else ""


def _format_published(score: PublishedScore | None) -> str:
    if score is None:
        return _NOTHING
    return f"{score.mean:.4g}" + (f" ± {score.sd:.2g}" if score.sd is not None else "")


def _format_difference(score: PublishedScore | Score | None, base: PublishedScore | Score | None, metric: str) -> str:
    if score is None or base is None:
        return _NOTHING
    own, other = (each.mean if isinstance(each, PublishedScore) else each[0] for each in (score, base))
    return f"{(other - own) if metric in LOWER_IS_BETTER else (own - other):+.4f}"
