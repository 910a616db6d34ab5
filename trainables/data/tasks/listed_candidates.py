"""Fills in the numbers of candidates that the files of a task list, where both samplers are "given"."""

from collections import Counter
from typing import Any

from pydantic import ValidationError

from trainables.data.tasks import get_task
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

_SHOWN_NUMBERS = 4


def fill_in_candidates(task: dict[str, Any]) -> None:
    """Set `candidates` and `train_negatives` to the numbers of responses that the contexts of the files have.

    `train_negatives` is set only if it is not given and differs from `candidates` - 1.

    Args:
        task: The section [task] by the names of its fields. Modified in place. Nothing is set if it is not valid,
            since its validation reports the errors, or if the task does not list the same number for all queries.

    Raises:
        UserError: If the files cannot be read, or if the queries have different numbers.
    """
    task.pop("candidates", None)
    try:
        settings = RankerTaskSettings.model_validate({name: value for name, value in task.items() if value is not None})
    except ValidationError:
        return
    reader = get_task(settings.name)
    if reader.count_candidates is None:
        return
    reader.check_dev_share(settings)
    counts = reader.count_candidates(settings)
    task["candidates"] = _get_only_number(counts["dev"] + counts["test"], "dev and test", "candidates")
    if task.get("train_negatives") is None:
        keys = "candidates and task.train_negatives"
        number = _get_only_number(counts["train"], "train", keys, " responses of label 0")
        if number != task["candidates"] - 1:
            task["train_negatives"] = number


def _get_only_number(counts: Counter[int], where: str, keys: str, what: str = "") -> int:
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{number} ({count} x)" for number, count in counts.most_common(_SHOWN_NUMBERS)]
    rest = ["..."] if len(counts) > _SHOWN_NUMBERS else []
    found = f"none, but the contexts of {where} list {', '.join([*shown, *rest]) or 'none'}{what}"
    raise UserError("task.candidates", found, f"one number for all, or task.{keys}")
