"""The whole of the statistics on anyone's scores.

    python -m analysis.compare SCORES.csv [--baseline NAME ...] [--alpha .05] [--correction bonferroni] [--margin M]
                               [--test sign-flip] [--json FILE]

SCORES is a CSV or Parquet file with columns system, value and, as far as there are such, seed and query: a row a score.
Without --baseline every system is compared with every other one.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.catch("analysis.compare")

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pandas as pd

from analysis.data.score_table import Cube, cube, read
from analysis.rendering import cells as render
from analysis.stats.comparison import Comparison, Family, Settings, judge
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.stats.paired_tests import paired
from analysis.stats.permutation_tests import TESTS
from analysis.stats.variance_components import Variance, deviations, variance
from analysis.tables.main import p_value
from trainables.utils.cli import Parser, complain, show
from trainables.utils.errors import UserError
from trainables.utils.files import write_json


@dataclass(frozen=True)
class Compared:
    """A table of scores, compared.

    Attributes:
        cube: the scores.
        settings: how they were judged.
        comparisons: in order of baselines, then of systems, as the table names them.
        faults: what is missing of whom; those systems are not compared, and count in the corrections.
        variance: its parts over the complete systems that have all seeds; None where there are too few.
    """

    cube: Cube
    settings: Settings
    comparisons: list[Comparison]
    faults: list[str]
    variance: Variance | None


def compare(
    scores: pd.DataFrame | Cube, baselines: Sequence[str] = (), settings: Settings | None = None, where: str = "scores"
) -> Compared:
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
    settings = settings or Settings()
    found = scores if isinstance(scores, Cube) else cube(scores, where)
    names, baselines = list(found.values), list(dict.fromkeys(baselines))
    for name in baselines:
        if name not in found.values:
            raise UserError("baseline", name, f"one of {', '.join(names)}")
    others = [name for name in names if name not in baselines]
    pairs = [(name, baseline) for baseline in baselines for name in others]
    if not baselines:
        pairs = [(second, first) for first, second in combinations(names, 2)]
    if not pairs:
        raise UserError("baseline", ", ".join(baselines), "a system to compare with them")
    if max(len(found.seeds), len(found.queries)) < 2:
        raise UserError(where, "one seed and one query", "several seeds or several queries: their spread is the test's")
    complete = {name: found.complete(name) for name in names}
    judging = [(one, other, paired(complete[one], complete[other])) for one, other in pairs]
    whole = [values for values in complete.values() if values is not None and len(values) == len(found.seeds)]
    judged = judge(Family("scores", "", "value", judging), settings)
    return Compared(found, settings, judged, found.faults(), variance(whole))


_ASKED = {
    "both": "p asks whether the systems differ on new queries and new seeds (two-way random effects)",
    "queries": "p asks whether these runs differ on new queries; of new seeds nothing can be said",
    "seeds": "p asks whether other seeds would differ on these queries; of new queries nothing can be said",
}


def text(compared: Compared) -> str:
    """The comparisons for a terminal, and what has to be known to read them."""
    settings, made = compared.settings, compared.comparisons
    of_all = "max-T" if settings.correction == "maxt" else "Bonferroni"
    number = f"{len(made)} comparison{'s' * (len(made) != 1)}"
    title = f"{number} at {settings.alpha:g}, {settings.correction}; intervals hold for all at once ({of_all})"
    asked = [_ASKED[target] for target in dict.fromkeys(c.target for c in made) if target]
    over = f" over {len(compared.cube.seeds)} seeds, uncorrected" if len(compared.cube.seeds) > 1 else ", uncorrected"
    free = [
        f"{c.system} over {c.baseline}, {name}{over}: {value if isinstance(value, str) else p_value(value)}"
        for c in made
        for name, value in c.free.items()
    ]
    incomplete = [f"not compared: {fault}" for fault in compared.faults]
    parts = [deviations(compared.variance)] if compared.variance else []
    cells = render.comparison_cells(made, settings.correction)
    return "\n".join([render.terminal(title, *cells, width=200), *asked, *parts, *free, *incomplete])


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
    asked = parser.parse_args(argv)
    try:
        _check(asked.alpha, asked.margin)
        settings = Settings(asked.alpha, asked.correction, asked.margin, tuple(asked.test), asked.less_is_better)
        compared = compare(read(asked.scores), asked.baseline, settings, str(asked.scores))
        if asked.json:
            write_json(asked.json, [comparison.as_dict() for comparison in compared.comparisons])
    except UserError as error:
        complain("", error)
        return 2
    except OSError as error:
        complain("", f"--json: {asked.json}: {error.strerror}; expected a file that can be written")
        return 2
    show(text(compared))
    return 0


def _check(alpha: float, margin: float | None) -> None:
    if not 1e-9 <= alpha < 1:
        raise UserError("--alpha", alpha, "a number below 1, and no less than 1e-9")
    if margin is not None and not 0 < margin < math.inf:
        raise UserError("--margin", margin, "a number above 0, in units of the values")


if __name__ == "__main__":
    interruption.run(main)
