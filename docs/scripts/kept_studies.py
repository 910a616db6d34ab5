"""Files of finished studies in docs/results/evidence, and what is computed from them.

NAME.parquet has the scores of every query, in the columns system, seed, query and value, so that `python -m
analysis.compare` reads it. NAME.json has what the study declared, its losses and its cost. If there are more scores
than a repository should hold, there is no NAME.parquet, and NAME.json has the means of the seeds and the comparisons
of the study's report. It has the comparisons, too, of a study that looked at its scores more than once.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.comparisons.declared import make_settings
from analysis.data.measured_cost import compute_cost
from analysis.data.score_table import build_score_table
from analysis.data.study_results import Results, per_query
from analysis.readers.score_files import read_score_file
from analysis.readers.study_reader import open_results
from analysis.rendering.conclusion import answer_study
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from analysis.tables.main import ReportData, build_report_data

FOLDER = Path(__file__).parents[1] / "results" / "evidence"
_SETTINGS = ("alpha", "correction", "margin", "seeds")
"""Settings of the tests that a plan declares."""
_CURVE_POINTS = 16
"""Points of a loss curve that are kept: means over as many equal parts of the training."""
_MOST_SCORES = 100_000
"""Scores that are kept one by one; of more, the results."""


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


def keep_evidence(name: str, source: str, folder: Path = FOLDER) -> None:
    """Write the two files of a finished study."""
    with open_results(source) as results:
        analysis = build_report_data(results)
        split, metric = results.plan.test_split, results.plan.metric
        scores = per_query(results, split, metric)
        chosen = {row.system: row.configuration for row in analysis.table.rows}
        scores = scores[scores["configuration"] == scores["system"].map(chosen)]
        summary = {**summarize(results, analysis), "queries": scores["query_id"].nunique()}
    path = folder / f"{name}.parquet"
    folder.mkdir(exist_ok=True)
    too_many = len(scores) > _MOST_SCORES
    if too_many:
        path.unlink(missing_ok=True)
        means = scores.groupby(["system", "seed"], dropna=False)["value"].mean()
        summary["seed_means"] = {system: own.round(6).to_list() for system, own in means.groupby("system")}
    else:
        write_scores(scores, path)
    if too_many or analysis.looks:
        summary["comparisons"] = [make_kept_comparison(c, summary) for c in analysis.comparisons if c.metric == metric]
    (folder / f"{name}.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")


def write_scores(scores: pd.DataFrame, path: Path) -> None:
    """Write the score of every query in every run."""
    types = {"system": "category", "seed": "Int32", "query": "category", "value": "float32"}
    table = scores.rename(columns={"query_id": "query"}).reset_index(drop=True)[[*types]].astype(types)
    table.to_parquet(path, compression="zstd", index=False)


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


def make_kept_comparison(comparison: Comparison, summary: dict[str, Any]) -> KeptComparison:
    """Return what a page says about a comparison; its p-value is corrected as its family declares."""
    c = comparison
    corrected = c.adjusted[summary["families"][c.family]["settings"]["correction"]]
    return KeptComparison(c.family, c.metric, c.system, c.baseline, c.difference, c.interval, c.p, corrected, c.verdict)


@cache
def compare_kept(name: str, folder: Path = FOLDER) -> tuple[KeptComparison, ...]:
    """Make the declared comparisons of a kept study again from its scores, or read them where they are kept."""
    summary = read_summary(name, folder)
    if "comparisons" in summary:
        return tuple(KeptComparison(*row) for row in summary["comparisons"])
    table = build_score_table(read_score_file(folder / f"{name}.parquet"))
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


def average_seeds(name: str, folder: Path = FOLDER) -> dict[str, list[float]]:
    """Return the mean over queries of each seed, by system."""
    summary = read_summary(name, folder)
    if "seed_means" in summary:
        return dict(summary["seed_means"])
    table = build_score_table(read_score_file(folder / f"{name}.parquet"))
    return {system: table.values[system].mean(axis=1).tolist() for system in summary["systems"]}


def read_summary(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Read what is kept of a study besides its scores."""
    return dict(json.loads((folder / f"{name}.json").read_text("utf-8")))
