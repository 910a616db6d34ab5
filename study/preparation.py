"""Data made ready without a study being run."""

import functools

from study.housekeeping import clean
from study.length import settled, told
from study.settings import Study
from trainables import weights


def summarise(study: Study) -> None:
    """Prepares the data and prints what it is.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    path = weights.folder(study.model.name)
    weights.check(path, study.model)
    clean(study)
    data = study.kind.trainable.data
    prepared = data.prepare(study.task, study.cache, functools.partial(print, flush=True))
    data.check(settled(study, prepared), prepared)
    for line in data.summary(study, prepared):
        print(line)
    if study.training.epochs is not None:
        print(told(study, prepared))
