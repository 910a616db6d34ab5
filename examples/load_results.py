"""Reads a finished study into pandas: its runs, a metric of every query, and an evaluation of your own.

FOLDER is the folder of a study, such as `results/quick`. Nothing is trained: the scores of every candidate are in the
records of the runs, so any other metric or evaluation is computed from them.

Run it: python examples/load_results.py FOLDER
"""

import sys

import pandas as pd

from analysis.results import per_query, read_records


def compute_margins(scores: pd.DataFrame) -> pd.Series:
    """Return the score of the best relevant candidate minus that of the best other one, by query."""
    best = scores.groupby(["query_id", "relevant"])["score"].max().unstack("relevant")
    return best[1] - best[0]


def main(folder: str) -> None:
    """Print three tables of the test split."""
    results = read_records(folder)
    print(f"{results.plan.study}: {len(results.runs)} runs, metric {results.plan.metric}")

    table = per_query(results, "test", "MRR")  # one row for each system, seed and query
    means = table.groupby(["system", "seed"], dropna=False)["value"].mean().unstack("seed")
    print("\nMRR by seed", means.round(4), sep="\n")

    rows = []
    for run in results.runs:
        if run.is_finished and "test" in run.files:
            margins = compute_margins(run.read_scores("test"))
            first = (margins > 0).mean()
            rows.append({"system": run.config["variant"], "seed": run.seed, "margin": margins.mean(), "first": first})
    own = pd.DataFrame(rows).sort_values(["system", "seed"], ignore_index=True)
    print("\nMargin of the best relevant candidate, and share of queries in which it is first", own.round(4), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results/quick")
