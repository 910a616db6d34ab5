"""Computes which systems train alike at first, and how many instances a study trains if it trains these once.

The runs of one seed form a tree: two runs separate at the instance at which their settings begin to differ. Only runs
with a switch point share instances: everything before it, with the runs of the same distribution, strength, training
settings and curriculum. If it is before the first batch, they share everything with the baseline. The module loads
neither torch nor ray.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, NamedTuple

from study.config.schema import Study
from study.config.spaces import count_configurations, count_proposals, make_system_space
from study.config.systems import get_systems
from study.plan.run_counts import count_runs
from trainables.smoothing.schedules import SETTINGS, compute_switch_instances
from trainables.specs.checkpoint_chain import Segment, split_into_segments
from trainables.specs.run_spec import BaseSmoothing


class Bounds(NamedTuple):
    """Minimum and maximum over everything that a search may propose."""

    low: int
    high: int


def count_distinct_instances(variants: Iterable[BaseSmoothing], total: int, batch_size: int) -> int:
    """Return the instances that one seed of these variants trains, with equal first segments trained once.

    Example:
        >>> from search_spaces.study_type import get_study_type
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
    rows = [(row, row.instances or 0) for row in count_runs(study)]
    return Bounds(sum(row.least_runs * each for row, each in rows), sum(row.n_runs * each for row, each in rows))


def bound_instances_with_sharing(study: Study) -> Bounds:
    """Return bounds of the instances that the study trains, with equal first segments trained once.

    The bounds are equal if the search covers its whole grid and there is no confirmation. Otherwise sharing saves at
    least nothing, and at most all that each run with a switch point trains before it. Racing or a time budget may
    reduce the instances further.

    Example:
        >>> from study.config.loader import load_study
        >>> settings = ["training.instances=640", "seeds=[1]", 'variants=["BERT", "T-LS"]', "search.epsilon=[0.2]"]
        >>> bound_instances_with_sharing(load_study("quick", settings))
        Bounds(low=2080, high=2080)
        >>> settings.append("search.schedule_settings.switch=[0.2, 0.4, 0.6, 0.8]")
        >>> bound_instances_with_sharing(load_study("quick", settings))
        Bounds(low=1024, high=2560)
    """
    low, high = bound_instances_without_sharing(study)
    proposals, fresh = count_proposals(study), len(study.fresh_seeds)
    systems, variants = get_systems(study), study.study_type.variants
    switched = [name for name in proposals if variants[systems[name].variant].schedule != "constant"]
    shareable = _get_longest_shareable_segment(study)
    if all(count == count_configurations(study, name) for name, count in proposals.items()):
        least = most = _count_saved_by_whole_grid(study) * len(study.seeds)
    else:
        least, most = 0, sum(proposals[name] for name in switched) * shareable * len(study.seeds)
    return Bounds(low - most - len(switched) * shareable * fresh, high - least)


def list_shared_beginnings(study: Study) -> list[tuple[str, str]]:
    """Return the pairs of systems with a configuration each that train alike until one switches its smoothing off.

    Whether those that the search chooses do is another question, see `analysis.comparisons.shared_beginnings`.

    Example:
        >>> from study.config.loader import load_study
        >>> list_shared_beginnings(load_study("quick"))
        [('LS', 'T-LS'), ('WSLS', 'T-WSLS')]
    """
    beginnings = {name: _list_beginnings(study, name) for name in get_systems(study)}
    return [pair for pair in combinations(beginnings, 2) if beginnings[pair[0]] & beginnings[pair[1]]]


def _list_beginnings(study: Study, name: str) -> set[tuple[Any, ...]]:
    """Return the settings of a system that its training may begin with, until a switch point or to its end."""
    space = make_system_space(study, name)
    kind = space.variant.distribution, space.variant.loss
    settings = [params.values for params in space.points]
    return {
        (*kind, *((key, value) for key, value in values.items() if key not in ("schedule", *SETTINGS)))
        for values in settings
        if values.get("schedule", "constant") in ("constant", "two_stage")
    }


def _count_saved_by_whole_grid(study: Study) -> int:
    """Return the instances that sharing saves for one seed if the search proposes every configuration."""
    training, by_setting = study.training, dict[tuple[Any, ...], list[BaseSmoothing]]()
    for name, system in get_systems(study).items():
        for params in make_system_space(study, name).points:
            smoothing = study.study_type.make_smoothing(system.variant, dict(params.smoothing))
            by_setting.setdefault((params.optimisation, params.curriculum), []).append(smoothing)
    return sum(
        len(runs) * training.instances - count_distinct_instances(runs, training.instances, training.batch_size)
        for runs in by_setting.values()
    )


def _get_longest_shareable_segment(study: Study) -> int:
    """Return the most instances that a run with a switch point may share with others.

    That is everything if several switch points fall into one batch, or one of them at the start of training.
    """
    search, total = study.search, study.training.instances
    size, shares = study.training.batch_size, search.smoothing_grid["switch"]
    cuts = [min(compute_switch_instances(share, total, size), total) for share in shares]
    longest = max(cuts) if len({0, *cuts}) > len(cuts) else total
    return longest if "two_stage" in search.schedule else 0
