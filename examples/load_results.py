"""Reads a finished study into pandas: its runs, its metric of every query, and an evaluation of your own.

FOLDER is the folder of a study, such as `results/quick`, of rankers or of sentence encoders. Nothing is trained: the
scores of every candidate are in the records of the runs, so any other metric or evaluation is computed from them.

Run it: python examples/load_results.py FOLDER
"""

import sys

import pandas as pd

from analysis.results import per_query, read_records


def evaluate_ranking(scores: pd.DataFrame) -> dict[str, float]:
    """Return the mean margin of the best relevant candidate over the best other one, and how often it is above 0."""
    scores = scores[scores["score"] > float("-inf")]  # without relevant documents that a first stage missed
    best = scores.groupby(["query_id", "relevant"])["score"].max().unstack("relevant")
    margins = best[1] - best[0]
    return {"margin": margins.mean(), "first": (margins > 0).mean()}


def evaluate_pairs(scores: pd.DataFrame) -> dict[str, float]:
    """Return Pearson's correlation of cosine and gold similarity, as the mean over the sets of sentence pairs."""
    correlations = [pairs["score"].corr(pairs["relevant"]) for _, pairs in scores.groupby("query_id")]
    return {"pearson": sum(correlations) / len(correlations)}


def main(folder: str) -> None:
    """Print two tables of the test split."""
    results = read_records(folder)
    plan = results.plan
    print(f"{plan.study}: {len(results.runs)} runs, metric {plan.metric}")

    table = per_query(results, "test", plan.metric)  # one row for each system, seed and query, or pair of sentences
    means = table.groupby(["system", "seed"], dropna=False)["value"].mean().unstack("seed")
    print(f"\n{plan.metric} by seed", means.round(4), sep="\n")

    evaluate = evaluate_ranking if plan.unit == "query" else evaluate_pairs
    rows = []
    for run in results.runs:
        if run.is_finished and "test" in run.files and not run.is_difficulty_scorer:
            rows.append({"system": run.config["variant"], "seed": run.seed} | evaluate(run.read_scores("test")))
    own = pd.DataFrame(rows).astype({"seed": "Int64"}).sort_values(["system", "seed"], ignore_index=True)
    print("\nOwn evaluation of every run", own.round(4), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results/quick")
