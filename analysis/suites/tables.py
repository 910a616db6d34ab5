"""Tables of a suite: systems by column, published beside measured scores, comparisons over all studies."""

from dataclasses import dataclass, replace

from analysis.data.configurations import Score, format_score
from analysis.data.cost import compute_cost
from analysis.rendering.sections import Section
from analysis.suites.comparisons import (
    AverageComparison,
    SuiteComparison,
    average_over_columns,
    correct_over_studies,
    find_common_metric,
    get_suite_correction,
)
from analysis.suites.plan import PlannedStudy, PublishedScore, SuitePlan
from analysis.suites.results import SuiteResults
from analysis.tables.main import ReportData, SystemRow, build_report_data, format_p_value
from analysis.tables.marks import build_marks, format_marks_legend

_NOTHING = "-"
_POPULATIONS = {"both": "new queries and seeds", "queries": "new queries", "seeds": "new seeds"}


@dataclass(frozen=True)
class SuiteData:
    """Everything that the joint report shows.

    Attributes:
        results: results of the suite.
        reports: report of each study by key.
        comparisons: comparisons of the studies, corrected for all of them.
        averages: averages over the columns.
    """

    results: SuiteResults
    reports: dict[str, ReportData]
    comparisons: list[SuiteComparison]
    averages: list[AverageComparison]

    @property
    def plan(self) -> SuitePlan:
        """Plan of the suite."""
        return self.results.plan


def build_suite_data(results: SuiteResults) -> SuiteData:
    """Analyse every study of a suite, and compare over all of them.

    Raises:
        UserError: if the runs of a study cannot be compared.
    """
    reports = {key: build_report_data(study) for key, study in results.studies.items()}
    comparisons = correct_over_studies(results.plan, reports)
    return SuiteData(results, reports, comparisons, average_over_columns(results.plan, reports))


def build_sections(data: SuiteData) -> list[Section]:
    """Build all tables of the joint report in their order."""
    sections, groups = list[Section](), data.plan.list_rows()
    for group in groups:
        sections += [_build_score_section(data, group, "test"), *_build_published_section(data, group)]
    sections += [*_build_average_section(data), _build_comparison_section(data), *_build_metric_section(data)]
    sections += [_build_score_section(data, group, "dev") for group in groups]
    return [*sections, _build_study_section(data)]


def _build_score_section(data: SuiteData, group: list[PlannedStudy], split: str) -> Section:
    """Build the systems of the studies that differ in the column only, as in the papers' tables."""
    plan, reports = data.plan, [data.reports.get(study.key) for study in group]
    rows = [_index_rows(report) for report in reports]
    systems, baselines = _list_systems(reports), _list_baselines(reports)
    marked = [_build_marks(data, study) if split == "test" else {} for study in group]
    scores = {name: [_get_score(by_system.get(name), split) for by_system in rows] for name in systems}
    has_average = len(group) > 1 and find_common_metric(filter(None, reports)) is not None
    averages = {name: _average(scores[name]) for name in systems} if has_average else {}
    base = averages.get(baselines[0]) if baselines else None
    header = ["system", *(_title_column(plan, study, reports) for study in group)]
    header += ["average", "gain"] if has_average else []
    cells = []
    for name in systems:
        row = [name]
        for score, by_system, marks in zip(scores[name], rows, marked, strict=True):
            row.append(_format_cell(score, by_system.get(name), marks.get(name, "")))
        if has_average:
            row += [_format_mean(averages[name]), _format_gain(averages[name], base)]
        cells.append(row)
    where = f", {', '.join(plan.get_row_labels(group[0]))}" if len(plan.axes) > 1 else ""
    metric = find_common_metric(filter(None, reports))
    legend = f"Mean ± standard deviation over seeds{f' of {metric}' if metric else ''}. "
    if split == "test":
        legend += (
            f"Marks: {format_marks_legend(baselines)}, on new queries and with new seeds, corrected for the "
            f"{len(data.comparisons)} comparisons of the suite ({get_suite_correction(plan)}, {plan.alpha:g}). "
        )
    else:
        legend += "Scores of the chosen configurations on the split by which they were chosen. "
    if has_average:
        legend += f"Gain: of the average, relative to {baselines[0]}."
    return Section(f"On {split}{where}", header, cells, legend.strip(), len(header) > 6)


def _build_published_section(data: SuiteData, group: list[PlannedStudy]) -> list[Section]:
    """Build the published scores beside the measured ones, and the gains over the first baseline of both."""
    published, plan = data.plan.published, data.plan
    if published is None or not any(published.get_scores(study) for study in group):
        return []
    reports = [data.reports.get(study.key) for study in group]
    baselines, rows = _list_baselines(reports), []
    first = baselines[0] if baselines else None
    for study, report in zip(group, reports, strict=True):
        theirs, own = published.get_scores(study), _index_rows(report)
        theirs_first = theirs.get(first) if first else None
        own_first = _get_score(own.get(first), published.split) if first else None
        for name in [*theirs, *(name for name in own if name not in theirs and name in _list_systems([report]))]:
            score = _get_score(own.get(name), published.split)
            rows.append([
                study.labels[plan.columns], name, _format_published(theirs.get(name)), format_score(score),
                _format_difference(theirs.get(name), theirs_first if name != first else None),
                _format_difference(score, own_first if name != first else None),
            ])  # fmt: skip
    where = f", {', '.join(plan.get_row_labels(group[0]))}" if len(plan.axes) > 1 else ""
    header = [plan.columns, "system", "published", "measured", "published gain", "measured gain"]
    legend = (
        f"Published: {published.source}. {published.metric} on {published.split}. Gains: over {first}. {published.note}"
    ).strip()
    return [Section(f"Published and measured{where}", header, rows, legend)]


def _build_metric_section(data: SuiteData) -> list[Section]:
    """Build the systems of all studies by every metric or set, if all studies have the same ones."""
    tables = {key: report.metric_table.to_cells() for key, report in data.reports.items() if report.metric_table}
    headers = {tuple(header) for header, *_ in tables.values()}
    if len(headers) != 1:
        return []
    ((_, *names),) = headers
    rows = [[key, *row] for key, (_, cells, _) in tables.items() for row in cells]
    report = next(report for report in data.reports.values() if report.metric_table)
    legend = report.metric_table.format_legend(report.results.plan) if report.metric_table else ""
    title = "By set" if report.results.plan.is_correlation else "By metric"
    return [Section(title, ["study", "system", *names], rows, legend, len(names) > 6)]


def _build_average_section(data: SuiteData) -> list[Section]:
    """Build the comparisons of averages over the columns."""
    if not data.averages:
        return []
    plan, columns = data.plan, data.plan.columns
    others = [axis for axis in plan.axes if axis != columns]
    header = [*others, "system", "baseline", f"{columns}s", "difference", "gain", "interval", "p", "corrected p",
              "verdict"]  # fmt: skip
    rows = [_format_average(each) for each in data.averages]
    tested = [each for each in data.averages if each.target]
    about = " and ".join(dict.fromkeys(_POPULATIONS[each.target] for each in tested if each.target))
    legend = (
        f"Do the methods differ in the mean over these {columns}s, on {about or 'new queries and seeds'}? The "
        f"{columns}s are the ones named, not a sample of others. Variances of the {columns}s add up, since each has "
        f"queries and runs of its own. p is corrected for {len(rows)} averages ({get_suite_correction(plan)}), and the "
        f"{100 * (1 - plan.alpha):g} % intervals hold for all of them at once (Bonferroni)."
    )
    refusals = dict.fromkeys(each.refusal for each in data.averages if each.refusal)
    legend += f" Not compared: {'; '.join(refusals)}." if refusals else ""
    return [Section(f"Average over the {columns}s", header, rows, legend)]


def _build_comparison_section(data: SuiteData) -> Section:
    """Build the comparisons of all studies with both corrections."""
    plan = data.plan
    header = [*plan.axes, "system", "baseline", "difference", "p", f"p, {plan.correction} in the study"]
    header += ["verdict in the study", f"p, {get_suite_correction(plan)} over the suite", "verdict over the suite"]
    rows = []
    for each in data.comparisons:
        c, labels = each.comparison, plan.get_study(each.study).labels.values()
        test = c.targets[c.target] if c.target else None
        shown = _NOTHING if c.difference is None else f"{c.difference:+.4f}"
        own, inner, outer = map(format_p_value, (test.p if test else None, c.adjusted[plan.correction], each.p))
        rows.append([*labels, c.system, c.baseline, shown, own, inner, c.verdict, outer, each.verdict])
    number = data.comparisons[0].comparisons if data.comparisons else 0
    legend = (
        "Every declared comparison of every study. In the study, p is corrected for the comparisons of that study; "
        f"over the suite, for all {number} of the suite."
    )
    return Section("Comparisons of all studies", header, rows, legend, is_wide=True)


def _build_study_section(data: SuiteData) -> Section:
    """Build the studies with their plans, sizes and costs."""
    rows = []
    for study in data.plan.studies:
        report = data.reports.get(study.key)
        if report is None:
            rows.append([study.key, study.study, "no results", *[_NOTHING] * 5])
            continue
        plan, cost = report.results.plan, compute_cost(report.results)
        late = " (joined late)" if study.is_late else ""
        rows.append([
            study.key, study.study, f"{report.results.plan_hash} version {plan.version}{late}", plan.metric,
            f"{report.table.queries:,}", str(report.table.seeds), str(cost.runs), f"{cost.hours:.2f}",
        ])  # fmt: skip
    header = ["key", "study", "plan", "metric", "test queries", "seeds", "runs", "trial hours"]
    legend = "Each study has a report of its own, with its search, its figures and its error analysis."
    if any(study.is_late for study in data.plan.studies):
        legend += " Joined late: other studies had test scores before; read its comparisons as exploratory."
    return Section("Studies", header, rows, legend)


def _index_rows(report: ReportData | None) -> dict[str, SystemRow]:
    return {row.system: row for row in report.table.rows} if report else {}


def _list_systems(reports: list[ReportData | None]) -> list[str]:
    """Return all systems: those of the plans in their order, then those that only comparisons name, such as BM25."""
    plans = [report.results.plan for report in reports if report]
    own = dict.fromkeys(name for plan in plans for name in plan.systems)
    return [*own, *dict.fromkeys(name for plan in plans for name in plan.all_systems if name not in own)]


def _list_baselines(reports: list[ReportData | None]) -> list[str]:
    return list(dict.fromkeys(name for report in reports if report for name in report.results.plan.mark_baselines))[:2]


def _build_marks(data: SuiteData, study: PlannedStudy) -> dict[str, str]:
    own = [replace(each.comparison, verdict=each.verdict) for each in data.comparisons if each.study == study.key]
    report = data.reports.get(study.key)
    return build_marks(report.results.plan, own) if report else {}


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


def _format_gain(value: float | None, base: float | None) -> str:
    return _NOTHING if value is None or not base else f"{100 * (value / base - 1):+.2f} %"


def _format_published(score: PublishedScore | None) -> str:
    if score is None:
        return _NOTHING
    return f"{score.mean:.4g}" + (f" ± {score.sd:.2g}" if score.sd is not None else "")


def _format_difference(score: PublishedScore | Score | None, base: PublishedScore | Score | None) -> str:
    if score is None or base is None:
        return _NOTHING
    own, other = (each.mean if isinstance(each, PublishedScore) else each[0] for each in (score, base))
    return f"{own - other:+.4f}"


def _format_average(each: AverageComparison) -> list[str]:
    head = [*each.labels, each.system, each.baseline, str(each.columns)]
    if each.test is None or each.difference is None:
        return [*head, *[_NOTHING] * 5, each.verdict]
    gain = _NOTHING if each.gain is None else f"{100 * each.gain:+.2f} %"
    low, high = each.interval or (each.difference, each.difference)
    p_values = map(format_p_value, (each.test.p, each.p))
    return [*head, f"{each.difference:+.4f}", gain, f"[{low:+.4f}, {high:+.4f}]", *p_values, each.verdict]
