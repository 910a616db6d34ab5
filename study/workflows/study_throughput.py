"""Throughput of a study's runs, measured by real training where its trials run."""

from collections.abc import Callable

from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_baseline
from study.execution.nodes import map_on_cluster
from study.execution.slots import connect_or_check
from study.execution.tuner import open_session, start_ray
from study.scheduling.trials import ConfigurationFactory
from study.workflows.resolve import resolve_study
from trainables.specs.plugin import Throughput

_TRAINING_SECONDS = 30.0
"""Seconds of training. With start-up, loading the model and the evaluation it takes about a minute."""


def measure_study_throughput(
    study: Study, log: Callable[[str], None], seconds: float = _TRAINING_SECONDS
) -> list[Throughput]:
    """Prepare the data if necessary, then train as many runs concurrently as the study would.

    The runs are Ray tasks with the resources of a trial: on the study's cluster, or on this machine if there is none.

    Returns:
        The throughput of each of these runs. For its units see `Throughput`.

    Raises:
        UserError: the task or the model is not what the study says, or its cluster cannot be reached.
    """
    cluster = connect_or_check(study)
    with open_session() as folder:
        study, resolved, prepared = resolve_study(study, cluster, log)
        factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
        name = get_baseline(study)
        params = make_system_space(study, name).list_default_configurations()[0]
        baseline = factory.make_configuration(name, params, study.seeds, "baseline")
        trial = factory.make_request(baseline, baseline.runs[0], "train").trial
        max_concurrent = start_ray(study, cluster, folder)
        log(
            f"measuring throughput, about a minute: start of a run, frozen layers, {seconds:.0f} s of training, "
            f"evaluation; {max_concurrent} at once"
        )
        backend = study.study_type.trainable.training_backend
        return map_on_cluster(study, backend.measure_throughput, [(trial, seconds)] * max_concurrent)
