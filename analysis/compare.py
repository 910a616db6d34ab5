"""Compares systems by a table of scores, which need not come from a study.

    python -m analysis.compare SCORES.csv [--baseline NAME ...] [--alpha .05] [--correction bonferroni] [--margin M]
                               [--test sign-flip] [--seeds own|pooled] [--require PHRASE ...] [--json FILE]

SCORES is a CSV or Parquet file with columns system and value, and optionally seed and query: one row a score. Without
--baseline every system is compared with every other one.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("analysis.compare")

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import get_args

import pandas as pd

from analysis.checks.collapsed import OutlyingSeed, find_outlying_seeds, name_outlying_seeds
from analysis.checks.ranks import HEADER, RankedSystem, describe_ranks, rank_systems
from analysis.checks.requirements import RequirementResult, check_requirement
from analysis.checks.worst_seeds import compare_without_worst_seeds, describe_sensitivity
from analysis.data.score_table import ScoreTable, build_score_table, read_score_file
from analysis.rendering.cells import QUERIES_BONFERRONI, format_comparisons, format_terminal_table
from analysis.rendering.pooling import describe_pooling
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, SeedVariance, compare_family
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from analysis.stats.permutation_tests import TESTS
from analysis.stats.power import POWER
from analysis.stats.variance_components import VarianceComponents, describe_deviations, estimate_variance_components
from analysis.tables.main import format_p_value
from trainables.utils.cli import Parser, print_error, print_escaped, report_errors, write_json_option
from trainables.utils.errors import UserError


@dataclass(frozen=True)
class ComparisonResult:
    """The comparisons of a table of scores.

    Attributes:
        scores: the scores.
        settings: level, correction, margin and further tests.
        comparisons: comparisons in order of baselines, then of systems, as in the table.
        ranks: rank intervals and groups of the complete systems; empty if there are fewer than three.
        outlying: runs that look collapsed, or whose system's other seeds do.
        missing: description of missing scores. Systems that lack scores are not compared but count in the corrections.
        variance: variance components of the complete systems that have all seeds, beyond what they share. None if
            there are too few.
    """

    scores: ScoreTable
    settings: ComparisonSettings
    comparisons: list[Comparison]
    ranks: list[RankedSystem]
    outlying: list[OutlyingSeed]
    missing: list[str]
    variance: VarianceComponents | None


def compare(
    scores: pd.DataFrame | ScoreTable,
    baselines: Sequence[str] = (),
    settings: ComparisonSettings | None = None,
    where: str = "scores",
) -> ComparisonResult:
    """Compare systems by their scores.

    Args:
        scores: data frame with columns system and value, and optionally seed and query; or a score table made of one.
        baselines: systems that every other system is compared with. If empty, every system is compared with every
            other one.
        settings: level, correction, margin and further tests. If None, the defaults.
        where: name of the table in errors.

    Raises:
        UserError: if the table is not valid, or has no such baseline.

    Example:
        >>> import pandas as pd
        >>> values = {"BERT": [0.5, 0.6, 0.4, 0.7], "LS": [0.6, 0.8, 0.5, 0.8]}
        >>> rows = [(system, query, value) for system in values for query, value in enumerate(values[system])]
        >>> result = compare(pd.DataFrame(rows, columns=["system", "query", "value"]), ["BERT"])
        >>> round(result.comparisons[0].difference, 3), result.comparisons[0].verdict
        (0.125, 'better')
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
        raise UserError(
            where, "one seed and one query", "several seeds or several queries, because the tests need their spread"
        )
    complete = {name: table.get_complete_scores(name) for name in names}
    paired_scores = [
        (system, baseline, differences_or_none(complete[system], complete[baseline])) for system, baseline in pairs
    ]
    whole = [values for values in complete.values() if values is not None and len(values) == len(table.seeds)]
    poolable = [vary_over_seeds(complete[system], complete[baseline]) for system, baseline in pairs]
    family = ComparisonFamily("scores", "", "value", paired_scores, poolable=poolable)
    sides = [(complete[system], complete[baseline]) for system, baseline in pairs]
    comparisons = compare_without_worst_seeds(compare_family(family, settings), family, sides, table.seeds, settings)
    outlying = find_outlying_seeds(table.values, table.seeds, less_is_better=settings.less_is_better)
    return ComparisonResult(
        table,
        settings,
        name_outlying_seeds(comparisons, outlying),
        rank_systems({name: own for name, own in complete.items() if own is not None}, settings),
        outlying,
        table.describe_missing(),
        estimate_variance_components(whole),
    )


def require(result: ComparisonResult, phrase: str) -> RequirementResult:
    """Check whether a comparison shows what is required of it, by its corrected tests.

    Args:
        result: comparisons of a table of scores.
        phrase: "A better than B", "A not worse than B" or "A equivalent to B" with names of systems. The last two need
            a margin in the settings.

    Raises:
        UserError: if the phrase cannot be read, names an unknown system or a pair that is not compared, or needs a
            margin that is not set.

    Example:
        >>> import pandas as pd
        >>> values = {"BERT": [0.5, 0.6, 0.4, 0.7], "LS": [0.6, 0.8, 0.5, 0.8]}
        >>> rows = [(system, query, value) for system in values for query, value in enumerate(values[system])]
        >>> result = compare(pd.DataFrame(rows, columns=["system", "query", "value"]), ["BERT"])
        >>> print(require(result, "LS better than BERT"))
        LS better than BERT: met (difference +0.1250, corrected p 0.0154, alpha 0.05, for these runs)
        >>> require(result, "BERT better than LS").is_met
        False
    """
    return check_requirement(phrase, list(result.scores.values), result.comparisons, result.settings, result.missing)


_QUESTIONS = {
    "both": "p asks whether the systems differ on new queries and new seeds (two-way random effects)",
    "queries": "p asks whether these runs differ on new queries; it says nothing about new seeds",
    "seeds": "p asks whether other seeds would differ on these queries; it says nothing about new queries",
}
_USUAL_TEST = (
    f"{QUERIES_BONFERRONI} is the usual test: it asks whether these runs differ on new queries; it says nothing about "
    "new seeds"
)


def format_result(result: ComparisonResult) -> str:
    """Format the comparisons for a terminal, with the notes that are needed to read them."""
    settings, comparisons = result.settings, result.comparisons
    simultaneous = "max-T" if settings.correction == "maxt" else "Bonferroni"
    number = f"{len(comparisons)} comparison{'s' * (len(comparisons) != 1)}"
    title = (
        f"{number} at {settings.alpha:g}, {settings.correction}; intervals hold for all at once ({simultaneous}); "
        f"MDE at {POWER:.0%} power"
    )
    scope = f" over {len(result.scores.seeds)} seeds, uncorrected" if len(result.scores.seeds) > 1 else ", uncorrected"
    test_lines = [
        f"{c.system} over {c.baseline}, {name}{scope}: {value if isinstance(value, str) else format_p_value(value)}"
        for c in comparisons
        for name, value in c.free.items()
    ]
    missing_lines = [f"not compared: {fault}" for fault in result.missing]
    copy_lines = [
        f"{c.system} over {c.baseline}: the scores of all seeds are copies, which count as one seed"
        for c in comparisons
        if c.target == "queries" and all(_has_several_seeds(result.scores, name) for name in (c.system, c.baseline))
    ]
    pooling = describe_pooling(comparisons, settings.seeds)
    sensitivity = describe_sensitivity(comparisons)
    components = [describe_deviations(result.variance)] if result.variance else []
    table = format_comparisons(comparisons, settings.correction)
    return "\n".join(
        [
            format_terminal_table(title, *table, width=200),
            *_format_ranks(result),
            *_describe_questions(comparisons),
            *([pooling] if pooling else []),
            *copy_lines,
            *(seed.describe() for seed in result.outlying),
            *([sensitivity] if sensitivity else []),
            *components,
            *test_lines,
            *missing_lines,
        ]
    )


def _format_ranks(result: ComparisonResult) -> list[str]:
    if not result.ranks:
        return []
    rows = [own.to_cells() for own in result.ranks]
    return [
        format_terminal_table("groups", HEADER, rows),
        f"{describe_ranks(len(rows), result.settings.alpha)}\n",
    ]


def _describe_questions(comparisons: Sequence[Comparison]) -> list[str]:
    """Say what the p-values ask; if they ask about different populations, for which comparisons."""
    by_target: dict[str, list[str]] = {}
    for c in comparisons:
        if c.target:
            by_target.setdefault(c.target, []).append(f"{c.system} over {c.baseline}")
    usual = [_USUAL_TEST] if "both" in by_target else []
    if len(by_target) == 1:
        return [_QUESTIONS[target] for target in by_target] + usual
    return [f"{', '.join(names)}: {_QUESTIONS[target]}" for target, names in by_target.items()] + usual


def _has_several_seeds(scores: ScoreTable, name: str) -> bool:
    values = scores.get_complete_scores(name)
    return values is not None and len(values) > 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure or a requirement not met."""
    parser = Parser(prog="python -m analysis.compare", description="Compares systems by their scores.")
    parser.add_argument("scores", type=Path, help="CSV or Parquet file: system, value, optionally seed and query")
    parser.add_argument(
        "--baseline", action="append", default=[], help="compare the other systems with this one; may be repeated"
    )
    parser.add_argument("--less-is-better", action="store_true", help="smaller values are better")
    parser.add_argument("--alpha", type=float, default=0.05, help="significance level of the family (.05)")
    parser.add_argument("--correction", choices=CORRECTIONS, default="bonferroni", help="correction that decides")
    parser.add_argument("--margin", type=float, help="differences below it do not matter")
    parser.add_argument("--test", action="append", default=[], choices=TESTS, help="add a distribution-free test")
    parser.add_argument(
        "--seeds",
        choices=get_args(SeedVariance),
        default="own",
        help="variation between seeds: each comparison's own, or pooled over all of them",
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="PHRASE",
        help='status 1 unless "A better than B", "A not worse than B" or "A equivalent to B"; may be repeated',
    )
    parser.add_argument("--json", type=Path, help="also write the comparisons to this JSON file")
    arguments = parser.parse_args(argv)
    return report_errors("analysis.compare", lambda: _compare_file(arguments))


def _compare_file(arguments: argparse.Namespace) -> int:
    _check_options(arguments.alpha, arguments.margin)
    settings = ComparisonSettings(
        arguments.alpha,
        arguments.correction,
        arguments.margin,
        tuple(arguments.test),
        arguments.less_is_better,
        seeds=arguments.seeds,
    )
    result = compare(read_score_file(arguments.scores), arguments.baseline, settings, str(arguments.scores))
    requirements = [require(result, phrase) for phrase in arguments.require]
    if arguments.json:
        write_json_option(arguments.json, [comparison.as_dict() for comparison in result.comparisons])
    print_escaped(format_result(result))
    for requirement in requirements:
        if requirement.is_met:
            print_escaped(requirement)
        else:
            print_error("analysis.compare", requirement)
    return 0 if all(requirement.is_met for requirement in requirements) else 1


def _check_options(alpha: float, margin: float | None) -> None:
    if not 1e-9 <= alpha < 1:
        raise UserError("--alpha", alpha, "a number from 1e-9 to below 1")
    if margin is not None and not 0 < margin < math.inf:
        raise UserError("--margin", margin, "a number above 0, in units of the values")


if __name__ == "__main__":
    interruption.run_command(main)
