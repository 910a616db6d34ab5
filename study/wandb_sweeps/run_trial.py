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
from study.records.run_name import run_name
from study.records.run_store import Ledger
from study.scheduling import sweep_trials as swept
from study.scheduling.objectives import best, means
from study.scheduling.scheduler import Work
from study.scheduling.trials import Configuration, Maker, Resolved, role
from study.tracking import Scribe
from study.tracking.agent_env import place, without_sweep
from study.tracking.missing import write_missing
from study.utils.console import say
from study.utils.error_text import IncompleteError
from study.wandb_sweeps.agent_run import parent
from study.workflows.open_study import Opened, opened
from study.workflows.run_study import carry_out, settle, tracking
from trainables.specs.base import Specification
from trainables.storage import open_storage
from trainables.storage.base import RESUME
from trainables.storage.locks import Claims


class Single(Work):
    """The runs of one configuration.

    Args:
        study: its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        configuration: whose runs.
    """

    def __init__(
        self, study: Study, resolved: Resolved, ledger: Ledger, plan_hash: str, configuration: Configuration
    ) -> None:
        super().__init__(study, resolved, ledger, plan_hash)
        self.configuration, self.seen_test = configuration, record.tested(ledger.folder)
        self._enqueue(((self.configuration, run) for run in self.configuration.runs), "train")

    @property
    def configurations(self) -> list[Configuration]:
        """The one, and the scorer that its curriculum asks, if it had to be run."""
        return [self.configuration, *self._scorers()]

    @property
    def runs_planned(self) -> int:
        """One a seed, and that of the scorer."""
        return len(self.configuration.runs) + len(self._asked)

    @property
    def finished(self) -> bool:
        """Nothing is running and nothing is left to start."""
        return not len(self._agenda)

    def needed(self) -> set[str]:
        """The states of its own runs, and the final weights of the best of each variant that was swept: the study may
        test those."""
        waiting = [run for item in self.configurations for run in item.runs if not self.ledger.finished(run.id)]
        found = swept.read(self.study, lambda line: None)
        others = [self._make.system(name, point, self.study.seeds, role(self.study, name)) for name, point in found]
        likely = best([self.configuration, *others], self.ledger, self.objectives)
        final = {key for item in likely.values() for run in item.runs for key in self.stages(run)[-1:]}
        return final | {key for run in waiting for key in self.stages(run)} | {f"{RESUME}/{run.id}" for run in waiting}

    @property
    def result(self) -> dict[str, float] | None:
        """The study's objectives, the one that decides first, as means over the seeds; None where a seed failed."""
        found = means(self.configuration, self.ledger, self.objectives)
        return None if found is None else dict(zip(self.objectives, found, strict=True))

    @property
    def failures(self) -> list[str]:
        """A line for each seed that came to nothing."""
        item = self.configuration
        ended = [(run, self.ledger.summary(run.id) or {}) for run in item.runs if not self.ledger.finished(run.id)]
        return [f"{run_name(self.labels(item, run))}: {found.get('error', 'no record')}" for run, found in ended]

    def _settled(self, item: Configuration, run: Specification) -> bool:
        """As in the study itself: made good once test scores exist, it would change what the study has chosen from."""
        return self.seen_test and self.ledger.state(run.id) == "failed"


def sweep(study: Study, given: Mapping[str, str]) -> None:
    """Runs the configuration, under the agent of a W&B sweep or without one, and prints what it found.

    Args:
        study: what was asked for.
        given: `variant` and hyperparameters, as text.

    Raises:
        UserError: there is no such configuration, or the study is not what it says.
        IncompleteError: a seed failed.
    """
    where = place(os.environ)
    for name in os.environ.keys() - without_sweep(os.environ).keys():
        del os.environ[name]  # else every W&B run of this process and of its trials would be taken for the sweep's own
    with parent(where, study.tracking.mode, given, say) as told:
        named = hyperparameters.read(study, given)
        if named.ignored:
            say(f"{named.variant} does not take {', '.join(named.ignored)} here: left aside")
        begun = opened(study, alone=False)
        maker = Maker(begun.study, begun.resolved, begun.plan_hash)
        item = maker.system(named.variant, named.point, study.seeds, role(study, named.variant))
        swept_study = begun.study.model_copy(update={"task": study.task, "training": item.runs[0].training})
        begun.study.kind.trainable.data.check(swept_study, begun.prepared)
        label = run_name({**maker.labels(item, item.runs[0]), "seed": None})
        ids = {"configuration_id": item.id, "specification_ids": [run.id for run in item.runs]}
        told.about(label, {"study": study.name, **ids})
        with Claims(open_storage(str(study.folder / swept.FOLDER))).held(item.id, _patience()):
            found = _run(begun, item)
        values = {"objective": next(iter(found.values()))}
        values |= {f"objective/{name}": value for name, value in found.items()}
        told.found(values)
    about = {"variant": item.name, **item.point.values, "configuration_id": item.id, "seeds": list(study.seeds)}
    say(json.dumps(about | values))


def _run(begun: Opened, item: Configuration) -> dict[str, float]:
    """The objectives by name, the one that decides first."""
    study, archive = begun.study, begun.archive
    made = Single(study, begun.resolved, Ledger(study.folder), begun.plan_hash, item)
    if made.seen_test:
        say("test scores exist: this configuration is recorded, and the study's choice stands; failed seeds too")
    swept.keep(study.folder, item)
    with closing(Scribe(tracking(study), say)) as scribe:
        scribe.document("plan")
        carry_out(made, scribe)
        write_missing(scribe, made.ledger, (run.id for own in made.configurations for run in own.runs))
        settle(scribe)
    if archive:
        archive.complete(study.folder, study.tracking.mode)
        archive.publish(study.folder)
    if made.result is None:
        raise IncompleteError("no result of this configuration", made.failures)
    return made.result


def _patience() -> Callable[[], None]:
    said = False

    def waited() -> None:
        nonlocal said
        if not said:
            said = True
            say("another process runs this configuration: waiting for its runs")

    return waited
