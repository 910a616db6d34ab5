"""Notes below the headings of the report: what is incomplete, exploratory, left out or stopped early."""

from analysis.data.cautions import list_cautions
from analysis.data.study_results import Results
from analysis.tables.dev_only import is_untested
from analysis.tables.main import ReportData
from records.plan import Plan
from records.search_log import SearchLog
from trainables.metrics import get_set_name
from trainables.text.text_overlap import describe_overlap


def list_search_notes(analysis: ReportData) -> list[str]:
    """List what the search left out or stopped."""
    results = analysis.results
    shown = {row.fault for row in analysis.table.rows if row.test is None}
    return [
        *(note for note in analysis.table.notes if note not in shown),  # these are on the first screen
        *(describe_search(results.plan, results.search) if results.search else []),
    ]


def list_data_notes(results: Results) -> list[str]:
    """List what the scores cannot be compared with, and what was left out of the data."""
    return [*list_cautions(results), *_describe_data(results.plan), *_describe_sets(results.plan)]


def list_run_notes(analysis: ReportData) -> list[str]:
    """List unfinished runs, and how to complete a project that lacks runs."""
    killed = ", ".join(run.id for run in analysis.results.unfinished)
    return [*_describe_missing_runs(analysis), *([f"Unfinished runs, not counted: {killed}"] if killed else [])]


def describe_search(plan: Plan, search: SearchLog) -> list[str]:
    """Describe exhausted budgets, racing, and grids without the default."""
    notes = [
        f"{log.stopped} stopped the search of {system} after {log.proposed} of {log.wanted} proposals; with such a "
        "limit the results depend on the machine"
        for system, log in search.systems.items()
        if log.stopped
    ]
    if plan.pruning == "race":
        pruned = sum(len(log.get_proposals("dropped")) for log in search.systems.values())
        proposed = sum(len(log.proposals) for log in search.systems.values())
        notes.append(
            f"Racing pruned {pruned} of {proposed} configurations: one that was significantly worse got no more seeds"
        )
    lacking = [
        system
        for system, log in search.systems.items()
        if log.proposals and log.untuned and log.untuned not in {p.configuration_id for p in log.proposals}
    ]
    if lacking:
        notes.append(f"The default is not in the grid of {', '.join(lacking)}, so the search could not choose it")
    return notes


def _describe_missing_runs(analysis: ReportData) -> list[str]:
    """Say how to complete a project that lacks runs. A folder is read from its records, which are complete."""
    results, plan, known = analysis.results, analysis.results.plan, analysis.configurations
    logs = results.search.systems.values() if results.search else ()
    proposed = {proposal.configuration_id for log in logs for proposal in log.get_proposals("complete")}
    tested = known if is_untested(plan, known) else [c for c in known if c.is_tested(plan)]
    is_complete = (
        not results.unfinished
        and proposed <= {c.id for c in known}
        and {*plan.all_systems} <= {c.system for c in tested}
        and not any(c.lacks_runs(plan) for c in known)
    )
    if is_complete or not results.server_address:
        return []
    remedy = f"to upload those that the study's folder has and {results.server_address} lacks"
    return [f"Runs are missing; {remedy}, run python -m study.sync FOLDER"]


def _describe_data(plan: Plan) -> list[str]:
    data = plan.data or {}
    splits = data.get("splits", {})
    drawn = {split: drawn for split, counts in splits.items() if (drawn := counts.get("back_filled"))}
    filled = ", ".join(f"{count} in {split}" for split, count in drawn.items())
    left_out = sum(counts.get("relevant_left_out", 0) for counts in splits.values())
    repeated = data.get("repeated")
    skipped = ", ".join(f"{count} x {reason}" for reason, count in data.get("skipped", {}).items())
    return [
        *([f"Random candidates, because the negative sampler found too few: {filled}"] if drawn else []),
        *([f"Task entries for a query that already existed, merged with it: {repeated}"] if repeated else []),
        *(f"Splits overlap: {describe_overlap(row)}" for row in data.get("overlaps", [])),
        *(
            [f"Relevant documents left out, because a query had more than its candidates: {left_out}"]
            if left_out
            else []
        ),
        *([f"Skipped while reading the task: {skipped}"] if skipped else []),
    ]


def _describe_sets(plan: Plan) -> list[str]:
    """Describe the sets of sentence pairs in the splits, and how many pairs are distinct.

    Sets may share pairs.
    """
    data = plan.data or {}
    lines = []
    for split, subsets in sorted(data.get("sets", {}).items()):
        names, pairs = {get_set_name(name) for name in subsets}, sum(subsets.values())
        source = names.pop() if len(names) == 1 else f"{len(names)} sets"
        distinct = data["splits"][split]["queries"]
        lines.append(f"{split}: {pairs} of {source}" + (f", {distinct} of them distinct" if distinct < pairs else ""))
    return [f"Sentence pairs of {'; '.join(lines)}"] if lines else []
