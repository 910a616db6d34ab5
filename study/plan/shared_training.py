"""Computes how many instances a study trains if equal first segments are trained once.

The runs of one seed form a tree: two runs separate at the instance at which their settings begin to differ. Each
distribution and strength is a column of the tree. A column has one smoothed segment, as long as the longest that one of
its runs needs, and one segment without smoothing for each switch point. Each learning rate, batch size and number of
negatives has separate columns. Gradually decaying smoothing shares nothing. Curricula share nothing either, except
those that turn off their smoothing in the same way. The module loads neither torch nor ray.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeVar

import numpy as np

from search_spaces.smoothing import SCHEDULE_DEFAULTS
from study.config.loader import Study
from study.config.spaces import count_proposals, make_system_space
from study.config.systems import get_systems, list_trained_scores
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, compute_switch_instances
from trainables.specs.base import BaseSmoothing
from trainables.specs.checkpoints import Segment, split_into_segments
from trainables.utils.arrays import Floats

Key = TypeVar("Key")
Extremes = tuple[Floats, Floats]
"""Minimum and maximum instances by the numbers of chosen configurations; infinite if a choice is impossible."""


class Bounds(NamedTuple):
    """Minimum and maximum over everything that a search may propose.

    Example:
        >>> print(Bounds(64, 128), Bounds(64, 64), sep=", ")
        64 to 128, 64
    """

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def count_distinct_instances(variants: Iterable[BaseSmoothing], total: int, batch_size: int) -> int:
    """Return the instances that one seed of these variants trains, with equal first segments trained once.

    Args:
        variants: the smoothing settings of the runs.
        total: instances of one run.
        batch_size: instances per batch.

    Example:
        >>> from search_spaces.registry import get_study_type
        >>> study_type = get_study_type("cross-encoder")
        >>> smoothed = study_type.make_smoothing("LS", {"epsilon": 0.2})
        >>> switched = study_type.make_smoothing("T-LS", {"epsilon": 0.2, "switch": 0.5})
        >>> count_distinct_instances([smoothed, switched], total=64, batch_size=16)
        96
    """
    longest: dict[tuple[tuple[Segment, ...], BaseSmoothing], int] = {}
    for variant in variants:
        path: tuple[Segment, ...] = ()
        for segment in split_into_segments(variant, total, batch_size):
            known = longest.get((path, segment.smoothing), 0)
            longest[path, segment.smoothing] = max(known, segment.stop - segment.start)
            path = (*path, segment)
    return sum(longest.values())


def bound_instances_without_sharing(study: Study) -> Bounds:
    """Return bounds of the instances of all runs without sharing, including the runs of a confirmation."""
    proposals = count_proposals(study)
    baseline = study.study_type.baseline
    trained = {baseline, *proposals}
    search = (sum(proposals.values()) + (baseline not in proposals)) * len(study.seeds)
    search += bool(list_trained_scores(study))
    confirm = len(study.confirm.seeds)
    low, high = len(trained) * confirm, (len(trained) + len(proposals)) * confirm
    return Bounds((search + low) * study.training.instances, (search + high) * study.training.instances)


def bound_instances_with_sharing(study: Study) -> Bounds:
    """Return bounds of the instances that the study trains, with equal first segments trained once.

    The bounds are equal if the search covers its whole grid and there is no confirmation. Otherwise they are the bounds
    over everything that the search may propose, given that it proposes the values of the papers first. Racing or a time
    budget may reduce the instances further.
    """
    total, proposals = study.training.instances, count_proposals(study)
    counts: dict[str, dict[str, int]] = {}
    curricula = _bound_curricula(study, proposals)
    variants = study.study_type.variants
    for name in proposals.keys() & variants.keys():
        count, (distribution, schedule) = proposals[name], variants[name]
        counts.setdefault(distribution, {})["constant" if schedule == "constant" else "ending"] = count
    baseline = counts.pop("none", {"constant": 1})["constant"] * total
    low = high = baseline
    for by_schedule in counts.values():
        bounds = _bound_distribution(study, by_schedule.get("constant", 0), by_schedule.get("ending", 0))
        low, high = low + bounds.low, high + bounds.high
    confirm, fresh = _bound_confirmation(study), len(study.confirm.seeds)
    seeds, scoring = len(study.seeds), total * bool(list_trained_scores(study))
    low, high = low + curricula.low, high + curricula.high
    return Bounds(low * seeds + confirm.low * fresh + scoring, high * seeds + confirm.high * fresh + scoring)


def _bound_curricula(study: Study, counts: Mapping[str, int]) -> Bounds:
    """Return bounds of the instances of one seed for the systems with a curriculum.

    `counts` is the number of configurations of each system.
    Runs that turn off their smoothing may all continue from runs of another system, or none of them may.
    """
    total, batch_size = study.training.instances, study.training.batch_size
    latest = max(min(compute_switch_instances(share, total, batch_size), total) for share in study.search.switch)
    low = high = 0
    for name, system in get_systems(study).items():
        if system.curriculum:
            is_switched = study.study_type.variants[system.variant].schedule != "constant"
            low, high = low + counts[name] * (total - latest * is_switched), high + counts[name] * total
    return Bounds(low, high)


def _bound_confirmation(study: Study) -> Bounds:
    """Return bounds of the instances of one fresh seed.

    The default configurations are trained in any case, and at most one more run for each searched system.
    """
    if not study.confirm.seeds:
        return Bounds(0, 0)
    training, proposals, study_type = study.training, count_proposals(study), study.study_type
    defaults = [
        study_type.make_smoothing(name, dict(make_system_space(study, name).list_default_configurations()[0].smoothing))
        for name in proposals
        if name in study_type.variants
    ]
    low = count_distinct_instances([study_type.smoothing(), *defaults], training.instances, training.batch_size)
    low += _bound_curricula(study, dict.fromkeys(proposals, 1)).low
    return Bounds(low, low + len(proposals) * training.instances)


def _bound_distribution(study: Study, constants: int, endings: int) -> Bounds:
    """Return bounds of the instances of one seed and one smoothing distribution.

    The bounds are over all choices of `constants` configurations with the constant schedule and `endings`
    configurations with a schedule that ends smoothing. They are computed by dynamic programming over the columns; the
    state is the number of configurations of both types that are chosen so far.
    """
    search, total = study.search, study.training.instances
    training_defaults = tuple(getattr(study.training, name) for name in search.optimisation_grid)
    two_stage = "two_stage" in search.schedule
    limits = constants + 1, endings + 1
    extremes = np.zeros((1, 1)), np.zeros((1, 1))  # axes: constants chosen, endings chosen
    columns = product(*(search.smoothing_grid[name] for name in search.smoothing_params))
    for training_values, strengths in product(product(*search.optimisation_grid.values()), columns):
        batch_size = dict(zip(search.optimisation_grid, training_values, strict=True)).get(
            "batch_size", study.training.batch_size
        )
        cuts = (
            [min(compute_switch_instances(share, total, batch_size), total) for share in search.switch]
            if two_stage
            else []
        )
        is_default = strengths == tuple(study.study_type.defaults.values()) and training_values == training_defaults
        forced = (
            dict(zip(search.switch, cuts, strict=False)).get(SCHEDULE_DEFAULTS["switch"])
            if is_default and endings
            else None
        )
        options = {
            (int(whole), count): bounds
            for whole in ((True,) if is_default and constants else (False, True))
            for count, bounds in _bound_column(cuts, total, whole, forced).items()
        }
        extremes = _add_column(extremes, options, limits)
    decaying = {
        (0, count): Bounds(count * total, count * total) for count in range(_count_decaying_configurations(study) + 1)
    }
    least, most = _add_column(extremes, decaying, limits)
    return Bounds(int(least[constants, endings]), int(most[constants, endings]))


def _add_column(extremes: Extremes, options: dict[tuple[int, int], Bounds], limits: tuple[int, int]) -> Extremes:
    """Return the extremes after one more column, up to the numbers of configurations that are proposed."""
    before, more = extremes[0].shape, np.max(list(options), axis=0)
    shape = tuple(min(limit, size + int(extra)) for limit, size, extra in zip(limits, before, more, strict=True))
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    for (whole, count), bounds in options.items():
        rows, columns = min(before[0], shape[0] - whole), min(before[1], shape[1] - count)
        if rows > 0 and columns > 0:
            after = np.s_[whole : whole + rows, count : count + columns]
            least[after] = np.minimum(least[after], extremes[0][:rows, :columns] + bounds.low)
            most[after] = np.maximum(most[after], extremes[1][:rows, :columns] + bounds.high)
    return least, most


def _count_decaying_configurations(study: Study) -> int:
    """Return the number of configurations with gradually decaying smoothing, which share nothing."""
    search = study.search
    names = [name for name in search.schedule if name != "two_stage"]
    schedules = sum(prod(len(search.smoothing_grid[setting]) for setting in SCHEDULE_SETTINGS[name]) for name in names)
    grids = [search.smoothing_grid[name] for name in search.smoothing_params] + [*search.optimisation_grid.values()]
    return schedules * prod(len(values) for values in grids)


def _bound_column(cuts: Sequence[int], total: int, whole: bool, forced: int | None) -> dict[int, Bounds]:
    """Return bounds of the instances of one column, by its number of chosen two-stage configurations.

    Args:
        cuts: instances after which smoothing ends, for each switch point. Several switch points may fall into one batch
            and are then the same training.
        total: instances of a run.
        whole: whether the constant schedule is chosen.
        forced: a cut that is chosen in any case, or None.
    """
    column: dict[int, Bounds] = {}
    if forced is None:
        column[0] = Bounds(total, total) if whole else Bounds(0, 0)
    tails = {0: Bounds(0, 0)}
    for cut, size in sorted(Counter(cuts).items()):
        tail = total - cut if cut else 0  # a cut at 0 is the baseline, which is trained anyway
        chosen: dict[int, Bounds] = {}
        for count, before in tails.items():
            for more in range(1, size + 1):
                _widen(chosen, count + more, before, Bounds(tail, tail))
        if forced is None or forced <= cut:
            smoothed = total if whole else cut
            for count, bounds in chosen.items():
                _widen(column, count, bounds, Bounds(smoothed, smoothed))
        if cut != forced:
            for count, bounds in tails.items():
                _widen(chosen, count, bounds, Bounds(0, 0))
        tails = chosen
    return column


def _widen(bounds: dict[Key, Bounds], key: Key, first: Bounds, second: Bounds) -> None:
    """Extend the bounds at `key` to contain the sum of `first` and `second`."""
    low, high = first.low + second.low, first.high + second.high
    known = bounds.get(key, Bounds(low, high))
    bounds[key] = Bounds(min(known.low, low), max(known.high, high))
