"""One configuration of a study with all its seeds, judged on the development set: what a W&B sweep asks for.

It takes the path of a study: the same runs, recorded in the same folder, and those that are there are not run again.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing

from study.config import trial_params as hyperparameters
from study.config.loader import Study
from study.records import run_record as record
from study.records.run_name import format_run_name
from study.records.run_store import RunStore
from study.scheduling import sweep_trials as swept
from study.scheduling.objectives import compute_means, select_best
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import Configuration, ConfigurationFactory, ResolvedInputs, get_role
from study.tracking import WandbLogger
from study.tracking.agent_env import read_sweep_context, remove_sweep_variables
from study.tracking.backfill import backfill_evaluations
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.wandb_sweeps.agent_run import open_agent_run
from study.workflows.open_study import OpenStudy, open_study
from study.workflows.run_study import flush_wandb, make_tracking, run_trials
from trainables.specs.base import RunSpec
from trainables.storage import open_storage
from trainables.storage.base import RESUME_FOLDER
from trainables.storage.leases import Leases


class SingleConfigurationScheduler(BaseScheduler):
    """The runs of one configuration.

    Args:
        study: its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        configuration: whose runs.
    """

    def __init__(
        self, study: Study, resolved: ResolvedInputs, run_store: RunStore, plan_hash: str, configuration: Configuration
    ) -> None:
        super().__init__(study, resolved, run_store, plan_hash)
        self.configuration, self.has_test_scores = configuration, record.has_test_scores(run_store.folder)
        self._enqueue(((self.configuration, run) for run in self.configuration.runs), "train")

    @property
    def configurations(self) -> list[Configuration]:
        """The one, and the scorer that its curriculum asks, if it had to be run."""
        return [self.configuration, *self._list_scorers()]

    @property
    def n_trials(self) -> int:
        """One a seed, and that of the scorer."""
        return len(self.configuration.runs) + len(self._scorer_actions)

    @property
    def is_finished(self) -> bool:
        """Nothing is running and nothing is left to start."""
        return not len(self._queue)

    def list_needed_checkpoints(self) -> set[str]:
        """The states of its own runs, and the final weights of the best of each variant that was swept: the study may
        test those."""
        waiting = [run for item in self.configurations for run in item.runs if not self.store.is_finished(run.id)]
        found = swept.read_sweep_trials(self.study, lambda line: None)
        others = [
            self._factory.make_configuration(name, point, self.study.seeds, get_role(self.study, name))
            for name, point in found
        ]
        likely = select_best([self.configuration, *others], self.store, self.objectives)
        final = {key for item in likely.values() for run in item.runs for key in self.list_checkpoint_keys(run)[-1:]}
        return (
            final
            | {key for run in waiting for key in self.list_checkpoint_keys(run)}
            | {f"{RESUME_FOLDER}/{run.id}" for run in waiting}
        )

    @property
    def result(self) -> dict[str, float] | None:
        """The study's objectives, the one that decides first, as means over the seeds; None where a seed failed."""
        found = compute_means(self.configuration, self.store, self.objectives)
        return None if found is None else dict(zip(self.objectives, found, strict=True))

    @property
    def failures(self) -> list[str]:
        """A line for each seed that came to nothing."""
        item = self.configuration
        ended = [(run, self.store.get_summary(run.id) or {}) for run in item.runs if not self.store.is_finished(run.id)]
        return [
            f"{format_run_name(self.make_labels(item, run))}: {found.get('error', 'no record')}" for run, found in ended
        ]

    def _is_given_up(self, item: Configuration, run: RunSpec) -> bool:
        """As in the study itself: made good once test scores exist, it would change what the study has chosen from."""
        return self.has_test_scores and self.store.get_state(run.id) == "failed"


def run_configuration(study: Study, parameters: Mapping[str, str]) -> None:
    """Runs the configuration, under the agent of a W&B sweep or without one, and prints what it found.

    Args:
        study: what was asked for.
        given: `variant` and hyperparameters, as text.

    Raises:
        UserError: there is no such configuration, or the study is not what it says.
        IncompleteError: a seed failed.
    """
    context = read_sweep_context(os.environ)
    for name in os.environ.keys() - remove_sweep_variables(os.environ).keys():
        del os.environ[name]  # else every W&B run of this process and of its trials would be taken for the sweep's own
    with open_agent_run(context, study.tracking.mode, parameters, print_line) as agent_run:
        named = hyperparameters.parse_trial_params(study, parameters)
        if named.ignored:
            print_line(f"{named.variant} does not take {', '.join(named.ignored)} here: left aside")
        opened = open_study(study, is_exclusive=False)
        factory = ConfigurationFactory(opened.study, opened.resolved, opened.plan_hash)
        configuration = factory.make_configuration(
            named.variant, named.params, study.seeds, get_role(study, named.variant)
        )
        swept_study = opened.study.model_copy(update={"task": study.task, "training": configuration.runs[0].training})
        opened.study.study_type.trainable.data_backend.check_data(swept_study, opened.prepared)
        label = format_run_name({**factory.make_labels(configuration, configuration.runs[0]), "seed": None})
        ids = {"configuration_id": configuration.id, "specification_ids": [run.id for run in configuration.runs]}
        agent_run.describe(label, {"study": study.name, **ids})
        with Leases(open_storage(str(study.folder / swept.SWEPT_FOLDER))).acquire(
            configuration.id, _make_wait_callback()
        ):
            found = _run_seeds(opened, configuration)
        values = {"objective": next(iter(found.values()))}
        values |= {f"objective/{name}": value for name, value in found.items()}
        agent_run.log_result(values)
    about = {
        "variant": configuration.name,
        **configuration.params.values,
        "configuration_id": configuration.id,
        "seeds": list(study.seeds),
    }
    print_line(json.dumps(about | values))


def _run_seeds(opened: OpenStudy, configuration: Configuration) -> dict[str, float]:
    """The objectives by name, the one that decides first."""
    study, remote_records = opened.study, opened.remote_records
    scheduler = SingleConfigurationScheduler(
        study, opened.resolved, RunStore(study.folder), opened.plan_hash, configuration
    )
    if scheduler.has_test_scores:
        print_line("test scores exist: this configuration is recorded, and the study's choice stands; failed seeds too")
    swept.register_sweep_trial(study.folder, configuration)
    with closing(WandbLogger(make_tracking(study), print_line)) as wandb_logger:
        wandb_logger.log_document("plan")
        run_trials(scheduler, wandb_logger)
        backfill_evaluations(
            wandb_logger, scheduler.store, (run.id for each in scheduler.configurations for run in each.runs)
        )
        flush_wandb(wandb_logger)
    if remote_records:
        remote_records.upload_missing(study.folder, study.tracking.mode)
        remote_records.upload_study(study.folder)
    if scheduler.result is None:
        raise IncompleteError("no result of this configuration", scheduler.failures)
    return scheduler.result


def _make_wait_callback() -> Callable[[], None]:
    has_logged = False

    def on_wait() -> None:
        nonlocal has_logged
        if not has_logged:
            has_logged = True
            print_line("another process runs this configuration: waiting for its runs")

    return on_wait
