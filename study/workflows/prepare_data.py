"""Preparation of the data of a study without running the study."""

from analysis.rendering.cells import format_terminal_table
from analysis.rendering.sections import build_data_section
from records.data_statistics import DataStatistics
from study.config.schema import Study
from study.config.training_length import describe_length, resolve_length
from study.plan.collections import prepare_collections
from study.utils.console import print_line
from study.workflows.cleanup import clean_up_study
from trainables.exchange.head_form import check_model
from trainables.models.pretrained import resolve_model_path


def prepare_study_data(study: Study) -> None:
    """Prepare the data of a study and print a description and statistics of it.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    path = resolve_model_path(study.model.name)
    check_model(path, study.model)
    clean_up_study(study)
    data = study.study_type.trainable.data_backend
    prepared = data.prepare_data(study.task, study.cache_folder, print_line)
    data.check_data(resolve_length(study, prepared), prepared)
    for line in data.summarize_data(study, prepared):
        print_line(line)
    prepare_collections(study, print_line)
    if study.training.epochs is not None:
        print_line(describe_length(study, prepared))
    statistics = study.study_type.trainable.load_statistics(prepared)
    if section := build_data_section(DataStatistics.model_validate(statistics) if statistics else None):
        print_line(section.title)
        print_line(format_terminal_table(section.header, section.rows))
        print_line(section.legend)
