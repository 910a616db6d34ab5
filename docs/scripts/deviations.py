"""Makes the table of deviations that studies are planned with, from the kept studies.

python -m docs.scripts.deviations > analysis/comparisons/known_deviations.csv
"""

from analysis.archive import load_scores
from analysis.data.score_table import build_score_table
from analysis.stats.variance_components import estimate_variance_components
from docs.scripts.kept_studies import read_summary

STUDIES = {
    "conversations": "smoothing-ubuntu-bm25",
    "docstrings": "smoothing-docstrings-bm25",
    "question-pairs": "smoothing-qqp-bm25",
}
"""Kept study of each task: those with BM25's negatives, in which no run collapsed."""


def format_deviations() -> str:
    """Return the table as CSV."""
    lines = ["task,metric,seed,query,rest,seeds,queries,source"]
    for task, name in STUDIES.items():
        summary, table = read_summary(name), build_score_table(load_scores(name))
        systems = dict.fromkeys(own for pair in summary["families"]["variants"]["comparisons"] for own in pair)
        components = estimate_variance_components([table.values[system] for system in systems])
        if components is None or components.seed_median is None:
            raise ValueError(f"{name} has too little data")
        variances = (components.seed_median, components.query_by_system, components.rest)
        deviations = ",".join(f"{variance**0.5:.4f}" for variance in variances)
        lines.append(
            f"{task},{summary['metric']},{deviations},{len(table.seeds)},{len(table.queries)},{summary['study']}"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(format_deviations(), end="")
