"""Compares systems by a table of scores that no study wrote: columns system, seed, query and value.

Each score is one row. The tests take seeds and queries as samples, so a difference that only these seeds show does not
count. Put the file of your own scores in the place of `scores.csv`, or give its name.

Run it: python examples/compare_scores.py [SCORES.csv]
"""

import sys
from pathlib import Path

import pandas as pd

from analysis.compare import compare


def main() -> None:
    """Print the mean of each system, and its comparison with the baseline."""
    file = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("scores.csv")
    scores = pd.read_csv(file)
    print(scores.groupby("system")["value"].agg(["mean", "count"]).round(4))
    result = compare(scores, baselines=["baseline"])
    for one in result.comparisons:
        low, high = one.interval
        print(f"\n{one.system} against {one.baseline}: {one.verdict}")
        print(f"  difference {one.difference:+.4f}, interval {low:+.4f} to {high:+.4f}")
        print(f"  corrected p {one.adjusted['bonferroni']:.4f} for new queries and new seeds")
        print(f"  minimum detectable effect: about {one.detectable:.4f}")
    for line in result.missing:
        print(f"not compared: {line}")


if __name__ == "__main__":
    main()
