"""Runs one configuration of a study with all its seeds, judged on dev: a trial of a W&B sweep.

The runs are those of the study and have the same records in the same folder. Recorded runs are not run again.
"""

import json
import os
from collections.abc import Mapping
from contextlib import closing
from functools import cache

from records.run_record import Split, has_test_scores
from study.config.loader import Study
from study.config.trial_params import parse_trial_params
from study.execution.trial_runner import StudyTrials
from study.folder.run_name import format_run_name
from study.folder.run_store import RunStore
from study.scheduling.choice import compute_mean, select_best
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.sweep_trials import SWEPT_FOLDER, read_sweep_trials, register_sweep_trial
from study.scheduling.trials import ConfigurationFactory, PlannedConfiguration, ResolvedInputs, get_role
from study.tracking import WandbLogger
from study.tracking.agent_env import read_sweep_context, remove_sweep_variables
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.utils.live_view import LiveView
from study.wandb_sweeps.agent_run import open_agent_run
from study.workflows.open_study import OpenStudy, open_study
from study.workflows.session import flush_wandb, make_tracking, run_trials, upload_records
from trainables.specs.run_spec import RunSpec
from trainables.storage import open_storage
from trainables.storage.base import RESUME_FOLDER
from trainables.storage.leases import Leases


class SingleConfigurationScheduler(BaseScheduler):
    """Scheduler of the runs of one configuration; the other arguments are those of `BaseScheduler`."""

    def __init__(
        self,
        study: Study,
        resolved: ResolvedInputs,
        run_store: RunStore,
        plan_hash: str,
        configuration: PlannedConfiguration,
    ) -> None:
        super().__init__(study, resolved, run_store, plan_hash)
        self.configuration, self.has_test_scores = configuration, has_test_scores(run_store.folder)
        self._enqueue(((self.configuration, run) for run in self.configuration.runs), "train")

    @property
    def configurations(self) -> list[PlannedConfiguration]:
        """The configuration, and the scoring run of its curriculum if it has to be run."""
        return [self.configuration, *self._list_scorers()]

    def count_trials(self) -> dict[Split, int]:
        """Return the number of trials: one for each seed, and those of the scoring run."""
        return {"dev": len(self.configuration.runs) + len(self._scorer_actions)}

    @property
    def is_finished(self) -> bool:
        """True if nothing is running and nothing is left to start."""
        return not len(self._queue)

    def list_needed_checkpoints(self) -> set[str]:
        """Return the checkpoints of unfinished runs, and the final ones of the best swept configurations.

        The study may test these.
        """
        waiting = [run for item in self.configurations for run in item.runs if not self.store.is_finished(run.id)]
        others = [
            self._factory.make_configuration(name, point, self.study.seeds, get_role(self.study, name))
            for name, point in read_sweep_trials(self.study, lambda line: None)
        ]
        likely = select_best([self.configuration, *others], self.store, self.metric)
        final = {key for item in likely.values() for run in item.runs for key in self.list_checkpoint_keys(run)[-1:]}
        needed = {key for run in waiting for key in self.list_checkpoint_keys(run)}
        return final | needed | {f"{RESUME_FOLDER}/{run.id}" for run in waiting}

    @property
    def result(self) -> float | None:
        """Mean of the study's metric over the seeds. None if a seed failed."""
        return compute_mean(self.configuration, self.store, self.metric)

    @property
    def failures(self) -> list[str]:
        """One line for each failed seed."""
        return [
            f"{format_run_name(self.make_labels(self.configuration, run))}: "
            f"{(self.store.get_summary(run.id) or {}).get('error', 'no record')}"
            for run in self.configuration.runs
            if not self.store.is_finished(run.id)
        ]

    def _is_given_up(self, item: PlannedConfiguration, run: RunSpec) -> bool:
        """Return whether a failed run is not retried, as in the study itself.

        Once test scores exist, a success would change what the study has chosen from.
        """
        return self.has_test_scores and self.store.get_state(run.id) == "failed"


def run_configuration(study: Study, parameters: Mapping[str, str]) -> None:
    """Run one configuration, with or without the agent of a W&B sweep, and print its result.

    Raises:
        UserError: there is no such configuration, or the study's inputs are not what it says.
        IncompleteError: a seed failed.
    """
    context = read_sweep_context(os.environ)
    for name in os.environ.keys() - remove_sweep_variables(os.environ).keys():
        del os.environ[name]  # otherwise W&B would treat every run of this process and its trials as the sweep's run
    with open_agent_run(context, study.tracking.mode, parameters, print_line) as agent_run:
        trial = parse_trial_params(study, parameters)
        if trial.ignored:
            print_line(f"{trial.variant} does not take {', '.join(trial.ignored)} here: ignored")
        open_result = open_study(study)
        factory = ConfigurationFactory(open_result.study, open_result.resolved, open_result.plan_hash)
        configuration = factory.make_configuration(
            trial.variant, trial.params, study.seeds, get_role(study, trial.variant)
        )
        swept_study = open_result.study.model_copy(
            update={"task": study.task, "training": configuration.runs[0].training}
        )
        open_result.study.study_type.trainable.data_backend.check_data(swept_study, open_result.prepared)
        label = format_run_name({**factory.make_labels(configuration, configuration.runs[0]), "seed": None})
        ids = {"configuration_id": configuration.id, "specification_ids": [run.id for run in configuration.runs]}
        if agent_run:
            agent_run.name = label
            agent_run.config.update({"study": study.name, **ids})
        announce_wait = cache(lambda: print_line("another process runs this configuration: waiting for its runs"))
        with Leases(open_storage(str(study.folder / SWEPT_FOLDER))).acquire(configuration.id, announce_wait):
            value = _run_seeds(open_result, configuration)
        values = {"objective": value, f"objective/{study.analysis.metric}": value}
        if agent_run:
            agent_run.log(values)  # the search of a sweep reads logged values, not only the summary
    description = {
        "variant": configuration.name,
        **configuration.params.values,
        "configuration_id": configuration.id,
        "seeds": list(study.seeds),
    }
    print_line(json.dumps(description | values))


def _run_seeds(open_result: OpenStudy, configuration: PlannedConfiguration) -> float:
    """Return the mean of the study's metric over the seeds."""
    study = open_result.study
    scheduler = SingleConfigurationScheduler(
        study, open_result.resolved, RunStore(study.folder), open_result.plan_hash, configuration
    )
    if scheduler.has_test_scores:
        print_line(
            "test scores exist: this configuration is recorded but does not change the study's choice; "
            "failed seeds are not retried"
        )
    register_sweep_trial(study.folder, configuration)
    with closing(WandbLogger(make_tracking(study), print_line)) as wandb_logger, LiveView() as view:
        wandb_logger.log_document("plan")
        trials = StudyTrials(scheduler, wandb_logger, open_result.remote_records)
        run_trials([trials], open_result.cluster, view)
        runs = (run.id for each in scheduler.configurations for run in each.runs)
        wandb_logger.log_missing_evaluations(scheduler.store, runs)
        flush_wandb(wandb_logger, view)
    upload_records(open_result)
    if scheduler.result is None:
        raise IncompleteError("no result of this configuration", scheduler.failures)
    return scheduler.result
