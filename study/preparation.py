"""Data made ready without a study being run."""

from study.housekeeping import clean
from study.length import settled, told
from study.progress import say
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
    prepared = data.prepare(study.task, study.cache, say)
    data.check(settled(study, prepared), prepared)
    for line in data.summary(study, prepared):
        say(line)
    if study.training.epochs is not None:
        say(told(study, prepared))
