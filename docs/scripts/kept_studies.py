"""Records of finished studies, and what is computed from them.

The scores of every query are in the archive, `analysis.archive`. NAME.json in docs/results/evidence has what a study
declared, its losses and its cost. A correlation has no scores of queries: then NAME.json has the means of the seeds and
the comparisons of the study's report. It has the comparisons, too, of a study that looked at its scores more than once.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.archive import FILE, load_scores
from analysis.comparisons.declared import make_settings
from analysis.data.measured_cost import compute_cost
from analysis.data.score_table import ScoreTable, build_score_table
from analysis.data.study_results import Results, per_query
from analysis.readers.study_reader import open_results
from analysis.rendering.conclusion import answer_study
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import differences_or_none, estimate_over_both, vary_over_seeds
from analysis.suites.comparisons import AverageComparison, average_estimates, correct_averages, make_average
from analysis.tables.main import ReportData, build_report_data
from trainables.utils.arrays import Floats
from trainables.utils.checksums import write_with_checksum

FOLDER = Path(__file__).parents[1] / "results" / "evidence"
_SETTINGS = ("alpha", "correction", "margin", "seeds")
"""Settings of the tests that a plan declares."""
_CURVE_POINTS = 16
"""Points of a loss curve that are kept: means over as many equal parts of the training."""
_ORDER = ["study", "query", "system", "seed"]
"""Columns by which the rows of the archive are sorted, which makes it small."""
_TYPES = dict.fromkeys(("study", "task", "metric", "system"), "category") | {
    "trained": "bool", "seed": "Int32", "query": "category", "value": "float32",
}  # fmt: skip
"""Columns of the archive."""
_NAMES = [name for name, kind in _TYPES.items() if kind == "category"]


class KeptComparison(NamedTuple):
    """A comparison, as a page tells it."""

    family: str
    metric: str
    system: str
    baseline: str
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    corrected: float | None
    verdict: str


def keep_evidence(name: str, source: str, folder: Path = FOLDER, archive: Path = FILE) -> None:
    """Keep a finished study: its scores in the archive, and NAME.json."""
    with open_results(source) as results:
        analysis = build_report_data(results)
        plan = results.plan
        scores = per_query(results, plan.test_split, plan.metric)
        chosen = {row.system: row.configuration for row in analysis.table.rows}
        scores = scores[scores["configuration"] == scores["system"].map(chosen)]
        summary = {**summarize(results, analysis), "queries": scores["query_id"].nunique()}
        trained = {
            run.config["configuration_id"] for run in results.runs if run.get_settings("training").get("instances")
        }
    if plan.is_correlation:
        means = scores.groupby(["system", "seed"], dropna=False)["value"].mean()
        summary["seed_means"] = {system: own.round(6).to_list() for system, own in means.groupby("system")}
    else:
        add_scores(
            scores.rename(columns={"query_id": "query"}).assign(
                study=name, task=plan.task, metric=plan.metric, trained=scores["configuration"].isin(trained)
            ),
            archive,
        )
    if plan.is_correlation or analysis.looks:
        summary["comparisons"] = [
            make_kept_comparison(c, summary) for c in analysis.comparisons if c.metric == plan.metric
        ]
    (folder / f"{name}.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")


def add_scores(scores: pd.DataFrame, file: Path) -> None:
    """Add the scores of a study to the archive, in place of those that it has of the study."""
    kept = [scores[[*_TYPES]]]
    if file.exists():
        others = load_scores(file=file)
        kept.append(others[~others["study"].isin(scores["study"].unique())])
    table = pd.concat([own.astype(dict.fromkeys(_NAMES, "str")) for own in kept]).sort_values(_ORDER, ignore_index=True)
    with write_with_checksum(file) as temporary:
        table.astype(_TYPES).to_parquet(
            temporary, compression="zstd", compression_level=19, row_group_size=len(table), index=False
        )


def summarize(results: Results, analysis: ReportData) -> dict[str, Any]:
    """Return what a page says about a study besides the scores of its queries."""
    plan, cost = results.plan, compute_cost(results)
    trained = [run.config["specification"] for run in results.runs if run.config["specification"].get("training")]
    return {
        "study": plan.study,
        "task": plan.task,
        "metric": plan.metric,
        "plan": {"hash": results.plan_hash, "version": plan.version},
        "families": {
            family.name: {
                "settings": {key: getattr(make_settings(plan, family), key) for key in _SETTINGS},
                "comparisons": [list(pair) for pair in family.comparisons],
            }
            for family in plan.test_families
            if plan.metric in plan.get_family_metrics(family)
        },
        "instances": max(one["training"]["instances"] for one in trained),
        "cost": {"hours": round(cost.hours, 2), "runs": cost.runs, "trained": cost.trained, "shared": cost.shared},
        "environment": trained[0]["environment"],
        "conclusion": answer_study(analysis).sentence,
        "systems": {
            row.system: {
                "strength": row.strength,
                "switch": row.switch,
                "dev": row.dev,
                "ECE": average_summary(results, row.configuration, f"{plan.test_split}/ECE"),
            }
            for row in analysis.table.rows
        },
        "losses": {row.system: average_losses(results, row.configuration) for row in analysis.table.rows},
    }


def average_losses(results: Results, configuration: str | None) -> list[float]:
    """Return the training loss of a configuration, averaged over runs and over equal parts of the training."""
    curves = list[list[float]]()
    for run in results.runs:
        losses = [row["train/loss"] for row in run.history if "train/loss" in row]
        if losses and run.config["configuration_id"] == configuration:
            curves.append([float(part.mean()) for part in np.array_split(losses, _CURVE_POINTS)])
    return [round(float(value), 4) for value in np.mean(curves, axis=0)] if curves else []


def average_summary(results: Results, configuration: str | None, key: str) -> float | None:
    """Return the mean of a number that the runs of a configuration recorded; None if they have none."""
    values = [
        run.summary[key]
        for run in results.runs
        if run.config["configuration_id"] == configuration and isinstance(run.summary.get(key), float)
    ]
    return round(float(np.mean(values)), 4) if values else None


@cache
def average_kept(names: tuple[str, ...], folder: Path = FOLDER, archive: Path = FILE) -> tuple[KeptComparison, ...]:
    """Average over kept studies every comparison that the first family of all of them declares, as a suite does."""
    summaries = [read_summary(name, folder) for name in names]
    families = [next(iter(summary["families"].values())) for summary in summaries]
    pairs = [pair for pair in families[0]["comparisons"] if all(pair in own["comparisons"] for own in families)]
    tables, (settings, *_) = [build_score_table(load_scores(name, archive)) for name in names], families
    alpha, correction, margin = (settings["settings"][key] for key in ("alpha", "correction", "margin"))
    estimates = [average_estimates([_estimate_difference(table, pair) for table in tables]) for pair in pairs]
    metric = summaries[0]["metric"]
    declared = [
        AverageComparison((), metric, system, baseline, len(names), None, None, "both") for system, baseline in pairs
    ]
    made = [make_average(*each, margin, alpha, len(pairs)) for each in zip(declared, estimates, strict=True)]
    kept = list[KeptComparison]()
    for c in correct_averages(made, alpha, correction):
        p = c.test.p if c.test else None
        kept.append(
            KeptComparison("average", metric, c.system, c.baseline, c.difference, c.interval, p, c.p, c.verdict)
        )
    return tuple(kept)


def average_control(names: tuple[str, ...], others: tuple[str, ...], system: str) -> tuple[list[float], Estimate]:
    """Compare a system of some studies with the same one of other studies, with the same queries and seeds.

    Returns:
        Its difference in each study, and the mean of the differences.
    """
    estimates = list[Estimate]()
    for pair in zip(names, others, strict=True):
        tables = [build_score_table(load_scores(name)) for name in pair]
        assert (tables[0].seeds, tables[0].queries) == (tables[1].seeds, tables[1].queries)
        estimates.append(_estimate(*(table.get_complete_scores(system) for table in tables)))
    return [each.mean for each in estimates], average_estimates(estimates)


def _estimate_difference(table: ScoreTable, pair: tuple[str, str]) -> Estimate:
    return _estimate(*map(table.get_complete_scores, pair))


def _estimate(system: Floats | None, baseline: Floats | None) -> Estimate:
    differences = differences_or_none(system, baseline)
    assert differences is not None
    return estimate_over_both(differences)


def make_kept_comparison(comparison: Comparison, summary: dict[str, Any]) -> KeptComparison:
    """Return what a page says about a comparison; its p-value is corrected as its family declares."""
    c = comparison
    corrected = c.adjusted[summary["families"][c.family]["settings"]["correction"]]
    return KeptComparison(c.family, c.metric, c.system, c.baseline, c.difference, c.interval, c.p, corrected, c.verdict)


@cache
def compare_kept(name: str, folder: Path = FOLDER, archive: Path = FILE) -> tuple[KeptComparison, ...]:
    """Make the declared comparisons of a kept study again from its scores, or read them where they are kept."""
    summary = read_summary(name, folder)
    if "comparisons" in summary:
        return tuple(KeptComparison(*row) for row in summary["comparisons"])
    table = build_score_table(load_scores(name, archive))
    compared = list[Comparison]()
    for family, declared in summary["families"].items():
        pairs = declared["comparisons"]
        sides = [(table.get_complete_scores(system), table.get_complete_scores(baseline)) for system, baseline in pairs]
        compared += compare_family(
            ComparisonFamily(
                family,
                summary["task"],
                summary["metric"],
                [(*pair, differences_or_none(*own)) for pair, own in zip(pairs, sides, strict=True)],
                poolable=[vary_over_seeds(*own) for own in sides],
            ),
            ComparisonSettings(**declared["settings"]),
        )
    return tuple(make_kept_comparison(c, summary) for c in compared)


def average_seeds(name: str, folder: Path = FOLDER, archive: Path = FILE) -> dict[str, list[float]]:
    """Return the mean over queries of each seed, by system."""
    summary = read_summary(name, folder)
    if "seed_means" in summary:
        return dict(summary["seed_means"])
    table = build_score_table(load_scores(name, archive))
    return {system: table.values[system].mean(axis=1).tolist() for system in summary["systems"]}


def read_summary(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Read what is kept of a study besides its scores."""
    return dict(json.loads((folder / f"{name}.json").read_text("utf-8")))
