"""The searches of a study: which systems have something to search, over which space, in how many proposals."""

from search_spaces.space import enumerate_space
from search_spaces.system_space import SystemSpace
from study.config.schema import Study
from study.config.systems import get_systems


def make_system_space(study: Study, system: str) -> SystemSpace:
    """The space of a system."""
    search, training, own, kind = study.search, study.training, get_systems(study)[system], study.study_type
    untuned = {name: getattr(training, name) for name in search.optimisation_grid}
    cell = kind.variants[own.variant]
    return SystemSpace(
        system, cell, kind.defaults, search.smoothing_grid, search.optimisation_grid, untuned, own.curriculum
    )


def count_configurations(study: Study, system: str) -> int:
    """Distinct configurations of a system."""
    return sum(1 for _ in enumerate_space(make_system_space(study, system)))


def count_proposals(study: Study) -> dict[str, int]:
    """The systems that have something to search, and how many configurations of each are proposed."""
    found: dict[str, int] = {}
    for name, system in get_systems(study).items():
        if name != study.study_type.baseline or study.search.optimisation_grid:
            whole = count_configurations(study, name)
            wanted = study.search.trials.get(name, study.study_type.default_n_configurations[system.variant])
            found[name] = whole if study.search.sampler == "grid" else min(wanted, whole)
    return found
