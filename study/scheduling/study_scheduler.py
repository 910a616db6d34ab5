"""What has to run next: search rounds, confirmation, then the test set for the chosen. Knows nothing of Ray.

Everything it decides follows from the study file and from finished records, so a second start of the same study takes
exactly the decisions of the first; but for budgets of time, which say so.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from search_spaces.search import Search
from search_spaces.space import Point
from study.config.schema import Study
from study.config.spaces import family, searched
from study.config.systems import UNTRAINED, systems
from study.records import run_record as record
from study.records.run_store import Ledger
from study.scheduling import sweep_trials as swept
from study.scheduling.objectives import best, directions
from study.scheduling.scheduler import Work
from study.scheduling.search_loop import Hunt
from study.scheduling.trials import Configuration, Errand, Resolved, role
from trainables.specs.base import Specification
from trainables.storage.base import RESUME

Phase = Literal["search", "confirm", "test"]


class Campaign(Work):
    """The study in progress.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        spent: the budget of time that is spent, if one is; asked before a round of proposals begins.
        before: by system, what an earlier start wrote of its searches (`study.records.search_log`).
        others: variants and points that sweeps have run or begun (`sweep_trials`): they get all their seeds, and are
            chosen from like what the searches propose. Once test scores exist, only those count that were chosen from.
    """

    def __init__(
        self,
        study: Study,
        resolved: Resolved,
        ledger: Ledger,
        plan_hash: str,
        spent: Callable[[], str | None] = lambda: None,
        before: dict[str, Any] | None = None,
        others: Sequence[tuple[str, Point]] = (),
    ) -> None:
        super().__init__(study, resolved, ledger, plan_hash, self._rounds_left)
        self._phase: Phase = "search"
        self._seen_test = record.tested(ledger.folder)
        self._confirming: list[Configuration] = []
        self.hunts: dict[str, Hunt] = {}
        self._fixed = self._make.controls()
        counts = searched(study)
        if (baseline := study.kind.baseline) not in counts:
            self._fixed.insert(0, self._make.system(baseline, Point(), study.seeds, "baseline"))
        self.hunts = {name: self._hunt(name, count, spent, (before or {}).get(name)) for name, count in counts.items()}
        self._swept = self._candidates(others)
        self._enqueue(((item, run) for item in [*self._fixed, *self._swept] for run in item.runs), "train")
        for hunt in self.hunts.values():
            hunt.begin()
            self._enqueue(hunt.due(), "train")
        self._settle()

    @property
    def configurations(self) -> list[Configuration]:
        """All so far: the fixed systems, what was proposed, what else was swept, what is confirmed, and the scorer."""
        proposed = [item for hunt in self.hunts.values() for item in hunt.configurations]
        return [*self._fixed, *proposed, *self._only_swept(), *self._confirming, *self._scorers()]

    @property
    def runs_planned(self) -> int:
        """Training and test errands of the whole study, those already done included; fewer where a race drops some."""
        seeds, confirm, orders = len(self.study.seeds), len(self.study.confirm.seeds), len(self.study.kind.orders)
        tested = len({*self.hunts, self.study.kind.baseline, UNTRAINED})
        trials = sum(hunt.search.proposals for hunt in self.hunts.values()) + len(self._fixed)
        trials -= orders
        trials += len(self._only_swept())
        confirmed = (len(self._confirming) if self._confirming else tested + len(self.hunts)) if confirm else 0
        return trials * seeds + confirmed * confirm + tested * (confirm or seeds) + 2 * orders + self._scorer_errands

    @property
    def _scorer_errands(self) -> int:
        """Its training, and its test; none where another study has done both."""
        own = "train" in self._asked or self.ledger.state(self.scorer.runs[0].id) is not None
        return 2 if own and self._scorers() else len(self._asked)

    @property
    def finished(self) -> bool:
        """Nothing is running and nothing is left to start."""
        return self._phase == "test" and not len(self._agenda)

    def done(self, errand: Errand) -> None:
        """The errand ended, well or not; whatever its record allows is started."""
        super().done(errand)
        self._settle()

    def chosen(self) -> dict[str, Configuration]:
        """By system, the complete configuration that is best on the development set, the first on a tie.

        Of several objectives the first decides, and the others in their order where it does not.
        """
        dropped = {key for hunt in self.hunts.values() for key in hunt.dropped}
        items = [
            item for item in self.configurations if item.role not in ("confirm", "scorer") and item.id not in dropped
        ]
        return best(items, self.ledger, self.objectives)

    def tested(self) -> dict[str, Configuration]:
        """By system, the runs that the test set judges: the chosen configuration's, with fresh seeds if there are."""
        fresh = {item.id: item for item in self._confirming}
        return {name: fresh.get(item.id, item) for name, item in self.chosen().items()}

    def untuned(self, name: str) -> Configuration:
        """The default of a searched system, whether or not it was proposed."""
        return self._make.system(name, self.hunts[name].search.family.defaults()[0], self.study.seeds, "search")

    def log(self) -> dict[str, Any]:
        """What the searches did, for the report."""
        chosen, swept_too = self.chosen(), self._only_swept()
        return {
            "systems": {
                name: hunt.log(chosen.get(name), self.untuned(name), [item for item in swept_too if item.name == name])
                for name, hunt in self.hunts.items()
            }
        }

    def needed(self) -> set[str]:
        """Names, in the storage of stages, of all that this study may still read: the stages and slots of runs that are
        queued or running, the stages that proposals still possible would start from, and the final weights of every
        configuration that may still be tested."""
        open_ones = [item for item in self.configurations if self._open(item)]
        waiting = {run.id: run for item in open_ones for run in item.runs if not self.ledger.finished(run.id, "dev")}
        possible = (run for hunt in self.hunts.values() for item in hunt.possible() for run in item.runs)
        names = {key for run in [*waiting.values(), *possible] for key in self.stages(run)}
        names |= {f"{RESUME}/{run_id}" for run_id in waiting}
        tested = [*self.tested().values(), *self._scorers()]
        for item in [*tested, *open_ones]:  # who is complete and not the best will not become it
            for run in item.runs:
                if not self.ledger.finished(run.id, "test"):
                    names |= set(self.stages(run)[-1:])
        return names

    def _rounds_left(self, name: str) -> int:
        return self.hunts[name].rounds_left if name in self.hunts else 0

    def _hunt(self, name: str, count: int, spent: Callable[[], str | None], before: dict[str, Any] | None) -> Hunt:
        settings, seeds, kind = self.study.search, self.study.seeds, role(self.study, name)
        search = Search(
            family(self.study, name),
            count,
            settings.parallel,
            settings.sampler,
            settings.seed,
            directions(self.objectives),
        )
        return Hunt(
            search,
            lambda point: self._make.system(name, point, seeds, kind),
            self.ledger,
            self.objectives,
            settings.pruning == "race",
            spent,
            before,
        )

    def _candidates(self, others: Sequence[tuple[str, Point]]) -> list[Configuration]:
        """What was swept, beside the fixed systems, and may be chosen."""
        made = [
            self._make.system(name, point, self.study.seeds, role(self.study, name))
            for name, point in others
            if name in systems(self.study)
        ]
        distinct = {item.id: item for item in made}
        known = {item.id for item in self._fixed}
        counted = swept.closed(self.folder) if self._seen_test else set(distinct)
        return [item for key, item in distinct.items() if key in counted - known]

    def _only_swept(self) -> list[Configuration]:
        """What was swept and is not among the proposals so far."""
        proposed = {item.id for hunt in self.hunts.values() for item in hunt.configurations} if self._swept else set()
        return [item for item in self._swept if item.id not in proposed]

    def _settle(self) -> None:
        """Starts whatever the finished records allow: more seeds, next rounds, the confirmation, then the test set."""
        for hunt in self.hunts.values():
            while not hunt.over and not any(run.id in self._agenda for _, run in hunt.due()):
                hunt.advance()
                self._enqueue(hunt.due(), "train")
        if len(self._agenda) or not all(hunt.over for hunt in self.hunts.values()):
            return
        if self._phase == "search":
            self._phase = "confirm"
            self._confirming = self._to_confirm()
            self._enqueue(((item, run) for item in self._confirming for run in item.runs), "train")
            self._settle()
        elif self._phase == "confirm":
            self._phase = "test"
            if self._swept and not self._seen_test:
                swept.close(self.folder, [item.id for item in self._swept])
            scorer = self.scorer.runs[0].id
            if self.ledger.state(scorer) != "failed" and not self.ledger.finished(scorer, "test"):
                self._ask_scorer("test")
            self._enqueue(((item, run) for item in self.tested().values() for run in item.runs), "test")

    def _to_confirm(self) -> list[Configuration]:
        """The chosen, and the untuned defaults of what was searched, with fresh seeds; none where there are no such."""
        seeds = self.study.confirm.seeds
        if not seeds:
            return []
        wanted = [*self.chosen().values(), *(self.untuned(name) for name in self.hunts)]
        distinct = {item.id: item for item in wanted if item.runs[0].seed is not None}
        return [self._make.again(item, seeds, "confirm") for item in distinct.values()]

    def _open(self, item: Configuration) -> bool:
        """Whether anything of it is still to be run."""
        proposed = any(item in hunt.open for hunt in self.hunts.values())
        return proposed or any(run.id in self._agenda for run in item.runs)

    def _settled(self, item: Configuration, run: Specification) -> bool:
        """A failed run of the search is tried again, but not once test scores exist: they fixed the choice."""
        searched_run = (item.name in self.hunts or item in self._swept) and item.role != "confirm" and self._seen_test
        return searched_run and self.ledger.state(run.id, "dev") == "failed"
