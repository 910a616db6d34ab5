"""Tables of the joint report of a suite, as plain text."""

from collections.abc import Sequence

from analysis.data.configurations import Score, describe_dev_choice, format_score
from analysis.data.measured_cost import compute_cost
from analysis.rendering.answer import Answer, Finding, Sample, describe_correction, write_sentence
from analysis.rendering.cells import format_p_value
from analysis.rendering.sections import Fold
from analysis.suites.comparisons import (
    AverageComparison,
    SuiteComparison,
    SuiteData,
    count_comparisons,
    find_common_metric,
    has_one_protocol,
)
from analysis.tables.main import ReportData, SystemRow
from analysis.tables.section import Section
from records.suite_plan import PlannedStudy, PublishedScore, SuitePlan
from trainables.metrics import LOWER_IS_BETTER

_NOTHING = "-"
_POPULATIONS = {"both": "new queries and seeds", "queries": "new queries", "seeds": "new seeds"}


def answer_suite(data: SuiteData) -> Answer:
    """Build the first screen: the averages over the columns, or where none is possible all comparisons."""
    plan, reports = data.plan, list(data.reports.values())
    averages = _list_averages(data, plan.metrics[0])
    findings = [_make_average(each) for each in averages]
    findings = findings or [_make_comparison(data, each) for each in data.comparisons]
    section = _build_average_section(data, averages) if averages else _build_comparison_section(data)
    metric = plan.metrics[0] if averages else find_common_metric(reports)
    margins = {report.results.plan.margin for report in reports if metric in (None, report.results.plan.metric)}
    sample = Sample(
        metric=metric or "",
        seeds=0,
        queries=0,
        comparisons=len(averages) or sum(count_comparisons(plan, data.reports, name) for name in plan.metrics),
        alpha=plan.alpha,
        correction=plan.correction,
        margin=margins.pop() if len(margins) == 1 else None,
        lower_is_better=metric in LOWER_IS_BETTER,
    )
    about = " and ".join(dict.fromkeys(_POPULATIONS[f.target] for f in findings if f.target))
    studies = f"{len(reports)} of {len(plan.studies)} studies"
    line = f"Tested for {about or 'nothing yet'} in {studies}; {_describe_seeds(reports)}."
    hidden = ("p", "corrected p", "gain", *([_name_columns(plan)] if averages else []))
    shown = [index for index, name in enumerate(section.header) if name not in hidden]
    header, *rows = [[row[index] for index in shown] for row in (section.header, *section.rows)]
    table = section._replace(header=header, rows=rows, legend="", label="main", caption=f"{section.title}. {line}")
    return Answer(write_sentence(findings, sample), table, f"{line} {describe_correction(sample)}".rstrip())


def _describe_seeds(reports: Sequence[ReportData]) -> str:
    """Say whether the tested seeds are fresh, and in how many studies something was chosen by them if they are not."""
    plans = [report.results.plan for report in reports]
    reused = [not {*plan.get_seeds("test")}.isdisjoint(plan.seeds) for plan in plans]
    if not any(reused):
        return "their seeds are fresh"
    seen = sum(
        is_reused and bool(describe_dev_choice(plan, report.configurations))
        for is_reused, plan, report in zip(reused, plans, reports, strict=True)
    )
    if not seen:
        return "nothing was chosen by the scores of their seeds"
    return "their seeds are those of the search" + (f" in {seen} of them" if seen < len(plans) else "")


def list_suite_folds(data: SuiteData) -> list[Fold]:
    """Return the headings of the joint report."""
    groups = [group for group in data.plan.list_rows() if any(study.key in data.reports for study in group)]
    scores = [
        section
        for group in groups
        for section in (
            build_score_section(data, group, "test"),
            *build_published_section(data, group),
        )
    ]
    tests = [_build_average_section(data, own) for name in data.plan.metrics if (own := _list_averages(data, name))]
    tests += [
        table._replace(title=f"{table.title}, {key}", label=f"{table.label}-{key}")
        for key, report in data.reports.items()
        if (table := report.by_collection)
    ]
    tests += [_build_comparison_section(data), *scores, *_build_metric_section(data)]
    return [
        Fold("All tests", tests),
        Fold("Search", [build_score_section(data, group, "dev") for group in groups]),
        Fold("Reproduce", [_build_study_section(data)]),
    ]


def _list_averages(data: SuiteData, metric: str) -> list[AverageComparison]:
    """Return the averages in a metric; none if no one is possible."""
    own = [each for each in data.averages if each.metric == metric]
    return own if any(each.is_possible for each in own) else []


def _make_average(each: AverageComparison) -> Finding:
    name = each.system + (f" ({', '.join(each.labels)})" if each.labels else "")
    return Finding(name, each.baseline, each.difference, each.interval, each.verdict, each.target, None, each.is_late)


def _make_comparison(data: SuiteData, each: SuiteComparison) -> Finding:
    c, labels = each.comparison, data.plan.get_study(each.study).labels.values()
    finding = Finding.from_comparison(c, each.is_late)
    return finding._replace(system=f"{c.system} ({', '.join(labels)})", interval=each.interval, verdict=each.verdict)


def build_score_section(data: SuiteData, group: list[PlannedStudy], split: str) -> Section:
    """Build the systems of studies that differ in the column only by column, on dev or test."""
    plan, rows, present = data.plan, _index_rows(data, group), _list_reports(data, group)
    metric, first = find_common_metric(present), next(iter(_list_baselines(present)), "")
    has_average = len(group) > 1 and metric is not None and has_one_protocol(present)
    averages, cells = dict[str, float | None](), list[list[str]]()
    for name in _list_systems(present):
        scores = [score for own in rows if (score := _get_score(own.get(name), split))]
        is_known = has_average and len(scores) == len(rows)
        averages[name] = sum(score[0] for score in scores) / len(rows) if is_known else None
    for name, average in averages.items():
        cells.append([name, *(_format_cell(own.get(name), split) for own in rows)])
        if has_average:
            gain = _compute_gain(average, averages.get(first), metric)
            cells[-1] += [_NOTHING if average is None else f"{average:.4f}", _format_gain(gain)]
    header = ["system", *(_title_column(data, study, metric) for study in group)]
    header += ["average", "gain"] if has_average else []
    legend = f"Mean ± standard deviation over seeds{f' of {metric}' if metric else ''}. "
    if split == "dev":
        legend += "Scores of the chosen configurations on the split by which they were chosen. "
    if has_average:
        legend += f"Gain: of the average, relative to {first}; positive is better. "
    legend += _describe_candidates(data, group)
    return Section(f"On {split}{_describe_row(plan, group)}", header, cells, legend.strip(), len(header) > 6)


def build_published_section(data: SuiteData, group: list[PlannedStudy]) -> list[Section]:
    """Build the published scores next to the measured ones, and the gains of both over the same baseline.

    It is the first baseline that has a published score.
    """
    published, plan = data.plan.published, data.plan
    known = {name for study in group for name in (published.get_scores(study) if published else ())}
    if published is None or not known:
        return []
    baselines, rows = _list_baselines(_list_reports(data, group)), []
    first = next((name for name in baselines if name in known), next(iter(baselines), ""))
    for study, own in zip(group, _index_rows(data, group), strict=True):
        theirs = published.get_scores(study)
        systems = [name for name in _list_systems(_list_reports(data, [study])) if name in own or name in theirs]
        for name in dict.fromkeys([*systems, *theirs]):
            score, base = _get_score(own.get(name), published.split), _get_score(own.get(first), published.split)
            is_base = name == first
            rows.append([
                study.labels[plan.columns], name, _format_published(theirs.get(name)), format_score(score),
                _format_difference(theirs.get(name), None if is_base else theirs.get(first), published.metric),
                _format_difference(score, None if is_base else base, published.metric),
            ])  # fmt: skip
    header = [plan.columns, "system", "published", "measured", "published gain", "measured gain"]
    legend = (
        f"Published: {published.source}. {published.metric} on {published.split}. Gains: over {first}; positive is "
        f"better. {published.note}"
    ).strip()
    return [Section(f"Published and measured{_describe_row(plan, group)}", header, rows, legend)]


def _list_reports(data: SuiteData, group: Sequence[PlannedStudy]) -> list[ReportData]:
    return [data.reports[study.key] for study in group if study.key in data.reports]


def _index_rows(data: SuiteData, group: Sequence[PlannedStudy]) -> list[dict[str, SystemRow]]:
    """Return the rows of each study's main table by system; none for a study without results."""
    reports = [data.reports.get(study.key) for study in group]
    return [{row.system: row for row in report.table.rows} if report else {} for report in reports]


def _list_systems(reports: Sequence[ReportData]) -> list[str]:
    """Return all systems: those of the plans in their order, then those that only comparisons name, such as BM25."""
    plans = [report.results.plan for report in reports]
    own = [name for plan in plans for name in plan.systems]
    return list(dict.fromkeys([*own, *(name for plan in plans for name in plan.all_systems)]))


def _list_baselines(reports: Sequence[ReportData]) -> list[str]:
    """Return the systems that others are compared with, in order of the comparisons."""
    return list(dict.fromkeys(pair[1] for report in reports for pair in report.results.plan.headline.comparisons))


def _title_column(data: SuiteData, study: PlannedStudy, metric: str | None) -> str:
    """Return the label of a column, with its metric if the columns have no common one."""
    label, report = study.labels[data.plan.columns], data.reports.get(study.key)
    return label if report is None or metric else f"{label} ({report.results.plan.metric})"


def _get_score(row: SystemRow | None, split: str) -> Score | None:
    return None if row is None else row.test if split == "test" else row.dev


def _format_cell(row: SystemRow | None, split: str) -> str:
    score = _get_score(row, split)
    if score is None:
        return "incomplete" if row is not None and row.note else _NOTHING
    return format_score(score)


def _compute_gain(value: float | None, base: float | None, metric: str | None) -> float | None:
    """Return the gain in percent, positive if the value is better; None if it is not known."""
    if value is None or not base:
        return None
    return 100 * (value - base) / abs(base) * (-1 if metric in LOWER_IS_BETTER else 1)


def _format_gain(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:+.2f} %"


def _describe_candidates(data: SuiteData, group: list[PlannedStudy]) -> str:
    """Return a sentence on the candidates that are ranked, by column if they differ; empty if there are none."""
    labels = [study.labels[data.plan.columns] for study in group if study.key in data.reports]
    texts = [report.results.plan.candidates for report in _list_reports(data, group)]
    if len({*texts}) > 1:
        texts = [f"{label}: {text}" for label, text in zip(labels, texts, strict=True) if text]
    return f"Candidates: {'; '.join(dict.fromkeys(texts))}." if any(texts) else ""


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


def _build_metric_section(data: SuiteData) -> list[Section]:
    """Build the systems of all studies by every metric or set, if all studies have the same ones."""
    tables = {key: report.by_metric for key, report in data.reports.items() if report.by_metric}
    if len({tuple(table.header) for table in tables.values()}) != 1:
        return []
    first = next(iter(tables.values()))
    title, names = first.title.partition(",")[0], first.header[1:]
    rows = [[key, *row] for key, table in tables.items() for row in table.rows]
    return [Section(title, ["study", "system", *names], rows, first.legend, len(names) > 6)]


def _name_columns(plan: SuitePlan) -> str:
    return plan.columns if plan.columns.endswith("s") else f"{plan.columns}s"


def _build_average_section(data: SuiteData, averages: Sequence[AverageComparison]) -> Section:
    plan, columns = data.plan, data.plan.columns
    others, names = [axis for axis in plan.axes if axis != columns], _name_columns(plan)
    header = [
        *others,
        "system",
        "baseline",
        names,
        "gain",
        "p",
        "corrected p",
        "difference",
        "interval",
        "verdict",
    ]
    rows = [
        [*each.labels, each.system, each.baseline, str(each.columns),
         _NOTHING if each.gain is None else f"{100 * each.gain:+.2f} %",
         format_p_value(each.test.p if each.test else None), format_p_value(each.p), *_make_average(each).to_cells()]
        for each in averages
    ]  # fmt: skip
    about = " and ".join(dict.fromkeys(_POPULATIONS[each.target] for each in averages if each.target))
    legend = (
        f"Do the methods differ in the mean over these {names}, on {about or 'new queries and seeds'}? The "
        f"{names} are the ones named, not a sample of others. Variances of the {names} add up: each has queries "
        "and runs of its own, which are taken to be independent although they share the numbers of the seeds. p is "
        f"corrected for {len(rows)} averages ({plan.correction}), and the {100 * (1 - plan.alpha):g} % "
        "intervals hold for all of them at once (Bonferroni)."
    )
    legend += _describe_pooling(data)
    refusals = dict.fromkeys(each.refusal for each in averages if each.refusal)
    legend += f" Not compared: {'; '.join(refusals)}." if refusals else ""
    metric = averages[0].metric
    label = "averages" if metric == plan.metrics[0] else f"averages-{metric}"
    return Section(f"Average over the {names}, {metric}", header, rows, legend, label=label)


def _build_comparison_section(data: SuiteData) -> Section:
    plan = data.plan
    header = [*plan.axes, "system", "baseline", "p", "corrected p", "difference", "interval", "verdict"]
    rows = [
        [*plan.get_study(each.study).labels.values(), each.comparison.system, each.comparison.baseline,
         format_p_value(each.comparison.p), format_p_value(each.p), *_make_comparison(data, each).to_cells()]
        for each in data.comparisons
    ]  # fmt: skip
    legend = (
        f"Every declared comparison of every study; p, interval and verdict are corrected for all of the suite "
        f"({_count(data)}; {plan.correction}; intervals by Bonferroni). "
        "comparisons.json has the verdicts within each study."
    ) + _describe_pooling(data)
    return Section("Comparisons of all studies", header, rows, legend, is_wide=True, label="comparisons")


def _count(data: SuiteData) -> str:
    counts = {metric: count_comparisons(data.plan, data.reports, metric) for metric in data.plan.metrics}
    return ", ".join(f"{count} in {metric}" for metric, count in counts.items())


def _describe_pooling(data: SuiteData) -> str:
    """Return a sentence that names the studies with tests that pool the variation of seeds; empty if none does."""
    pooled = dict.fromkeys(each.study for each in data.comparisons if each.comparison.pooled)
    if not pooled:
        return ""
    return f" The spread over seeds is pooled over the family of each study, as its plan says, in: {', '.join(pooled)}."


def _build_study_section(data: SuiteData) -> Section:
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
        legend += " Joined late: other studies had test scores before, so its comparisons are exploratory."
    return Section("Studies", header, rows, legend)
