"""Search spaces of the systems of a study, and the number of proposals for each."""

from search_spaces.space import enumerate_space
from search_spaces.system_space import SystemSpace
from study.config.schema import Study
from study.config.systems import get_systems


def make_system_space(study: Study, system: str) -> SystemSpace:
    """Return the search space of a system of the study."""
    search, study_type, properties = study.search, study.study_type, get_systems(study)[system]
    return SystemSpace(
        system,
        study_type.variants[properties.variant],
        study_type.defaults,
        {**search.smoothing_grid, **{name: (value,) for name, value in properties.fixed.items()}},
        search.optimisation_grid,
        {name: getattr(study.training, name) for name in search.optimisation_grid},
        properties.curriculum,
        properties.fixed,
    )


def count_configurations(study: Study, system: str) -> int:
    """Count the distinct configurations of a system."""
    return sum(1 for _ in enumerate_space(make_system_space(study, system)))


def count_proposals(study: Study) -> dict[str, int]:
    """Return the number of configurations that are proposed for each searched system, by name.

    A baseline without searched training settings has nothing to search and is absent.

    Example:
        >>> from study.config.loader import load_study
        >>> study = load_study("quick", ['variants=["BERT", "LS"]', "search.n_configurations.LS=2"])
        >>> count_proposals(study)
        {'LS': 2}
    """
    proposals: dict[str, int] = {}
    for name, system in get_systems(study).items():
        if name != study.study_type.baseline or study.search.optimisation_grid:
            size = count_configurations(study, name)
            default = study.study_type.default_n_configurations[system.variant]
            requested = study.search.trials.get(system.n_configurations_key, default)
            proposals[name] = size if study.search.sampler == "grid" else min(requested, size)
    return proposals
