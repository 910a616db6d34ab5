"""What has to run next: search rounds, then the test set for the chosen configurations. Knows nothing of Ray.

Everything it decides follows from the study file and from finished records, so a second start of the same study takes
exactly the decisions of the first.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from search_spaces.replicates import Search
from search_spaces.smoothing import settings
from study import record
from study.config import Study, searched
from trainables.job import Job
from trainables.smoothing import switch_instances
from trainables.specification import Environment, RunSpecification, VariantSettings, digest
from trainables.stages import remembered, stage_key
from trainables.storage import RESUME


class Resolved(NamedTuple):
    """What the study's names stand for on this machine."""

    fingerprint: str
    model_digest: str
    model_path: Path
    environment: Environment


class Configuration(NamedTuple):
    """One row of the study: a system at given settings, to be run with every seed."""

    name: str  # BERT, LS, ..., untrained, BM25
    variant: VariantSettings
    runs: tuple[RunSpecification, ...]

    @property
    def id(self) -> str:
        """Shared by all seeds."""
        return self.runs[0].configuration_id


class Errand(NamedTuple):
    """A job with the labels its W&B run carries."""

    job: Job
    labels: dict[str, Any]

    @property
    def split(self) -> record.Split:
        """The split it evaluates."""
        return "dev" if self.job.action == "train" else "test"


class Campaign:
    """The study in progress.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        folder: the study's folder, where records are looked up.
        plan_hash: goes into every run's labels.
    """

    def __init__(self, study: Study, resolved: Resolved, folder: Path, plan_hash: str) -> None:
        self.study, self.resolved, self.folder, self._plan_hash = study, resolved, folder, plan_hash
        self._queue: deque[Errand] = deque()
        self._running: dict[str, str | None] = {}  # run id -> key of the first stretch that it may share
        self._rounds: dict[str, list[Configuration]] = {}
        self._testing = False
        training = study.training
        cuts = {switch_instances(part, training.instances, training.batch_size) for part in study.search.switch}
        self._cuts = tuple(sorted(cuts))
        self._seen_test = any(folder.glob("runs/*/test.json"))
        space = study.search
        self._searches: dict[str, Search] = {
            name: Search(name, count, space.parallel, space.seed, space.epsilon, space.switch)
            for name, count in searched(study).items()
        }
        self.configurations = [self._baseline(), self._untrained(), self._sampler()]
        self._enqueue(self.configurations, "train")
        for name in self._searches:
            self._next_round(name)
        self._settle()

    @property
    def runs_planned(self) -> int:
        """Training and test errands of the whole study, those already done included."""
        seeds, trials = len(self.study.seeds), sum(searched(self.study).values())
        systems = len(self._searches) + 2
        return (trials + 2 + systems) * seeds + 2

    @property
    def finished(self) -> bool:
        """Nothing is running and nothing is left to start."""
        return self._testing and not self._queue and not self._running

    def next(self) -> Errand | None:
        """The next errand to start, or None while others must finish first.

        One that begins as a running one does is left for later, since it would wait for that one's stages.
        """
        if not self._queue:
            return None
        busy = set(self._running.values()) - {None}
        errand = next((errand for errand in self._queue if self._beginning(errand) not in busy), self._queue[0])
        self._queue.remove(errand)
        self._running[errand.job.specification.id] = self._beginning(errand)
        return errand

    def _beginning(self, errand: Errand) -> str | None:
        """Two runs with the same one would wait for each other, so that something else had better run meanwhile."""
        return next(iter(self.stages(errand.job.specification)), None) if errand.job.action == "train" else None

    def done(self, errand: Errand) -> None:
        """The errand ended, well or not: its record says which."""
        self._running.pop(errand.job.specification.id, None)
        self._settle()

    def example(self) -> Job:
        """Any training job, for what is computed once for all of them."""
        baseline = self.configurations[0]
        return self._errand(baseline, baseline.runs[0], "train").job

    def chosen(self) -> dict[str, Configuration]:
        """By system, the complete configuration with the best mean on the development set, the first on a tie."""
        best: dict[str, Configuration] = {}
        for configuration in self.configurations:
            mean, leader = self.mean(configuration), best.get(configuration.name)
            if mean is not None and (leader is None or mean > (self.mean(leader) or 0.0)):
                best[configuration.name] = configuration
        return best

    def mean(self, configuration: Configuration) -> float | None:
        """Mean development metric over all seeds; None where a seed failed or is missing."""
        entries = [record.read(self.folder, run.id) for run in configuration.runs]
        key = f"dev/{self.study.analysis.metric}"
        values = [entry["summary"][key] for entry in entries if entry and entry["state"] == "finished"]
        return fmean(values) if len(values) == len(entries) else None

    def needed(self) -> set[str]:
        """Names, in the storage of stages, of all that this study may still read: the stages and slots of runs that are
        queued or running, the stages that proposals still possible would start from, and the final weights of every
        configuration that may still be tested."""
        open_ones = [item for item in self.configurations if self._open([item])]
        waiting = {run.id for item in open_ones for run in item.runs if not record.finished(self.folder, run.id)}
        possible = [
            self._configuration(name, variant)
            for name, search in self._searches.items()
            for variant in search.remaining()
        ]
        training = [run for item in open_ones for run in item.runs if run.id in waiting]
        training += [run for item in possible for run in item.runs]
        names = {key for run in training for key in self.stages(run)} | {f"{RESUME}/{run_id}" for run_id in waiting}
        for item in [*self.chosen().values(), *open_ones]:  # who is complete and not the best will not become it
            for run in item.runs:
                if not record.finished(self.folder, run.id, "test"):
                    names |= set(self.stages(run)[-1:])
        return names

    def stages(self, run: RunSpecification) -> list[str]:
        """Keys of the stages that are kept of a run, in the order of training."""
        return [] if run.training is None else [stage_key(run, stop) for stop in remembered(run, self._cuts)]

    def _settle(self) -> None:
        """Starts whatever the finished records allow: next rounds, then the test set."""
        progressed = True
        while progressed:
            progressed = False
            for name, configurations in list(self._rounds.items()):
                if not self._open(configurations):
                    self._searches[name].tell([self.mean(configuration) for configuration in configurations])
                    self._next_round(name)
                    progressed = True
        if not self._testing and not self._rounds and not self._open(self.configurations):
            self._testing = True
            self._enqueue(self.chosen().values(), "test")

    def _next_round(self, name: str) -> None:
        proposals = self._searches[name].round()
        self._rounds.pop(name, None)
        if proposals:
            new = [self._configuration(name, proposal.settings) for proposal in proposals]
            self._rounds[name] = new
            self.configurations += new
            self._enqueue(new, "train")

    def _open(self, configurations: Iterable[Configuration]) -> bool:
        waiting = self._running.keys() | {errand.job.specification.id for errand in self._queue}
        return any(run.id in waiting for configuration in configurations for run in configuration.runs)

    def _enqueue(self, configurations: Iterable[Configuration], action: str) -> None:
        split: record.Split = "dev" if action == "train" else "test"
        for configuration in configurations:
            for run in configuration.runs:
                if not record.finished(self.folder, run.id, split) and not self._settled(configuration, run):
                    self._queue.append(self._errand(configuration, run, action))

    def _settled(self, configuration: Configuration, run: RunSpecification) -> bool:
        """A failed run of the search is tried again, but not once test scores exist: they fixed the choice."""
        searched_run = configuration.name in self._searches and self._seen_test
        return (
            searched_run and record.read(self.folder, run.id) is not None and not record.finished(self.folder, run.id)
        )

    def _errand(self, configuration: Configuration, run: RunSpecification, action: str) -> Errand:
        job = Job.model_validate(
            {
                "specification": run,
                "action": action,
                "metric": self.study.analysis.metric,
                "cache": self.study.cache,
                "model_path": self.resolved.model_path,
                "stages": self.study.stages,
                "interval": self.study.caching.interval,
                "study": digest(str(self.folder)),
                "cuts": self._cuts,
            }
        )
        return Errand(job, self.labels(configuration, run))

    def labels(self, configuration: Configuration, run: RunSpecification) -> dict[str, Any]:
        """The W&B config of a run: every key that one may want to group by."""
        return {
            "study": self.study.name,
            "plan_hash": self._plan_hash,
            "specification_id": run.id,
            "configuration_id": configuration.id,
            "task": self.study.task.name,
            "variant": configuration.name,
            **configuration.variant.model_dump(mode="json"),
            "seed": run.seed,
            "specification": run.model_dump(mode="json"),
        }

    def _configuration(self, name: str, variant: VariantSettings, instances: int | None = None) -> Configuration:
        training = self.study.training
        if instances is not None:
            training = training.model_copy(update={"instances": instances})
        runs = [
            RunSpecification(
                task=self.study.task,
                data=self.resolved.fingerprint,
                model=self.study.model.model_copy(update={"name": self.resolved.model_digest}),
                training=training,
                variant=variant.normalised(),
                seed=seed,
                environment=self.resolved.environment,
            )
            for seed in self.study.seeds
        ]
        return Configuration(name, variant, tuple(runs))

    def _baseline(self) -> Configuration:
        return self._configuration("BERT", settings("BERT", {}))

    def _untrained(self) -> Configuration:
        return self._configuration("untrained", settings("BERT", {}), instances=0)

    def _sampler(self) -> Configuration:
        run = RunSpecification(system="sampler", task=self.study.task, data=self.resolved.fingerprint)
        return Configuration("BM25", VariantSettings(), (run,))
