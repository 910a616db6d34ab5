"""The first screen of a study: its sentence, table, line and warnings."""

from analysis.checks.collapsed_seeds import describe_outlying_run
from analysis.comparisons.declared import select_headline_comparisons
from analysis.data.configurations import describe_dev_choice
from analysis.rendering.answer import Answer, Finding, Sample, build_answer
from analysis.tables.dev_only import build_dev_section, is_untested
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER, get_measure


def answer_study(analysis: ReportData) -> Answer:
    """Build the first screen of a study; while nothing is tested, its table has the scores on the search split."""
    plan = analysis.results.plan
    dev_section = build_dev_section(plan, analysis.configurations)
    if dev_section:
        sentence = f"No conclusion yet: no run has {plan.test_split} scores."
        return Answer(sentence, dev_section._replace(legend=""), dev_section.legend)
    headlines = select_headline_comparisons(plan, analysis.comparisons)
    findings = [Finding.from_comparison(c, plan.is_exploratory((c.system, c.baseline))) for c in headlines]
    return build_answer(findings, {row.system: row.test for row in analysis.table.rows}, describe_sample(analysis))


def describe_sample(analysis: ReportData) -> Sample:
    """Return what the headline comparisons of a study are from."""
    plan, table = analysis.results.plan, analysis.table
    lower_is_better = plan.metric in LOWER_IS_BETTER
    return Sample(
        metric=plan.metric,
        seeds=table.seeds,
        queries=table.queries,
        comparisons=len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline)),
        alpha=plan.alpha,
        correction=plan.headline.correction,
        margin=plan.margin,
        lower_is_better=lower_is_better,
        largest=None if lower_is_better else get_measure(plan.metric).max_value,
        unit=plan.unit,
        split=plan.test_split,
        seed_words=_describe_seeds(analysis),
        variance=None if analysis.looks else analysis.variance,
    )


def list_warnings(analysis: ReportData) -> list[str]:
    """List what must be known before a verdict is believed, such as collapsed runs, and what seeds alone do."""
    plan, equal = analysis.results.plan, analysis.equal_rankers
    untested = is_untested(plan, analysis.configurations)
    return [
        *map(describe_outlying_run, analysis.outlying_seeds),
        *_describe_weak_baselines(analysis),
        *(f"{row.fault}." for row in analysis.table.rows if not (row.test or untested)),
        *([plan.adapt_to_unit(equal.describe())] if equal else []),
    ]


def _describe_seeds(analysis: ReportData) -> str:
    """Return the number of seeds, whether they are fresh, and what was chosen by their scores if they are not."""
    plan, seeds = analysis.results.plan, analysis.results.plan.get_seeds("test")
    reused, looks = len({*seeds} & {*plan.seeds}), analysis.looks
    look = f" (look {len(looks.taken)} of at most {len(plan.looks)})" if looks else ""
    noun = "seed" + "s" * (len(seeds) != 1)
    if not reused:
        return f"{len(seeds)} fresh {noun}, which no choice has seen{look}"
    which = "" if reused == len(seeds) else f", {reused} of them those of the search"
    what = describe_dev_choice(plan, analysis.configurations)
    if not what:
        return f"{len(seeds)} {noun}{which}, by which nothing was chosen{look}"
    luck = f"Their {plan.search_split} scores chose the {what}: part of a gain may be luck"
    return f"{len(seeds)} {noun}{which}{look}. {luck}"


def _describe_weak_baselines(analysis: ReportData) -> list[str]:
    """Say that a baseline of the headline's family has a worse mean than a reference, such as BM25."""
    plan = analysis.results.plan
    baselines = {baseline for _, baseline in plan.headline.comparisons}
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    return [
        f"The baseline {c.system} has a worse mean than {c.baseline} ({c.difference:+.4f})."
        for c in analysis.comparisons
        if c.system in baselines
        and c.baseline not in plan.systems
        and c.metric == plan.metric
        and sign * (c.difference or 0.0) < 0
    ]
