"""Describes in words how the variation between seeds was pooled over a family."""

from collections.abc import Iterable, Sequence

from analysis.stats.comparison import Comparison, SeedVariance
from analysis.stats.pooled import MAX_SEEDS, SeedPool


def describe_pooling(compared: Sequence[Comparison], seeds: SeedVariance) -> str:
    """Return what the spread over seeds is, and which comparisons vary more; empty unless it is to be pooled."""
    if seeds == "own":
        return ""
    known = [c for c in compared if c.target]
    alone = [c for c in known if c.pooled is None]
    groups: dict[tuple[str, SeedPool], list[Comparison]] = {}
    for c in known:
        if c.pooled:
            common = SeedPool(c.pooled.comparisons, c.pooled.df, c.pooled.mean_ratio, 0.0, False)
            groups.setdefault((c.metric, common), []).append(c)
    several = len({metric for metric, _ in groups}) > 1
    lines = [_describe_group(f" by {metric}" if several else "", pool, own) for (metric, pool), own in groups.items()]
    if alone:
        lines.append(
            f"Spread over seeds, own: {_join_pairs(alone)}. Pooling needs two comparisons or more, declared before the "
            f"test scores, in which the scores of both systems differ between seeds; two to {MAX_SEEDS} seeds; as many "
            "queries or more; and no correlation."
        )
    return " ".join(lines)


def _describe_group(where: str, pool: SeedPool, group: Sequence[Comparison]) -> str:
    larger = [c for c in group if c.pooled and c.pooled.ratio > pool.mean_ratio]
    wild = [c for c in group if c.pooled and c.pooled.varies_more]
    exception = f", or the comparison's own where that is larger: {_join_pairs(larger)}" if larger else ""
    marked = f" Varies more over seeds than the others: {_join_pairs(wild)}." if wild else ""
    return (
        f"Spread over seeds{where}: pooled over {pool.comparisons} comparisons, {pool.mean_ratio:.2f} times the rest "
        f"with {pool.df:.1f} degrees of freedom{exception}.{marked}"
    )


def _join_pairs(compared: Iterable[Comparison]) -> str:
    return ", ".join(f"{c.system} over {c.baseline}" for c in compared)
