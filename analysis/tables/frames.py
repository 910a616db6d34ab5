"""The tables of a report as pandas data frames."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.data.configurations import Score
from analysis.stats.comparison import Comparison
from analysis.tables.main import ReportData


def build_systems_frame(analysis: ReportData) -> pd.DataFrame:
    """Return the main table, one row a system, in the order of the report.

    Returns:
        Columns system, configuration (id of the chosen one), strength, switch, settings, mean and standard deviation
        over seeds on both splits (dev_mean, dev_sd, test_mean, test_sd; NaN if incomplete), 95 % interval of the test
        mean (test_low, test_high) and note.
    """
    rows = [
        {
            "system": row.system,
            "configuration": row.configuration,
            "strength": row.strength,
            "switch": row.switch,
            "settings": row.settings,
            **_name_score("dev", row.dev),
            **_name_score("test", row.test),
            **dict(zip(("test_low", "test_high"), row.interval or (None, None), strict=True)),
            "note": row.note,
        }
        for row in analysis.table.rows
    ]
    frame = pd.DataFrame(rows)
    numbers = ["strength", "switch", "dev_mean", "dev_sd", "test_mean", "test_sd", "test_low", "test_high"]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def build_comparisons_frame(comparisons: Sequence[Comparison], corrections: Mapping[str, str]) -> pd.DataFrame:
    """Return one row a comparison, with the content of `Comparison.as_dict`.

    A key in an object is a column with a point, such as `adjusted.holm` or `targets.both.p`. `low` and `high` are the
    interval. In addition, `p` is that of the headline test, and `p_corrected` has the correction of the family. They
    are NaN if the systems were not compared.

    Args:
        comparisons: the comparisons.
        corrections: correction that decides, by name of the family.
    """
    rows = []
    for c in comparisons:
        low, high = c.interval or (None, None)
        headline = {"p": c.p, "p_corrected": c.adjusted[corrections[c.family]], "low": low, "high": high}
        rows.append({key: value for key, value in c.as_dict().items() if key != "interval"} | headline)
    frame = pd.json_normalize(rows)
    return frame.astype(dict.fromkeys(("p", "p_corrected", "low", "high"), "float64")) if rows else frame


def build_runs_frame(analysis: ReportData) -> pd.DataFrame:
    """Return the plan's metric, one row a finished run and split.

    Returns:
        Columns system, configuration, seed, metric, split, value, role. The role is that of the run: search, confirm
        or baseline; it is empty in records without one.
    """
    plan = analysis.results.plan
    rows = []
    for configuration in analysis.configurations:
        for seed, run in sorted(configuration.runs.items(), key=lambda item: -1 if item[0] is None else item[0]):
            for split in (plan.search_split, plan.test_split):
                if run.is_finished and split in run.files:
                    value = run.evaluate_queries(split, plan.metric).mean(skipna=False)
                    role = run.config.get("role")
                    rows.append((configuration.system, configuration.id, seed, plan.metric, split, value, role))
    frame = pd.DataFrame(rows, columns=["system", "configuration", "seed", "metric", "split", "value", "role"])
    return frame.astype({"seed": "Int64"})


def build_scores_frame(analysis: ReportData) -> pd.DataFrame:
    """Return the plan's metric of every test query, one row a score: the table that `analysis.compare` reads.

    Returns:
        Columns system, seed (missing for a system without seeds), query and value, of the systems that are complete on
        the test split. For a metric of sentence pairs, a query is a pair.
    """
    plan, frames = analysis.results.plan, []
    for system, chosen in analysis.chosen.items():
        if chosen is None or chosen.find_faults(plan, "test"):
            continue
        for seed in chosen.expected_seeds(plan, "test"):
            values = chosen.runs[seed].evaluate_queries(plan.test_split, plan.metric)
            columns = {"system": system, "seed": seed, "query": values.index, "value": values.to_numpy()}
            frames.append(pd.DataFrame(columns).astype({"seed": "Int64"}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _name_score(split: str, score: Score | None) -> dict[str, Any]:
    mean, deviation = (None, None) if score is None else score
    return {f"{split}_mean": mean, f"{split}_sd": deviation}
