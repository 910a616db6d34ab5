"""Data made ready without a study being run."""

from study.config.schema import Study
from study.config.training_length import settled, told
from study.utils.console import say
from study.workflows.cleanup import clean
from trainables.models import pretrained as weights


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
