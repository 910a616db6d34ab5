"""The whole of the statistics on anyone's scores.

    python -m analysis.compare SCORES.csv [--baseline NAME ...] [--alpha .05] [--correction bonferroni] [--margin M]
                               [--test sign-flip] [--json FILE]

SCORES is a CSV or Parquet file with columns system, value and, as far as there are such, seed and query: a row a score.
Without --baseline every system is compared with every other one.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.handle_signals("analysis.compare")

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pandas as pd

from analysis.data.score_table import ScoreTable, build_score_table, read_score_file
from analysis.rendering import cells as render
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.stats.paired_tests import differences_or_none
from analysis.stats.permutation_tests import TESTS
from analysis.stats.variance_components import VarianceComponents, describe_deviations, estimate_variance_components
from analysis.tables.main import format_p_value
from trainables.utils.cli import Parser, print_error, print_escaped
from trainables.utils.errors import UserError
from trainables.utils.files import write_json


@dataclass(frozen=True)
class ComparisonResult:
    """A table of scores, compared.

    Attributes:
        cube: the scores.
        settings: how they were judged.
        comparisons: in order of baselines, then of systems, as the table names them.
        faults: what is missing of whom; those systems are not compared, and count in the corrections.
        variance: its parts over the complete systems that have all seeds; None where there are too few.
    """

    scores: ScoreTable
    settings: ComparisonSettings
    comparisons: list[Comparison]
    missing: list[str]
    variance: VarianceComponents | None


def compare(
    scores: pd.DataFrame | ScoreTable,
    baselines: Sequence[str] = (),
    settings: ComparisonSettings | None = None,
    where: str = "scores",
) -> ComparisonResult:
    """Compares systems by their scores.

    Args:
        scores: columns system, value and, as far as there are such, seed and query; or what
            `analysis.data.score_table` made of it.
        baselines: each other system is compared with each of them, they themselves are not; none: every system with
            every other one.
        settings: level, correction, margin, further tests.
        where: what an error calls the table.

    Raises:
        UserError: the table is not as it should be, or has no such baseline.
    """
    settings = settings or ComparisonSettings()
    table = scores if isinstance(scores, ScoreTable) else build_score_table(scores, where)
    names, baselines = list(table.values), list(dict.fromkeys(baselines))
    for name in baselines:
        if name not in table.values:
            raise UserError("baseline", name, f"one of {', '.join(names)}")
    others = [name for name in names if name not in baselines]
    pairs = [(name, baseline) for baseline in baselines for name in others]
    if not baselines:
        pairs = [(second, first) for first, second in combinations(names, 2)]
    if not pairs:
        raise UserError("baseline", ", ".join(baselines), "a system to compare with them")
    if max(len(table.seeds), len(table.queries)) < 2:
        raise UserError(where, "one seed and one query", "several seeds or several queries: their spread is the test's")
    complete = {name: table.get_complete_scores(name) for name in names}
    paired_scores = [(one, other, differences_or_none(complete[one], complete[other])) for one, other in pairs]
    whole = [values for values in complete.values() if values is not None and len(values) == len(table.seeds)]
    judged = compare_family(ComparisonFamily("scores", "", "value", paired_scores), settings)
    return ComparisonResult(table, settings, judged, table.describe_missing(), estimate_variance_components(whole))


_QUESTIONS = {
    "both": "p asks whether the systems differ on new queries and new seeds (two-way random effects)",
    "queries": "p asks whether these runs differ on new queries; of new seeds nothing can be said",
    "seeds": "p asks whether other seeds would differ on these queries; of new queries nothing can be said",
}


def format_result(result: ComparisonResult) -> str:
    """The comparisons for a terminal, and what has to be known to read them."""
    settings, comparisons = result.settings, result.comparisons
    of_all = "max-T" if settings.correction == "maxt" else "Bonferroni"
    number = f"{len(comparisons)} comparison{'s' * (len(comparisons) != 1)}"
    title = f"{number} at {settings.alpha:g}, {settings.correction}; intervals hold for all at once ({of_all})"
    questions = [_QUESTIONS[target] for target in dict.fromkeys(c.target for c in comparisons) if target]
    over = f" over {len(result.scores.seeds)} seeds, uncorrected" if len(result.scores.seeds) > 1 else ", uncorrected"
    free = [
        f"{c.system} over {c.baseline}, {name}{over}: {value if isinstance(value, str) else format_p_value(value)}"
        for c in comparisons
        for name, value in c.free.items()
    ]
    incomplete = [f"not compared: {fault}" for fault in result.missing]
    parts = [describe_deviations(result.variance)] if result.variance else []
    cells = render.format_comparisons(comparisons, settings.correction)
    return "\n".join([render.format_terminal_table(title, *cells, width=200), *questions, *parts, *free, *incomplete])


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="python -m analysis.compare", description="Compares systems by their scores.")
    parser.add_argument("scores", type=Path, help="CSV or Parquet: system, value and, if there are such, seed, query")
    parser.add_argument("--baseline", action="append", default=[], help="compare the others with this; may be repeated")
    parser.add_argument("--less-is-better", action="store_true", help="of these values")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of the family (.05)")
    parser.add_argument("--correction", choices=CORRECTIONS, default="bonferroni", help="the one that decides")
    parser.add_argument("--margin", type=float, help="differences below it do not matter")
    parser.add_argument("--test", action="append", default=[], choices=TESTS, help="also a distribution-free test")
    parser.add_argument("--json", type=Path, help="where the comparisons go as JSON")
    arguments = parser.parse_args(argv)
    try:
        _check_options(arguments.alpha, arguments.margin)
        settings = ComparisonSettings(
            arguments.alpha, arguments.correction, arguments.margin, tuple(arguments.test), arguments.less_is_better
        )
        result = compare(read_score_file(arguments.scores), arguments.baseline, settings, str(arguments.scores))
        if arguments.json:
            write_json(arguments.json, [comparison.as_dict() for comparison in result.comparisons])
    except UserError as error:
        print_error("", error)
        return 2
    except OSError as error:
        print_error("", f"--json: {arguments.json}: {error.strerror}; expected a file that can be written")
        return 2
    print_escaped(format_result(result))
    return 0


def _check_options(alpha: float, margin: float | None) -> None:
    if not 1e-9 <= alpha < 1:
        raise UserError("--alpha", alpha, "a number below 1, and no less than 1e-9")
    if margin is not None and not 0 < margin < math.inf:
        raise UserError("--margin", margin, "a number above 0, in units of the values")


if __name__ == "__main__":
    interruption.run_command(main)
