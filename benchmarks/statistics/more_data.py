"""Share by which more queries, or more seeds, shorten the intervals of the kept studies.

python -m benchmarks.statistics.more_data

The variance of a difference has the parts seeds / S, queries / Q and rest / (S Q), estimated over all trained systems
of a study. A row has the share of the variance that falls with the number of queries. The next two columns are the
shares of the standard error that four times the queries, and four times the seeds, remove.
"""

from typing import NamedTuple

from analysis.data.score_table import build_score_table
from analysis.readers.score_files import read_score_file
from analysis.stats.power import DifferenceVariance
from analysis.stats.variance_components import estimate_variance_components
from benchmarks.statistics.power import true_error
from benchmarks.statistics.simulation import format_share, print_header, print_row
from docs.scripts.kept_studies import FOLDER
from trainables.utils.arrays import Floats

FACTOR = 4


class Gain(NamedTuple):
    """Gain of more data in the standard error of a difference.

    Attributes:
        of_queries: share of the variance that falls with the number of queries.
        more_queries: share of the standard error that four times the queries remove.
        more_seeds: share of the standard error that four times the seeds remove.
    """

    of_queries: float
    more_queries: float
    more_seeds: float


def read_trained_scores(name: str) -> list[Floats]:
    """Read the scores (seeds, queries) of the trained systems of a kept study."""
    values = build_score_table(read_score_file(FOLDER / f"{name}.parquet")).values
    most = max(len(own) for own in values.values())
    return [own for system, own in values.items() if len(own) == most and system != "untrained"]


def compute_gain(variance: DifferenceVariance, seeds: int, queries: int) -> Gain:
    """Compute what more data does.

    Example:
        >>> compute_gain(DifferenceVariance(seed=0.1, query=0.0, rest=0.0), 10, 100)
        Gain(of_queries=0.0, more_queries=0.0, more_seeds=0.5)
    """
    error = true_error(variance, seeds, queries)
    return Gain(
        1 - variance.seed / seeds / error**2,
        1 - true_error(variance, seeds, FACTOR * queries) / error,
        1 - true_error(variance, FACTOR * seeds, queries) / error,
    )


def main() -> None:
    """Print a row for each kept study with the scores of every query."""
    print_header("study", "systems", "seeds", "queries", "variance of queries", "4 x queries", "4 x seeds")
    for path in sorted(FOLDER.glob("*.parquet")):
        scores = read_trained_scores(path.stem)
        components = estimate_variance_components(scores)
        assert components is not None
        seeds, queries = scores[0].shape
        gain = compute_gain(components.to_difference_variance(), seeds, queries)
        print_row(path.stem, len(scores), seeds, f"{queries:,}", *(format_share(share, 2) for share in gain))


if __name__ == "__main__":
    main()
