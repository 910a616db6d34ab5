"""Draws the fresh seeds of a confirmation, and says when the runs of the search serve as well."""

from itertools import count, islice
from typing import Any

from study.config.schema import Study
from study.config.spaces import count_proposals

_FIRST = 101
"""First fresh seed. A seed only names its random streams, so successive seeds are as unrelated as any others."""
_MOST = 1000


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
    used = {*study.seeds, study.curriculum.seed}
    return (*own, *islice((seed for seed in count(_FIRST) if seed not in used), number))[:number]
