"""How many instances a study trains when equal beginnings are trained once. Loads neither torch nor ray.

Runs of one seed form a tree: they part where the settings in force begin to differ. Each distribution and epsilon is a
column of it: one smoothed stretch, as long as the longest that a member of the column needs, and for each switch point
a tail without smoothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from search_spaces.smoothing import DEFAULTS
from study.config import Study, searched
from trainables.smoothing import VARIANTS, switch_instances
from trainables.specification import VariantSettings
from trainables.stages import Segment, segments

Key = TypeVar("Key")


class Bounds(NamedTuple):
    """The least and the most, over what a search may propose."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def distinct(variants: Iterable[VariantSettings], total: int, batch_size: int) -> int:
    """Instances of one seed that these variants train in all, equal beginnings once."""
    reach: dict[tuple[tuple[Segment, ...], VariantSettings], int] = {}
    for variant in variants:
        path: tuple[Segment, ...] = ()
        for part in segments(variant, total, batch_size):
            known = reach.get((path, part.smoothing), 0)
            reach[path, part.smoothing] = max(known, part.stop - part.start)
            path = (*path, part)
    return sum(reach.values())


def unshared(study: Study) -> int:
    """Instances that the study's runs see, each for itself."""
    return (1 + sum(searched(study).values())) * study.training.instances * len(study.seeds)


def shared(study: Study) -> Bounds:
    """Instances that the study trains, equal beginnings once: exact where a search covers its whole grid, else the
    bounds over what it may propose, given that it proposes the papers' values first."""
    training = study.training
    counts: dict[str, dict[str, int]] = {}
    for name, count in searched(study).items():
        counts.setdefault(VARIANTS[name].distribution, {})[VARIANTS[name].schedule] = count
    cuts = [
        min(switch_instances(switch, training.instances, training.batch_size), training.instances)
        for switch in study.search.switch
    ]
    low = high = training.instances  # the baseline's
    for by_schedule in counts.values():
        constants, forks = by_schedule.get("constant", 0), by_schedule.get("two_stage", 0)
        found = _distribution(study.search.epsilon, study.search.switch, cuts, training.instances, constants, forks)
        low, high = low + found.low, high + found.high
    return Bounds(low * len(study.seeds), high * len(study.seeds))


def _distribution(
    epsilons: Sequence[float], switches: Sequence[float], cuts: Sequence[int], total: int, constants: int, forks: int
) -> Bounds:
    """Bounds over all choices of `constants` epsilons for the constant schedule and `forks` points of the grid for the
    two-stage one: a dynamic programme over the epsilons, by how many of each are chosen so far."""
    found = {(0, 0): Bounds(0, 0)}
    for epsilon in epsilons:
        default = epsilon == DEFAULTS["epsilon"]
        forced = dict(zip(switches, cuts, strict=True)).get(DEFAULTS["switch"]) if default and forks else None
        options = {
            (int(whole), count): bounds
            for whole in ((True,) if default and constants else (False, True))
            for count, bounds in _column(cuts, total, whole, forced).items()
        }
        following: dict[tuple[int, int], Bounds] = {}
        for (whole, count), bounds in options.items():
            for (chosen, forked), before in found.items():
                if chosen + whole <= constants and forked + count <= forks:
                    _widen(following, (chosen + whole, forked + count), before, bounds)
        found = following
    return found[constants, forks]


def _column(cuts: Sequence[int], total: int, whole: bool, forced: int | None) -> dict[int, Bounds]:
    """By how many two-stage points of one epsilon are chosen: bounds of the instances of its column.

    Args:
        cuts: where smoothing ends, for each switch point; several may fall into one batch, and are then one training.
        total: instances of a run.
        whole: whether the constant schedule is chosen.
        forced: a cut that is chosen in any case.
    """
    found: dict[int, Bounds] = {}
    if forced is None:
        found[0] = Bounds(total, total) if whole else Bounds(0, 0)
    tails = {0: Bounds(0, 0)}
    for cut, size in sorted(Counter(cuts).items()):
        tail = total - cut if cut else 0  # without any smoothing it is the baseline, which is trained anyway
        taken: dict[int, Bounds] = {}
        for count, before in tails.items():
            for more in range(1, size + 1):
                _widen(taken, count + more, before, Bounds(tail, tail))
        if forced is None or forced <= cut:
            smoothed = total if whole else cut
            for count, bounds in taken.items():
                _widen(found, count, bounds, Bounds(smoothed, smoothed))
        if cut != forced:
            for count, bounds in tails.items():
                _widen(taken, count, bounds, Bounds(0, 0))
        tails = taken
    return found


def _widen(found: dict[Key, Bounds], key: Key, one: Bounds, other: Bounds) -> None:
    """Lets the bounds at `key` hold the sum of two as well."""
    low, high = one.low + other.low, one.high + other.high
    known = found.get(key, Bounds(low, high))
    found[key] = Bounds(min(known.low, low), max(known.high, high))
