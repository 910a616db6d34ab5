"""Tables of the joint report of a suite, as plain text."""

from analysis.data.cost import compute_cost
from analysis.rendering.cells import QUERIES_BONFERRONI, format_p_value
from analysis.suites.comparisons import AverageComparison, count_comparisons
from analysis.suites.data import SuiteData
from analysis.suites.scores import build_gain_section, build_published_section, build_score_section
from analysis.tables.section import Section

_NOTHING = "-"
_POPULATIONS = {"both": "new queries and seeds", "queries": "new queries", "seeds": "new seeds"}


def build_sections(data: SuiteData) -> list[Section]:
    """Build all tables of the joint report in their order."""
    known = [group for group in data.plan.list_rows() if any(study.key in data.reports for study in group)]
    sections, groups = list[Section](), known
    for group in groups:
        sections += [build_score_section(data, group, "test"), build_gain_section(data, group)]
        sections += build_published_section(data, group)
    sections += [*_build_average_section(data), _build_comparison_section(data), *_build_metric_section(data)]
    sections += [build_score_section(data, group, "dev") for group in groups]
    return [*sections, _build_study_section(data)]


def _build_metric_section(data: SuiteData) -> list[Section]:
    """Build the systems of all studies by every metric or set, if all studies have the same ones."""
    tables = {key: report.by_metric for key, report in data.reports.items() if report.by_metric}
    if len({tuple(table.header) for table in tables.values()}) != 1:
        return []
    first = next(iter(tables.values()))
    title, names = first.title.partition(",")[0], first.header[1:]
    rows = [[key, *row] for key, table in tables.items() for row in table.rows]
    return [Section(title, ["study", "system", *names], rows, first.legend, len(names) > 6)]


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
        f"{columns}s are the ones named, not a sample of others. Variances of the {columns}s add up: each has queries "
        "and runs of its own, which are taken to be independent although they share the numbers of the seeds. p is "
        f"corrected for {len(rows)} averages ({plan.correction}), and the {100 * (1 - plan.alpha):g} % "
        "intervals hold for all of them at once (Bonferroni)."
    )
    legend += _describe_pooling(data)
    refusals = dict.fromkeys(each.refusal for each in data.averages if each.refusal)
    legend += f" Not compared: {'; '.join(refusals)}." if refusals else ""
    return [Section(f"Average over the {columns}s", header, rows, legend)]


def _build_comparison_section(data: SuiteData) -> Section:
    """Build the comparisons of all studies with both corrections."""
    plan = data.plan
    header = [*plan.axes, "system", "baseline", "difference", "p", f"p, {plan.correction} in the study"]
    header += ["verdict in the study", f"p, {plan.correction} over the suite", "verdict over the suite"]
    header.append(QUERIES_BONFERRONI)
    rows = []
    for each in data.comparisons:
        c, labels = each.comparison, plan.get_study(each.study).labels.values()
        shown = _NOTHING if c.difference is None else f"{c.difference:+.4f}"
        own, inner, outer = map(format_p_value, (c.p, c.adjusted[plan.correction], each.p))
        queries = format_p_value(c.adjusted_queries["bonferroni"])
        rows.append([*labels, c.system, c.baseline, shown, own, inner, c.verdict, outer,
                     _format_verdict(each.verdict, each.is_late), queries])  # fmt: skip
    number = count_comparisons(plan, data.reports)
    legend = (
        "Every declared comparison of every study. In the study, p is corrected for the comparisons of that study; "
        f"over the suite, for all {number} of the suite. {QUERIES_BONFERRONI}: corrected in the study, the test of "
        "the paper on label smoothing: do these trained checkpoints differ on new queries; it says nothing about new "
        "seeds."
    ) + _describe_pooling(data)
    return Section("Comparisons of all studies", header, rows, legend, is_wide=True)


def _describe_pooling(data: SuiteData) -> str:
    """Return a sentence that names the studies whose tests pool the variation between seeds; empty if none does."""
    pooled = dict.fromkeys(each.study for each in data.comparisons if each.comparison.pooled)
    if not pooled:
        return ""
    return f" The spread over seeds is pooled over the family of each study, as its plan says, in: {', '.join(pooled)}."


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
        legend += " Joined late: other studies had test scores before, so its comparisons are exploratory."
    return Section("Studies", header, rows, legend)


def _format_verdict(verdict: str, is_late: bool) -> str:
    return f"{verdict} (exploratory)" if is_late else verdict


def _format_average(each: AverageComparison) -> list[str]:
    head = [*each.labels, each.system, each.baseline, str(each.columns)]
    if each.test is None or each.difference is None:
        return [*head, *[_NOTHING] * 5, _format_verdict(each.verdict, each.is_late)]
    gain = _NOTHING if each.gain is None else f"{100 * each.gain:+.2f} %"
    low, high = each.interval or (each.difference, each.difference)
    p_values = map(format_p_value, (each.test.p, each.p))
    return [*head, f"{each.difference:+.4f}", gain, f"[{low:+.4f}, {high:+.4f}]", *p_values,
            _format_verdict(each.verdict, each.is_late)]  # fmt: skip
