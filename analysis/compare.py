"""Compares systems by scores or by runs, which need not come from a study.

    python -m analysis.compare SCORES.csv [--metric M] [--baseline NAME ...] [--alpha .05] [--correction bonferroni]
                               [--margin M] [--test sign-flip] [--seeds own|pooled] [--groups]
                               [--to FILE.md|.tex|.csv] [--json FILE]
    python -m analysis.compare --qrels QRELS --metric nDCG@10 --runs NAME=FILE[,FILE...] NAME=FILE[,FILE...] ...
                               [...]

SCORES is a CSV or Parquet file with columns system and value, and optionally seed and query: one row a score; or a
table of models by tasks. Runs are TREC runs or predictions of MTEB or sentence-transformers, a file for each seed, or a
pattern with * in place of the seed; ir_measures evaluates them. Without
--baseline every system is compared with every other one. --to writes the printed table as Markdown or LaTeX, or every
number as CSV.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("analysis.compare")

import argparse
import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from analysis.checks.collapsed_seeds import find_outlying_seeds, name_outlying_seeds
from analysis.checks.equal_rankers import examine_equal_rankers
from analysis.checks.ranks import rank_systems
from analysis.data.score_table import ScoreTable, build_score_table
from analysis.readers.evaluated_runs import parse_runs, read_runs
from analysis.readers.score_files import read_score_file
from analysis.rendering.document import render_latex, render_markdown
from analysis.rendering.escaping import render_csv
from analysis.rendering.result_table import ComparisonResult, build_result_document, format_result
from analysis.stats.comparison import ComparisonFamily, ComparisonSettings, SeedVariance, compare_family
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from analysis.stats.permutation_tests import TESTS
from analysis.stats.variance_components import estimate_variance_components
from trainables.utils.cli import Parser, print_escaped, report_errors, write_json_option, write_text_option
from trainables.utils.errors import UserError
from trainables.utils.files import read_head

__all__ = ["ComparisonResult", "compare", "format_result", "main", "read_runs", "read_score_file"]
_MARKS = {
    ".md": "<!-- by analysis.compare -->\n",
    ".tex": "% by analysis.compare\n",
    ".csv": "system,mean,sd,mean_low,",
}
"""Beginnings of the files of --to, by which the command knows its own."""


def compare(
    scores: pd.DataFrame | ScoreTable,
    baselines: Sequence[str] = (),
    settings: ComparisonSettings | None = None,
    where: str = "scores",
    metric: str = "value",
) -> ComparisonResult:
    """Compare systems by their scores.

    Args:
        scores: data frame with columns system and value, and optionally seed and query; or a score table made of one.
        baselines: systems that every other system is compared with. If empty, every system is compared with every
            other one.
        settings: level, correction, margin and further tests. If None, the defaults.
        where: name of the table in errors.
        metric: name of the value in tables. It does not say what is better, see `settings`.

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
    known = {name: own for name, own in complete.items() if own is not None}
    paired_scores = [
        (system, baseline, differences_or_none(complete[system], complete[baseline])) for system, baseline in pairs
    ]
    if not any(np.isfinite(table.values[system] + table.values[baseline]).any() for system, baseline in pairs):
        fault = f"no score in common: {table.describe_missing()[0]}"
        raise UserError(where, fault, "scores of the same queries, and of the same seeds")
    whole = [values for values in known.values() if len(values) == len(table.seeds)]
    poolable = [vary_over_seeds(complete[system], complete[baseline]) for system, baseline in pairs]
    family = ComparisonFamily("scores", "", "value", paired_scores, poolable=poolable)
    outlying = find_outlying_seeds(table.values, table.seeds, less_is_better=settings.less_is_better)
    return ComparisonResult(
        table,
        settings,
        name_outlying_seeds(compare_family(family, settings), outlying),
        rank_systems(known, settings),
        outlying,
        examine_equal_rankers(known),
        table.describe_missing(),
        estimate_variance_components(whole),
        metric,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser("analysis.compare", "Compares systems by their scores or runs.")
    parser.add_argument(
        "scores", type=Path, nargs="?", help="CSV or Parquet file: system, value, optionally seed and query"
    )
    parser.add_argument("--qrels", type=Path, help="instead of scores, with --runs: qrels of TREC or BEIR")
    parser.add_argument(
        "--runs",
        nargs="+",
        default=[],
        metavar="NAME=FILE,...",
        help="TREC runs or predictions in JSON of each system, a file for each seed, or NAME='run-*.trec'",
    )
    parser.add_argument("--metric", help="metric of the runs, such as nDCG@10, or measure of the scores to compare")
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
    parser.add_argument("--groups", action="store_true", help="add rank intervals and groups of systems")
    parser.add_argument("--to", type=Path, metavar="FILE", help="also write the table (.md, .tex) or all (.csv)")
    parser.add_argument("--json", type=Path, help="also write the comparisons to this JSON file")
    arguments = parser.parse_args(argv)
    return report_errors("analysis.compare", lambda: _compare(arguments))


def _compare(arguments: argparse.Namespace) -> None:
    _check_options(arguments.alpha, arguments.margin, arguments.to)
    settings = ComparisonSettings(
        arguments.alpha,
        arguments.correction,
        arguments.margin,
        tuple(arguments.test),
        arguments.less_is_better,
        seeds=arguments.seeds,
    )
    notes: list[str] = []
    scores, where = _read_input(arguments, notes)
    result = compare(scores, arguments.baseline, settings, where, arguments.metric or "value")
    run_files = [path for paths in parse_runs(arguments.runs).values() for path in paths.values()]
    inputs = [path for path in (arguments.scores, arguments.qrels, *run_files) if path]
    if arguments.json:
        write_json_option(arguments.json, [comparison.as_dict() for comparison in result.comparisons], inputs)
    if arguments.to:
        mark = _MARKS[arguments.to.suffix]
        text = _render(result, arguments.to.suffix)
        write_text_option("--to", arguments.to, text, lambda path: read_head(path).startswith(mark), inputs)
    print_escaped("\n".join([*notes, format_result(result, arguments.groups)]))


def _render(result: ComparisonResult, suffix: str) -> str:
    if suffix == ".csv":
        return render_csv(result.systems().merge(result.frame(), on="system", how="left"))
    render = render_markdown if suffix == ".md" else render_latex
    return _MARKS[suffix] + render(build_result_document(result))


def _read_input(arguments: argparse.Namespace, notes: list[str]) -> tuple[pd.DataFrame, str]:
    """Return the scores and their name in errors, and add lines about runs to the notes."""
    scores, qrels, runs, metric = arguments.scores, arguments.qrels, arguments.runs, arguments.metric
    given = [name for name, value in (("--qrels", qrels), ("--runs", runs)) if value]
    if scores:
        if given:
            raise UserError("command line", f"{scores} and {', '.join(given)}", "scores, or --qrels with --runs")
        return read_score_file(scores, metric), str(scores)
    if not qrels or not runs:
        raise UserError("command line", f"{' and '.join(given) or 'nothing'}", "SCORES.csv, or --qrels with --runs")
    if not metric:
        raise UserError("command line", "no --metric", "the metric of the runs, such as --metric nDCG@10")
    return read_runs(qrels, parse_runs(runs), metric, notes.append), "--runs"


def _check_options(alpha: float, margin: float | None, to: Path | None) -> None:
    if to and to.suffix not in _MARKS:
        raise UserError("--to", to, f"a file that ends in {', '.join(_MARKS)}")
    if not 1e-9 <= alpha < 1:
        raise UserError("--alpha", alpha, "a number from 1e-9 to below 1")
    if margin is not None and not 0 < margin < math.inf:
        raise UserError("--margin", margin, "a number above 0, in units of the values")


if __name__ == "__main__":
    interruption.run_command(main)
