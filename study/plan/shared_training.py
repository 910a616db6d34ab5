"""How many instances a study trains when equal beginnings are trained once. Loads neither torch nor ray.

Runs of one seed form a tree: they part where the settings in force begin to differ. Each distribution and strength is a
column of it: one smoothed stretch, as long as the longest that a member of the column needs, and for each switch point
a tail without smoothing. Each learning rate, batch size and number of negatives has columns of its own; smoothing that
ends little by little shares nothing, and so do curricula, but for those that end their smoothing alike.
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
"""Least and most, by what is chosen; infinite where that cannot be."""


class Bounds(NamedTuple):
    """The least and the most, over what a search may propose."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def count_distinct_instances(variants: Iterable[BaseSmoothing], total: int, batch_size: int) -> int:
    """Instances of one seed that these variants train in all, equal beginnings once."""
    reach: dict[tuple[tuple[Segment, ...], BaseSmoothing], int] = {}
    for variant in variants:
        path: tuple[Segment, ...] = ()
        for part in split_into_segments(variant, total, batch_size):
            known = reach.get((path, part.smoothing), 0)
            reach[path, part.smoothing] = max(known, part.stop - part.start)
            path = (*path, part)
    return sum(reach.values())


def bound_instances_without_sharing(study: Study) -> Bounds:
    """Instances that the study's runs see, each for itself, the fresh seeds of a confirmation included."""
    found = count_proposals(study)
    baseline = study.study_type.baseline
    trained = {baseline, *found}
    search = (sum(found.values()) + (baseline not in found)) * len(study.seeds) + bool(list_trained_scores(study))
    confirm = len(study.confirm.seeds)
    low, high = len(trained) * confirm, (len(trained) + len(found)) * confirm
    return Bounds((search + low) * study.training.instances, (search + high) * study.training.instances)


def bound_instances_with_sharing(study: Study) -> Bounds:
    """Instances that the study trains, equal beginnings once: exact where a search covers its whole grid and nothing is
    confirmed, else the bounds over what it may propose, given that it proposes the papers' values first. A race, or a
    budget of time, may leave some out."""
    total, found = study.training.instances, count_proposals(study)
    counts: dict[str, dict[str, int]] = {}
    ordered = _bound_curricula(study, found)
    variants = study.study_type.variants
    for name in found.keys() & variants.keys():
        count, (distribution, schedule) = found[name], variants[name]
        counts.setdefault(distribution, {})["constant" if schedule == "constant" else "ending"] = count
    baseline = counts.pop("none", {"constant": 1})["constant"] * total
    low = high = baseline
    for by_schedule in counts.values():
        bounds = _bound_distribution(study, by_schedule.get("constant", 0), by_schedule.get("ending", 0))
        low, high = low + bounds.low, high + bounds.high
    confirm, fresh = _bound_confirmation(study), len(study.confirm.seeds)
    seeds, scorer = len(study.seeds), total * bool(list_trained_scores(study))
    low, high = low + ordered.low, high + ordered.high
    return Bounds(low * seeds + confirm.low * fresh + scorer, high * seeds + confirm.high * fresh + scorer)


def _bound_curricula(study: Study, counts: Mapping[str, int]) -> Bounds:
    """Of one seed, for so many configurations of each system with a curriculum: those whose smoothing ends may all go
    on from runs of another one, or none may."""
    total, size = study.training.instances, study.training.batch_size
    latest = max(min(compute_switch_instances(part, total, size), total) for part in study.search.switch)
    low = high = 0
    for name, system in get_systems(study).items():
        if system.curriculum:
            ends = study.study_type.variants[system.variant].schedule != "constant"
            low, high = low + counts[name] * (total - latest * ends), high + counts[name] * total
    return Bounds(low, high)


def _bound_confirmation(study: Study) -> Bounds:
    """Of one fresh seed: the untuned defaults are trained in any case, and for each variant at most one run more."""
    if not study.confirm.seeds:
        return Bounds(0, 0)
    training, found = study.training, count_proposals(study)
    kind = study.study_type
    smoothed = [name for name in found if name in kind.variants]
    untuned = [
        kind.make_smoothing(name, dict(make_system_space(study, name).list_default_configurations()[0].smoothing))
        for name in smoothed
    ]
    low = count_distinct_instances([kind.smoothing(), *untuned], training.instances, training.batch_size)
    low += _bound_curricula(study, dict.fromkeys(found, 1)).low
    return Bounds(low, low + len(found) * training.instances)


def _bound_distribution(study: Study, constants: int, endings: int) -> Bounds:
    """Bounds over all choices of `constants` points of the constant schedule and `endings` of those whose smoothing
    ends: a dynamic programme over the columns, by how many of each are chosen so far."""
    search, total = study.search, study.training.instances
    own = tuple(getattr(study.training, name) for name in search.optimisation_grid)
    two_stage = "two_stage" in search.schedule
    limits = constants + 1, endings + 1
    found = np.zeros((1, 1)), np.zeros((1, 1))  # (constants chosen, endings chosen)
    columns = product(*(search.smoothing_grid[name] for name in search.smoothing_params))
    for settings_, strengths in product(product(*search.optimisation_grid.values()), columns):
        batch_size = dict(zip(search.optimisation_grid, settings_, strict=True)).get(
            "batch_size", study.training.batch_size
        )
        cuts = (
            [min(compute_switch_instances(part, total, batch_size), total) for part in search.switch]
            if two_stage
            else []
        )
        default = strengths == tuple(study.study_type.defaults.values()) and settings_ == own
        forced = (
            dict(zip(search.switch, cuts, strict=False)).get(SCHEDULE_DEFAULTS["switch"])
            if default and endings
            else None
        )
        options = {
            (int(whole), count): bounds
            for whole in ((True,) if default and constants else (False, True))
            for count, bounds in _bound_column(cuts, total, whole, forced).items()
        }
        found = _add_column(found, options, limits)
    decays = {
        (0, count): Bounds(count * total, count * total) for count in range(_count_decaying_configurations(study) + 1)
    }
    least, most = _add_column(found, decays, limits)
    return Bounds(int(least[constants, endings]), int(most[constants, endings]))


def _add_column(found: Extremes, options: dict[tuple[int, int], Bounds], limits: tuple[int, int]) -> Extremes:
    """One choice more, within the numbers that are proposed in all."""
    before, more = found[0].shape, np.max(list(options), axis=0)
    shape = tuple(min(limit, size + int(extra)) for limit, size, extra in zip(limits, before, more, strict=True))
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    for (whole, count), bounds in options.items():
        rows, columns = min(before[0], shape[0] - whole), min(before[1], shape[1] - count)
        if rows > 0 and columns > 0:
            after = np.s_[whole : whole + rows, count : count + columns]
            least[after] = np.minimum(least[after], found[0][:rows, :columns] + bounds.low)
            most[after] = np.maximum(most[after], found[1][:rows, :columns] + bounds.high)
    return least, most


def _count_decaying_configurations(study: Study) -> int:
    """Points of a variant whose smoothing ends little by little: these share nothing."""
    search = study.search
    names = [name for name in search.schedule if name != "two_stage"]
    each = sum(prod(len(search.smoothing_grid[setting]) for setting in SCHEDULE_SETTINGS[name]) for name in names)
    whole = [search.smoothing_grid[name] for name in search.smoothing_params] + [*search.optimisation_grid.values()]
    return each * prod(len(values) for values in whole)


def _bound_column(cuts: Sequence[int], total: int, whole: bool, forced: int | None) -> dict[int, Bounds]:
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


def _widen(found: dict[Key, Bounds], key: Key, first: Bounds, second: Bounds) -> None:
    """Lets the bounds at `key` hold the sum of two as well."""
    low, high = first.low + second.low, first.high + second.high
    known = found.get(key, Bounds(low, high))
    found[key] = Bounds(min(known.low, low), max(known.high, high))
