"""The systems by further collections, as tables of zero-shot evaluation have them."""

from collections.abc import Mapping, Sequence

from analysis.data.configurations import Configuration, format_score, mean_and_std
from analysis.stats.comparison import Comparison
from analysis.tables.by_metric import find_best
from analysis.tables.section import MAX_COLUMNS, Section
from records.plan import COLLECTIONS, Plan

_MARKS = {"better": " †", "worse": " ‡", "equivalent": " ="}


def build_collection_section(
    plan: Plan, chosen: Mapping[str, Configuration | None], comparisons: Sequence[Comparison]
) -> Section | None:
    """Build the table of systems by collection, with the mean if the plan compares means; None without collections.

    Where candidates were retrieved, BM25 is the first stage.
    """
    if not plan.collections:
        return None
    means = [family for family in plan.families if family.split == COLLECTIONS]
    columns = [*plan.list_collections(), *(family.split for family in means)]
    baseline = plan.headline.comparisons[0][1]
    metrics = [means[0].metrics[0] if label == COLLECTIONS else plan.get_metric(label) for label in columns]
    scores = {
        name: [mean_and_std(c.evaluate_queries(plan, label)) for label in columns]
        for name in plan.all_systems
        if (c := chosen.get(name))
    }
    verdicts = {(c.system, c.split): c.verdict for c in comparisons if c.baseline == baseline}
    is_retrieved = all("none added" in each.candidates for each in plan.collections)
    rows = []
    for name, own in scores.items():
        cells = [
            format_score(score) + _MARKS.get(verdicts.get((name, label), ""), "")
            for label, score in zip(columns, own, strict=True)
        ]
        rows.append(["first stage" if is_retrieved and _is_first_stage(chosen[name]) else name, *cells])
    is_common = len({*metrics}) == 1
    titles = [
        "mean" if label == COLLECTIONS else label if is_common else f"{label} ({metric})"
        for label, metric in zip(columns, metrics, strict=True)
    ]
    first = f"{metrics[0]} of" if is_common else "Scores of"
    legend = (
        f"{first} the tested models on collections that they were not trained on, mean ± standard deviation over "
        f"seeds. †, ‡, =: better, worse than, equivalent to {baseline}, corrected for the comparisons of the column. "
        "Bold: the best of a column."
    )
    return Section(
        "By collection",
        ["system", *titles],
        rows,
        legend,
        is_wide=len(titles) >= MAX_COLUMNS,
        bold=find_best(metrics, [*scores.values()]),
        label="collections",
    )


def _is_first_stage(configuration: Configuration | None) -> bool:
    runs = configuration.runs.values() if configuration else ()
    return any((run.config.get("specification") or {}).get("system") == "sampler" for run in runs)
