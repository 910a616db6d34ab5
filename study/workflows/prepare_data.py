"""Data made ready without a study being run."""

from study.config.schema import Study
from study.config.training_length import describe_length, resolve_length
from study.utils.console import print_line
from study.workflows.cleanup import clean_up_study
from trainables.models import pretrained as weights


def prepare_study_data(study: Study) -> None:
    """Prepares the data and prints what it is.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    path = weights.resolve_model_path(study.model.name)
    weights.check_model_settings(path, study.model)
    clean_up_study(study)
    data = study.study_type.trainable.data_backend
    prepared = data.prepare_data(study.task, study.cache, print_line)
    data.check_data(resolve_length(study, prepared), prepared)
    for line in data.summarize_data(study, prepared):
        print_line(line)
    if study.training.epochs is not None:
        print_line(describe_length(study, prepared))
