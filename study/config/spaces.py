"""Search spaces of the systems of a study, numbers of proposals, and seeds that no choice has seen."""

from itertools import count, islice
from typing import Any

from search_spaces.search_settings import LORA
from search_spaces.space import Params, SystemSpace
from study.config.schema import Study
from study.config.systems import get_baseline, get_systems
from trainables.smoothing.schedules import SCHEDULES, SETTINGS, get_defaults

_FIRST = 101
"""First fresh seed. A seed only names its random streams, so successive seeds are as unrelated as any others."""
_MOST = 1000


def make_system_space(study: Study, system: str) -> SystemSpace:
    """Return the search space of a system of the study."""
    search, study_type, properties = study.search, study.study_type, get_systems(study)[system]
    return SystemSpace(
        system,
        study_type.variants[properties.variant],
        study_type.defaults,
        {**search.smoothing_grid, **{name: (value,) for name, value in properties.fixed.items()}},
        search.optimisation_grid,
        {name: get_own_value(study, name)[1] for name in search.optimisation_grid},
        properties.curriculum,
        properties.fixed,
    )


def get_own_value(study: Study, name: str) -> tuple[str, Any]:
    """Return the key of a searched setting of training or of adapters, and the study's own value.

    Example:
        >>> from study.config.loader import load_study
        >>> get_own_value(load_study("quick", ["model.lora.rank=8"]), "lora_rank")
        ('model.lora.rank', 8)
    """
    section, settings = ("model.lora", study.model.lora) if name.startswith(LORA) else ("training", study.training)
    own = name.removeprefix(LORA)
    return f"{section}.{own}", getattr(settings, own)


def get_fixed_configuration(study: Study, system: str) -> Params:
    """Return the only configuration of a system with nothing to search."""
    return make_system_space(study, system).points[0]


def count_configurations(study: Study, system: str) -> int:
    """Count the distinct configurations of a system."""
    return len(make_system_space(study, system).points)


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
    baseline = get_baseline(study)
    for name, system in get_systems(study).items():
        size = count_configurations(study, name)
        if name != baseline or study.search.optimisation_grid or size > 1:
            default = study.study_type.variants[system.variant].n_configurations
            numbers = study.search.n_configurations
            requested = numbers.get(name, numbers.get(system.n_configurations_key, default))
            proposals[name] = size if study.search.sampler == "grid" else min(requested, size)
    return proposals


def list_hyperparameters(study: Study) -> tuple[str, ...]:
    """Return the names of the hyperparameters that configurations of the study may have, the strength first.

    Settings of the schedules of plug-ins are among them only if the study searches these schedules: the plug-ins of
    another study of the process do not change a plan.
    """
    used = (entry.name for entry in SCHEDULES.entries if entry.module is None or entry.name in study.search.schedule)
    unused = SETTINGS.keys() - {name for schedule in used for name in get_defaults(schedule)}
    names = (*study.study_type.hyperparameter_names, *study.search.adapter_params)
    return tuple(name for name in names if name not in unused)


def get_seed_count(data: Any) -> int | None:
    """Return the number of fresh seeds that unvalidated settings of a study ask for; None if they ask for no number."""
    confirm = data.get("confirm") if isinstance(data, dict) else None
    number = confirm.get("seeds") if isinstance(confirm, dict) else None
    return number if type(number) is int and 1 <= number <= _MOST else None


def chooses_by_scores(study: Study) -> bool:
    """Return whether a study chooses configurations or checkpoints by scores of the search.

    If not, no luck is in the scores of its seeds, and they are as good as fresh ones.

    Example:
        >>> from study.config.loader import load_study
        >>> fixed = load_study("quick", ['variants=["BERT", "LS"]', "search.n_configurations.LS=1"])
        >>> chooses_by_scores(load_study("quick")), chooses_by_scores(fixed)
        (True, False)
    """
    return study.training.checkpoint != "last" or any(number > 1 for number in count_proposals(study).values())


def draw_fresh_seeds(study: Study, number: int) -> tuple[int, ...]:
    """Return seeds that no choice of a study has seen: whole numbers from 101 on that it does not use.

    If the study chooses nothing, its own seeds come first. A larger number only adds seeds.

    Args:
        study: the study; its `confirm.seeds` do not count.
        number: number of seeds.

    Example:
        >>> from study.config.loader import load_study
        >>> study = load_study("quick", ["seeds=[1, 101]"])
        >>> draw_fresh_seeds(study, 3)
        (102, 103, 104)
    """
    own = () if chooses_by_scores(study) else study.seeds
    used = {*study.seeds, study.scorer_seed}
    return (*own, *islice((seed for seed in count(_FIRST) if seed not in used), number))[:number]
