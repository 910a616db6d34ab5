"""The searches of a study: which systems have something to search, over which space, in how many proposals."""

from search_spaces.space import points
from search_spaces.system_space import Family
from study.config.schema import Study
from study.config.systems import systems


def family(study: Study, system: str) -> Family:
    """The space of a system."""
    search, training, own, kind = study.search, study.training, systems(study)[system], study.kind
    untuned = {name: getattr(training, name) for name in search.optimisation}
    cell = kind.variants[own.variant]
    return Family(system, cell, kind.untuned, search.smoothing, search.optimisation, untuned, own.curriculum)


def size(study: Study, system: str) -> int:
    """Distinct configurations of a system."""
    return sum(1 for _ in points(family(study, system)))


def searched(study: Study) -> dict[str, int]:
    """The systems that have something to search, and how many configurations of each are proposed."""
    found: dict[str, int] = {}
    for name, system in systems(study).items():
        if name != study.kind.baseline or study.search.optimisation:
            whole = size(study, name)
            wanted = study.search.trials.get(name, study.kind.proposals[system.variant])
            found[name] = whole if study.search.sampler == "grid" else min(wanted, whole)
    return found
