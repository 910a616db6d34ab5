"""What the printed minimum detectable effect is worth, by simulation.

python -m benchmarks.statistics.detectable [STUDIES]

A study compares systems with one baseline. A system's scores vary by .006 between seeds, .05 between queries and
systems, and .12 in the rest, on 1,000 queries; no two systems differ. From each study three figures are computed: the
largest of the comparisons' own effects, as reports printed it before; their median; and the median with the spread
over seeds of the family's mean ratio, as reports print it. The power at a printed effect is that of the test at that
true difference, whatever the study saw.
"""

import sys
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy import stats

from analysis.stats.estimate import Estimate
from analysis.stats.pooled import average_ratios, compute_pooled_df, pool_seeds, replace_ratio
from analysis.stats.power import POWER, minimum_detectable_effect
from analysis.stats.two_way import TwoWayAnova, two_way_anova, two_way_estimate
from trainables.utils.arrays import Floats

SEED_SD, QUERY_SD, REST_SD, QUERIES, ALPHA = 0.006, 0.05, 0.12, 1000, 0.05
SIZES = ((3, 4), (3, 5), (5, 4), (5, 5))
"""Seeds and comparisons."""
STUDIES = 1000
_GRID = np.linspace(0, 0.3, 601)
"""True differences for which the power is computed."""


class Printed(NamedTuple):
    """The effects that studies print, and what they are worth.

    Attributes:
        what: how the effect is computed.
        effects: (studies,) effects.
        powers: (studies,) power of the test at each effect.
    """

    what: str
    effects: Floats
    powers: Floats

    def format_row(self) -> list[str]:
        """Return the cells: 5 %, median and 95 % of the effects, mean power, and 5 % and 95 % of the power."""
        low, middle, high = np.quantile(self.effects, [0.05, 0.5, 0.95])
        least, most = np.quantile(self.powers, [0.05, 0.95])
        cells = [f"{middle:.3f}", f"{low:.3f}-{high:.3f}", f"{self.powers.mean():.2f}", f"{least:.2f}-{most:.2f}"]
        return [self.what, *(cell.replace("0.", ".") for cell in cells)]


def draw_study(rng: np.random.Generator, seeds: int, comparisons: int) -> list[TwoWayAnova]:
    """Draw a study and return the mean squares of each system against the common baseline."""
    systems = comparisons + 1
    scores = rng.normal(0, SEED_SD, (systems, seeds, 1)) + rng.normal(0, QUERY_SD, (systems, 1, QUERIES))
    scores = scores + rng.normal(0, REST_SD, (systems, seeds, QUERIES))
    return [two_way_anova(scores[system] - scores[0]) for system in range(1, systems)]


def compute_power(estimates: list[Estimate], level: float) -> Floats:
    """Return the power at every true difference of the grid, from estimates of a difference of zero."""
    means = np.array([each.mean for each in estimates])
    widths = np.array([stats.t.isf(level / 2, each.df_at(level)) * each.error for each in estimates])
    return np.array([np.mean(np.abs(means + difference) > widths) for difference in _GRID])


def find_effect(estimate: Estimate, level: float) -> float:
    """Return the minimum detectable effect, which exists for every study that is simulated here."""
    return minimum_detectable_effect(estimate, level) or 0.0


def simulate(seeds: int, comparisons: int, studies: int) -> list[tuple[str, float, list[Printed]]]:
    """Return for each test its name, the true difference with 80 % power, and what studies print."""
    rng, level = np.random.default_rng([seeds, comparisons]), ALPHA / comparisons
    pairs = [(f"system {number}", "baseline") for number in range(comparisons)]
    family_df = compute_pooled_df(pairs, seeds, QUERIES)
    drawn = [draw_study(rng, seeds, comparisons) for _ in range(studies)]
    own = [[two_way_estimate(anova) for anova in anovas] for anovas in drawn]
    pooled = [[estimate for estimate, _ in pool_seeds(anovas, pairs)] for anovas in drawn]
    ratios = [average_ratios(anovas, ["metric"] * comparisons)[0] for anovas in drawn]
    found = []
    for name, tested, df in (("own seeds", own, seeds - 1.0), ("pooled seeds", pooled, family_df)):
        power = compute_power([estimate for estimates in tested for estimate in estimates], level)
        alone = [[find_effect(estimate, level) for estimate in estimates] for estimates in tested]
        typical = [
            median(find_effect(replace_ratio(anova, ratio, df), level) for anova in anovas)
            for anovas, ratio in zip(drawn, ratios, strict=True)
        ]
        printed = {
            "largest of the tests' own": [max(effects) for effects in alone],
            "median of the tests' own": [median(effects) for effects in alone],
            "median with the mean ratio": typical,
        }
        rows = [Printed(what, np.array(effects), np.interp(effects, _GRID, power)) for what, effects in printed.items()]
        found.append((name, float(np.interp(POWER, power, _GRID)), rows))
    return found


def main(studies: int = STUDIES) -> None:
    """Print a Markdown table."""
    header = ["seeds", "comparisons", "test", "80 % power at", "printed", "median", "5-95 %", "power there", "5-95 %"]
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for seeds, comparisons in SIZES:
        for test, true, rows in simulate(seeds, comparisons, studies):
            for row in rows:
                start = [str(seeds), str(comparisons), test, f"{true:.3f}".replace("0.", ".")]
                print(f"| {' | '.join([*start, *row.format_row()])} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
