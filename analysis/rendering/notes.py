"""What a reader has to know beside the tables: what is incomplete, exploratory, left out, stopped early."""

from analysis.data.plan import Plan
from analysis.data.search_log import SearchLog
from analysis.tables.cautions import list_cautions
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER, get_set_name
from trainables.utils.text_overlap import describe_overlap

_ALONE = "One seed: the comparisons are for new queries, and nothing can be said of other seeds"


def collect_notes(analysis: ReportData) -> list[str]:
    """Those of the main table, of the search, then of the data."""
    results = analysis.results
    late = (results.plan.model_extra or {}).get("exploratory", [])
    named = ", ".join(f"{system} over {baseline}" for system, baseline in late)
    killed = ", ".join(results.unfinished)
    alone = analysis.table.seeds == 1
    return [
        *analysis.table.notes,
        *([results.plan.adapt_to_unit(_ALONE)] if alone else []),
        *([f"Exploratory, declared when there were {results.plan.test_split} scores: {named}"] if late else []),
        *(describe_search(results.plan, results.search) if results.search else []),
        *list_cautions(results),
        *_describe_data(results.plan),
        *_describe_sets(results.plan),
        *([f"Not counted, because unfinished: {killed}"] if killed else []),
    ]


def describe_search(plan: Plan, search: SearchLog) -> list[str]:
    """Budgets that were spent, the race, several objectives, grids without the untuned default."""
    found = [
        f"{own.stopped}: {own.proposed} of {own.wanted} proposals of {system} were made; what such a study finds "
        "depends on the machine"
        for system, own in search.systems.items()
        if own.stopped
    ]
    if plan.pruning == "race":
        dropped = sum(len(own.get_proposals("dropped")) for own in search.systems.values())
        proposed = sum(len(own.proposals) for own in search.systems.values())
        found.append(
            "Race pruning was on: a configuration that was significantly behind got no more seeds; it dropped "
            f"{dropped} of {proposed} configurations"
        )
    if len(plan.search_objectives) > 1:
        named = ", ".join(
            f"{name} ({'least' if name in LOWER_IS_BETTER else 'most'})" for name in plan.search_objectives
        )
        found.append(
            f"Several objectives were searched for: {named}. The winner is the best of its Pareto front by the first"
        )
    lacking = [
        system
        for system, own in search.systems.items()
        if own.proposals and own.untuned and own.untuned not in {p.configuration_id for p in own.proposals}
    ]
    if lacking:
        found.append(
            f"The untuned default is not in the grid of {', '.join(lacking)}: it was not among what the search could "
            "choose"
        )
    return found


def _describe_data(plan: Plan) -> list[str]:
    data = plan.data or {}
    splits = data.get("splits", {})
    drawn = {split: drawn for split, counts in splits.items() if (drawn := counts.get("back_filled"))}
    filled = ", ".join(f"{count} in {split}" for split, count in drawn.items())
    lost = sum(counts.get("relevant_left_out", 0) for counts in splits.values())
    again = data.get("repeated")
    skipped = ", ".join(f"{count} x {reason}" for reason, count in data.get("skipped", {}).items())
    return [
        *([f"Candidates drawn at random, because the negative sampler found too few: {filled}"] if drawn else []),
        *([f"Entries of the task that name a query again, merged with it: {again}"] if again else []),
        *(f"Splits overlap: {describe_overlap(row)}" for row in data.get("overlaps", [])),
        *([f"Relevant documents left out, more than a query's candidates have room for: {lost}"] if lost else []),
        *([f"Skipped while reading the task: {skipped}"] if skipped else []),
    ]


def _describe_sets(plan: Plan) -> list[str]:
    """Which sets of sentence pairs the splits are, and how many pairs: sets may share some."""
    data = plan.data or {}
    lines = []
    for split, subsets in sorted(data.get("sets", {}).items()):
        names, pairs = {get_set_name(name) for name in subsets}, sum(subsets.values())
        of = names.pop() if len(names) == 1 else f"{len(names)} sets"
        distinct = data["splits"][split]["queries"]
        lines.append(f"{split}: {pairs} of {of}" + (f", {distinct} of them distinct" if distinct < pairs else ""))
    return [f"Sentence pairs of {'; '.join(lines)}"] if lines else []
