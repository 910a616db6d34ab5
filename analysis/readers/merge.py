"""Adds what W&B lacks of a study from its run records: W&B may be behind, the records never are."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from analysis.data.query_attributes import merge_query_tables
from analysis.data.results import Results
from analysis.data.run import Run
from analysis.data.search_log import SearchLog
from trainables.utils.errors import UserError


class Completed(NamedTuple):
    """Results with all that the records have, and how many runs were taken from these, by what W&B lacked."""

    results: Results
    absent: int = 0
    unfinished: int = 0
    unscored: int = 0

    @property
    def taken(self) -> int:
        """Number of runs that were taken from the records."""
        return self.absent + self.unfinished + self.unscored

    def line(self, records: Path) -> str:
        """Describe what was done in one line."""
        runs = "1 run" if self.taken == 1 else f"{self.taken} runs"
        why = f"{self.absent} not in W&B, {self.unfinished} unfinished there, {self.unscored} without scores there"
        return f"{runs} taken from the records in {records}: {why}"


def complete(results: Results, records: Results) -> Completed:
    """The same study with the records' runs where W&B has none, an unfinished one, or one without its scores.

    Of plan, search and queries, what is further counts.

    Raises:
        UserError: the records are of another study, or of another plan of the same version, or of other queries.
    """
    plan, other = results.plan, records.plan
    if other.study != plan.study:
        raise UserError("records", f"those of the study {other.study!r}", f"those of {plan.study!r}")
    if other.version == plan.version and records.plan_hash != results.plan_hash:
        raise UserError("records", f"plan {records.plan_hash}", f"{results.plan_hash}, as in W&B")
    runs, counts = {run.specification_id: run for run in results.runs}, {"absent": 0, "unfinished": 0, "unscored": 0}
    for run in records.runs:
        own = runs.get(run.specification_id)
        if own is None:
            counts["unfinished" if run.id in results.unfinished else "absent"] += 1
        elif run.is_finished and not own.is_finished:
            counts["unfinished"] += 1
        elif run.is_finished and not run.files.keys() <= own.files.keys():
            counts["unscored"] += 1
        else:
            continue
        runs[run.specification_id] = _merge_runs(run, own)
    newer = records if other.version > plan.version else results
    known = {run.id for run in runs.values()}
    completed = Results(
        newer.plan,
        newer.plan_hash,
        sorted(runs.values(), key=lambda run: run.id),
        max(results.search, records.search, key=_count_reported),
        [key for key in results.unfinished if key not in known],
        merge_query_tables(results.queries, records.queries),
    )
    return Completed(completed, **counts)


def _merge_runs(run: Run, own: Run | None) -> Run:
    """The record's run, with what W&B has beyond it.

    Raises:
        UserError: the scores of one are not those that the other noted.
    """
    if own is None or not own.is_finished:
        return run if own is None else replace(run, url=own.url or run.url)
    merged = replace(
        run, files=run.files | own.files, summary=run.summary | own.summary, url=own.url or run.url, _values={}
    )
    merged.check_files()
    return merged


def _count_reported(search: SearchLog | None) -> tuple[int, int]:
    """Describe how far a search has come: proposals whose end is known, and winners."""
    systems = search.systems.values() if search else ()
    ended = sum(len(own.proposals) - len(own.get_proposals("unknown")) for own in systems)
    return ended, sum(own.winner is not None for own in systems)
