"""The Multi-Bootstrap of Sellam et al. (2022) next to the tests of this project: levels and power.

python -m benchmarks.statistics.multi_bootstrap [FAMILIES]

Seeds and queries are resampled with replacement, independently of each other; a seed brings the runs of both systems
with it (paired seeds). A hypothesis of no difference is rejected at .05 if the percentile interval of 95 % leaves out
0. The implementation is this project's own, for means over queries: of differences D (seeds, queries), a bootstrap
sample is w_s' D w_q with multinomial weights w_s / S and w_q / Q. The authors' code draws 500 samples by default; here
1,000.

Families have five comparisons with one baseline and normal scores with a rest of .12. Cases differ in how much seeds
matter; where they matter as much as queries, each adds as much to the variance of a mean over five seeds. Levels and
powers are averages over the comparisons; "pooled" pools over the family.
"""

import itertools
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.statistics.simulation import (
    REST_SD,
    Floats,
    Squares,
    estimate_classical,
    estimate_here,
    format_share,
    make_pooled_estimate,
    rejections,
)

FAMILIES, COMPARISONS, SEEDS, QUERIES, LEVEL, SAMPLES = 2_000, 5, (3, 5, 10), 300, 0.05, 1_000
CASES = {
    "seeds dominate (.05, 0)": (0.05, 0.0),
    "seeds matter more (.02, 0)": (0.02, 0.0),
    "seeds matter as much as queries (.0129, .1)": (0.1 * (5 / QUERIES) ** 0.5, 0.1),
    "seeds matter less (.006, .05)": (0.006, 0.05),
    "seeds do not matter (0, .1)": (0.0, 0.1),
}
"""Standard deviations between seeds and of query x system."""
LITTLE_SEED_SD, LITTLE_QUERY_SD = 0.002, 0.05
GAINS = (0.02, 0.025, 0.03)
"""True differences of the table of power."""


def resample_means(d: Floats, samples: int, rng: np.random.Generator) -> Floats:
    """Return bootstrap means (..., samples) of differences (..., seeds, queries)."""
    seeds, queries = d.shape[-2:]
    of_seeds, of_queries = (_draw_weights(number, samples, rng) for number in (seeds, queries))
    return np.einsum("...sb,bs->...b", d @ of_queries.T, of_seeds)


def _draw_weights(number: int, samples: int, rng: np.random.Generator) -> Floats:
    """Return how often each unit is in each sample of as many units, as a share (samples, number)."""
    drawn = rng.integers(0, number, (samples, number)) + number * np.arange(samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=samples * number).reshape(samples, number) / number


def bootstrap_rejects(d: Floats, level: float, samples: int, rng: np.random.Generator) -> Floats:
    """Return whether the percentile interval of 1 - level leaves out 0, for differences (..., seeds, queries)."""
    low, high = np.quantile(resample_means(d, samples, rng), [level / 2, 1 - level / 2], axis=-1)
    return (low > 0) | (high < 0)


def draw_differences(
    design: tuple[int, int], sds: tuple[float, float], gain: float, rng: np.random.Generator
) -> Floats:
    """Draw a family (comparisons, seeds, queries); every system is better than the baseline by `gain`."""
    shape = COMPARISONS + 1, *design
    scores = rng.normal(0, REST_SD, shape)
    scores += rng.normal(0, sds[0], (*shape[:2], 1)) if sds[0] else 0
    scores += rng.normal(0, sds[1], (shape[0], 1, shape[2])) if sds[1] else 0
    return scores[1:] - scores[:1] + gain


def measure_case(
    design: tuple[int, int], sds: tuple[float, float], gain: float, families: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the share of comparisons that each method rejects at .05.

    Args:
        design: numbers of seeds and queries.
        sds: standard deviations between seeds and of query x system.
        gain: true difference.
        families: number of simulated families.
        rng: generator of the scores and of the bootstrap.
    """
    drawn, rejected = [], 0.0
    for _ in range(families):
        d = draw_differences(design, sds, gain, rng)
        rejected += bootstrap_rejects(d, LEVEL, SAMPLES, rng).mean() / families
        drawn.append(Squares.from_differences(d))
    squares = Squares(*design, *(np.stack(arrays) for arrays in zip(*(one[2:] for one in drawn), strict=True)))
    estimators = {
        "here": estimate_here,
        "pooled": make_pooled_estimate([(number, 0) for number in range(1, COMPARISONS + 1)]),
        "classical": estimate_classical,
    }
    shares = {name: float(rejections(estimator, squares, LEVEL).mean()) for name, estimator in estimators.items()}
    return {"Multi-Bootstrap": float(rejected)} | shares


def print_table(title: str, rows: dict[tuple[str, int], Callable[[], dict[str, float]]]) -> None:
    """Print a table whose rows are measured one after the other."""
    for number, ((name, seeds), measure) in enumerate(rows.items()):
        shares = measure()
        if not number:
            print(f"\n| {title} | seeds | {' | '.join(shares)} |")
            print("|---" * (2 + len(shares)) + "|")
        print(f"| {name} | {seeds} | {' | '.join(map(format_share, shares.values()))} |", flush=True)


def main(families: int) -> None:
    """Print the table of levels and that of powers."""
    print(f"{families:,} families of {COMPARISONS} comparisons, {QUERIES} queries, {SAMPLES:,} bootstrap samples")

    def measure(seeds: int, sds: tuple[float, float], gain: float, seed: int) -> dict[str, float]:
        rng = np.random.default_rng([2616, seeds, seed])
        return measure_case((seeds, QUERIES), sds, gain, families, rng)

    print_table(
        "level",
        {
            (name, seeds): lambda seeds=seeds, sds=sds, number=number: measure(seeds, sds, 0.0, number)
            for (number, (name, sds)), seeds in itertools.product(enumerate(CASES.items()), SEEDS)
        },
    )
    print_table(
        f"power, seed SD {format_share(LITTLE_SEED_SD)}, query x system {format_share(LITTLE_QUERY_SD, 2)}",
        {
            (f"a difference of {format_share(gain)}", 3): lambda gain=gain, number=number: measure(
                3, (LITTLE_SEED_SD, LITTLE_QUERY_SD), gain, 10 + number
            )
            for number, gain in enumerate(GAINS)
        },
    )


if __name__ == "__main__":
    count, started = int(sys.argv[1]) if len(sys.argv) > 1 else FAMILIES, time.perf_counter()
    main(count)
    print(f"\n{time.perf_counter() - started:.0f} s")
