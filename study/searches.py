"""The searches of a study: which variants have something to search, over which space, in how many proposals."""

from search_spaces.family import Family
from search_spaces.space import points
from study.searching import PROPOSALS
from study.settings import Study


def family(study: Study, variant: str) -> Family:
    """The space of a variant."""
    search, training = study.search, study.training
    untuned = {name: getattr(training, name) for name in search.optimisation}
    return Family(variant, search.smoothing, search.optimisation, untuned)


def size(study: Study, variant: str) -> int:
    """Distinct configurations of a variant."""
    return sum(1 for _ in points(family(study, variant)))


def searched(study: Study) -> dict[str, int]:
    """The variants that have something to search, and how many configurations of each are proposed."""
    found: dict[str, int] = {}
    for variant in study.variants:
        if variant != "BERT" or study.search.optimisation:
            whole = size(study, variant)
            wanted = study.search.trials.get(variant, PROPOSALS[variant])
            found[variant] = whole if study.search.sampler == "grid" else min(wanted, whole)
    return found
