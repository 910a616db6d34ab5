"""What a study still has to run, errand by errand: what all kinds of such work have in common. Knows nothing of Ray."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from study.config.schema import Study
from study.config.systems import trained_scores
from study.records import run_record as record
from study.records.run_store import Ledger
from study.scheduling.objectives import objectives
from study.scheduling.queue import Agenda, Stops
from study.scheduling.trials import Configuration, Errand, Maker, Resolved
from trainables.curriculum.settings import CurriculumSettings
from trainables.difficulty import cache as kept
from trainables.specs.base import Specification
from trainables.specs.stages import remembered, stage_key
from trainables.utils.checksums import intact


class Work(ABC):
    """Configurations whose runs become errands.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        rounds_left: how many rounds the search of a variant still has to go, by the variant's name.
    """

    def __init__(
        self,
        study: Study,
        resolved: Resolved,
        ledger: Ledger,
        plan_hash: str,
        rounds_left: Callable[[str], int] = lambda name: 0,
    ) -> None:
        self.study, self.resolved, self.ledger, self.folder = study, resolved, ledger, ledger.folder
        self.objectives = objectives(study)
        self._make = Maker(study, resolved, plan_hash)
        self._known_stops: dict[str, Stops] = {}
        self._agenda = Agenda(self._stops, rounds_left)
        self._asked: set[str] = set()  # actions of the scorer
        self._failed: set[tuple[str, record.Split]] = set()  # evaluations that have had their tries in this start

    @property
    def scorer(self) -> Configuration:
        """The run whose weights say what is difficult, for those scores that ask a trained model."""
        return self._make.scorer

    @property
    def scorer_failed(self) -> bool:
        """Whether that run has failed by itself."""
        return self.ledger.state(self.scorer.runs[0].id) == "failed"

    @property
    @abstractmethod
    def configurations(self) -> list[Configuration]:
        """All so far."""

    @property
    @abstractmethod
    def runs_planned(self) -> int:
        """Errands of the whole work, those already done included."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Nothing is running and nothing is left to start."""

    @abstractmethod
    def needed(self) -> set[str]:
        """Names, in the storage of stages, of all that may still be read."""

    def next(self) -> Errand | None:
        """The next errand to start, or None while others must finish first."""
        return self._agenda.take()

    def done(self, errand: Errand) -> None:
        """The errand ended, well or not: its record says which."""
        run = errand.job.specification
        self._agenda.end(run.id)
        if self.ledger.refresh(run.id, errand.split) == "finished":
            self._agenda.finish(run)
        else:
            self._failed.add((run.id, errand.split))

    def labels(self, configuration: Configuration, run: Specification) -> dict[str, Any]:
        """The W&B config of a run."""
        return self._make.labels(configuration, run)

    def stages(self, run: Specification) -> tuple[str, ...]:
        """Keys of the stages that are kept of a run, in the order of training."""
        return tuple(key for _, key in self._stops(run))

    def _stops(self, run: Specification) -> Stops:
        """Instances and keys of the states that are kept of a run."""
        if run.training is None:
            return ()
        if run.id not in self._known_stops:
            stops = remembered(run, self._make.cuts(run))
            self._known_stops[run.id] = tuple((stop, stage_key(run, stop)) for stop in stops)
        return self._known_stops[run.id]

    def _enqueue(self, runs: Iterable[tuple[Configuration, Specification]], action: str) -> None:
        split: record.Split = "dev" if action == "train" else "test"
        for item, run in runs:
            if self.ledger.finished(run.id, split):
                self._agenda.finish(run)
            elif not (run.id in self._agenda or (run.id, split) in self._failed or self._settled(item, run)):
                if run.curriculum and run.curriculum.scorer:
                    self._ask_scorer("train")
                self._agenda.add(self._make.errand(item, run, action))

    def _ask_scorer(self, action: kept.Action) -> None:
        """Queues the scorer, once, unless what it says of the queries is there: it may be another study's."""
        item, prepared = self.scorer, self.study.cache / "prepared" / self.resolved.fingerprint
        orders = [CurriculumSettings(score=name, scorer=item.runs[0].id) for name in trained_scores(self.study)]
        places = [kept.file(prepared, order, self.resolved.model_digest, action) for order in orders]
        if orders and action not in self._asked and not all(intact(place, remove=True) for place in places):
            self._asked.add(action)
            self._agenda.add(self._make.errand(item, item.runs[0], action))

    def _scorers(self) -> list[Configuration]:
        """The scorer, if it is a run of this study."""
        if not trained_scores(self.study):
            return []
        own = self.scorer
        return [own] if self._asked or self.ledger.state(own.runs[0].id) is not None else []

    def _settled(self, item: Configuration, run: Specification) -> bool:
        """Whether a run that is not finished is nevertheless not to be tried again."""
        return False
