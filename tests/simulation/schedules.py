"""Schedules: a study and the faults that disturb it, drawn from a seed, and made smaller when one fails."""

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.simulation.machine import Fault

_MACHINE_FAULTS = ("kill", "kill", "power", "power", "signal", "full", "io", "slow", "clock", "second", "second")
_TRIAL_FAULTS = ("crash", "error", "node", "late", "hang", "twice")
_WANDB_FAULTS = ("hang", "refuse", "lose", "break")
_REPORTS = 0.0005
"""Share of the schedules that write the study's report, which takes as long as thirty schedules without.

They are without W&B: the page links to what is there already, which depends on the time."""
_STUDIES = 400
"""Distinct studies; each is played undisturbed when it is first drawn."""
_SMALLEST = 0.85
"""Share of them that have nothing to search."""
_COUNTS = {"machine": (1, 1, 2, 4), "trials": (1, 3), "damages": (1, 1, 2), "wandb": (1, 3), "change": (1,)}
"""Faults of a schedule, by their kind."""
_DAMAGES = ("cut", "empty", "flip", "delete", "stale", "unreadable")


class TrialFault(NamedTuple):
    """Fault of an attempt of a trial.

    Attributes:
        kind: crash (its process is killed), error (of its disk), node (lost), late (its node counts as lost when its
            result comes), hang (it comes last), or twice (its result comes again).
        at: number of the attempt, over all starts.
    """

    kind: str
    at: int


class Damage(NamedTuple):
    """Damage of a file while no driver runs.

    Attributes:
        kind: cut (to its half), empty, flip (a bit), delete, stale (as it was after the first start), or unreadable
            (until it is written again).
        after: number of the start after which it happens.
        file: number of the file among those of the study and its difficulty scores, in the order of their names, modulo
            their count.
    """

    kind: str
    after: int
    file: int


class WandbFault(NamedTuple):
    """Fault of a request to W&B.

    Attributes:
        kind: hang (for ever), refuse, lose (the process is killed when it has written, before it says so), or break
            (the server fails before it has everything).
        at: number of the request, over all starts.
    """

    kind: str
    at: int


class Change(NamedTuple):
    """Change of the study file while no driver runs.

    Attributes:
        after: number of the start after which it happens.
        study: settings of the study from there on, unless the driver says no.
    """

    after: int
    study: dict[str, Any]


class Schedule(NamedTuple):
    """A study and what disturbs it.

    Attributes:
        seed: draws the order in which trials end.
        study: settings of the study.
    """

    seed: int
    study: dict[str, Any]
    faults: tuple[Fault, ...] = ()
    trials: tuple[TrialFault, ...] = ()
    damages: tuple[Damage, ...] = ()
    wandb: tuple[WandbFault, ...] = ()
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        disturbances = (*self.faults, *self.trials, *self.damages, *self.wandb, *self.changes)
        lines = [f"seed {self.seed}: {self.study}", *map(str, disturbances)]
        return "\n  ".join(lines)


def draw_study(draw: random.Random) -> dict[str, Any]:
    """Draw the settings of a study. Most studies are the smallest ones: a variant, a seed and the references.

    With the key `suite`, they are those of a suite of the study and of one with other seeds.
    """
    is_smallest = draw.random() < _SMALLEST
    searched = [] if is_smallest else draw.sample(["LS", "T-LS", "WSLS"], draw.choice((0, 1, 1, 2)))
    variants, n_seeds = ["BERT", *searched], 1 if is_smallest else draw.choice((1, 1, 1, 2))
    settings: dict[str, Any] = {
        "variants": variants,
        "seeds": [*range(1, n_seeds + 1)],
        "search": {
            "round_size": draw.randint(1, 2) if searched else 1,
            "n_configurations": dict.fromkeys(searched, draw.randint(1, 2)),
        },
    }
    if draw.random() < 0.3:
        settings["tracking"] = {"mode": "online"}
    if draw.random() < 0.1:
        settings["queries"] = True
    if not is_smallest and draw.random() < 0.2:
        settings["suite"] = True
    elif draw.random() < 0.2:
        settings["output"] = {"remote": "remote"}
    if draw.random() < 0.05:
        settings["curriculum"] = {"variants": ["BERT"]}
    if draw.random() < 0.1:
        settings["cache"] = {"max_size": "300 B"}
        settings["models"] = draw.choice((None, "best", "all"))
    if searched and "suite" not in settings and draw.random() < 0.08:
        settings["search"]["hours"] = draw.uniform(0.01, 0.1)
    if searched and draw.random() < 0.06:
        settings["seeds"] = [1, 2, 3, 4]
        settings["search"]["pruning"] = "race"
    if searched and draw.random() < 0.08:
        settings["confirm"] = {"seeds": [11, 12, 13, 14], "group_size": 2}
    elif searched and draw.random() < 0.3:
        settings["confirm"] = {"seeds": [*range(11, 11 + draw.randint(1, 2))]}
    return settings


def change_study(draw: random.Random, settings: dict[str, Any]) -> dict[str, Any]:
    """Draw other settings of a study: a seed, variant or proposal more or less, other confirmation, inputs or name."""
    search, variants = settings["search"], settings["variants"]
    counts = search["n_configurations"]
    match draw.choice(("seed", "variant", "proposal", "confirm", "inputs", "name")):
        case "name":
            return settings | {"name": "other"}
        case "seed":
            return settings | {"seeds": [*settings["seeds"], 9]}
        case "inputs":
            return settings | {"inputs": draw.choice(("data", "environment"))}
        case "variant" if len(variants) > 1 and draw.random() < 0.5:
            fewer = {name: count for name, count in counts.items() if name != variants[-1]}
            return settings | {"variants": variants[:-1], "search": search | {"n_configurations": fewer}}
        case "proposal" if counts:
            return settings | {"search": search | {"n_configurations": {name: n + 1 for name, n in counts.items()}}}
        case "confirm" if "confirm" in settings:
            return {name: value for name, value in settings.items() if name != "confirm"}
    more = {"n_configurations": counts | {"T-WSLS": 1}}
    return settings | {"variants": [*variants, "T-WSLS"], "search": search | more}


def draw_schedule(seed: int, n_operations: Callable[[dict[str, Any]], int]) -> Schedule:
    """Draw a schedule.

    Args:
        seed: what it is drawn from.
        n_operations: returns the number of operations of an undisturbed study.
    """
    draw = random.Random(seed)
    study = draw_study(random.Random(draw.randrange(_STUDIES)))
    if draw.random() < _REPORTS:
        study = {name: value for name, value in study.items() if name != "tracking"} | {"report": True, "queries": True}
    end = n_operations(study)
    first, width = draw.randint(1, end), draw.choice((end, end, 60))
    kinds = ["machine"] * 4 + ["trials"] * 2 + ["damages"]
    kinds += ["wandb"] * ("tracking" in study)
    kinds += ["change"] * (not {"suite", "report"} & study.keys() and "hours" not in study["search"])
    drawn = {draw.choice(kinds) for _ in range(draw.choice((1, 1, 1, 2, 3)))}
    counts = {kind: draw.choice(_COUNTS[kind]) if kind in drawn else 0 for kind in _COUNTS}
    faults = {draw.randint(first, first + width) % end + 1 for _ in range(counts["machine"])}
    return Schedule(
        seed,
        study,
        tuple(_draw_fault(draw, at) for at in sorted(faults)),
        tuple(TrialFault(draw.choice(_TRIAL_FAULTS), draw.randint(1, 20)) for _ in range(counts["trials"])),
        tuple(
            Damage(draw.choice(_DAMAGES), draw.choice((1, 1, 2)), draw.randrange(1000))
            for _ in range(counts["damages"])
        ),
        tuple(WandbFault(draw.choice(_WANDB_FAULTS), draw.randint(1, 30)) for _ in range(counts["wandb"])),
        tuple(Change(draw.choice((1, 1, 2)), change_study(draw, study)) for _ in range(counts["change"])),
    )


def _draw_fault(draw: random.Random, at: int) -> Fault:
    kind = draw.choice(_MACHINE_FAULTS)
    return Fault(kind, at, draw.randint(-7200, 7200) if kind == "clock" else draw.randrange(1000))


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a smaller schedule that fails, too: with fewer faults, a smaller study, and earlier faults."""
    changed = True
    while changed:
        changed = False
        for smaller in _list_smaller(schedule):
            if fails(smaller):
                schedule, changed = smaller, True
                break
    return schedule


def _list_smaller(schedule: Schedule) -> Iterator[Schedule]:
    for name in ("faults", "trials", "damages", "wandb", "changes"):
        items = getattr(schedule, name)
        for index in range(len(items)):
            fewer: dict[str, Any] = {name: (*items[:index], *items[index + 1 :])}
            yield schedule._replace(**fewer)
    study = schedule.study
    for name in {"suite", "output", "tracking", "cache", "models", "queries", "curriculum", "report"} & study.keys():
        yield schedule._replace(study={key: value for key, value in study.items() if key != name})
    if "confirm" in study:
        yield schedule._replace(study={key: value for key, value in study.items() if key != "confirm"})
    if len(study["seeds"]) > 1:
        yield schedule._replace(study=study | {"seeds": study["seeds"][:-1]})
    for index in range(1, len(study["variants"])):
        variants = [*study["variants"][:index], *study["variants"][index + 1 :]]
        counts = {name: n for name, n in study["search"]["n_configurations"].items() if name in variants}
        search = study["search"] | {"n_configurations": counts}
        yield schedule._replace(study=study | {"variants": variants, "search": search})
    for index, fault in enumerate(schedule.faults):
        for at in {fault.at // 2, fault.at - 10, fault.at - 1} - {fault.at}:
            if at > 0:
                faults = (*schedule.faults[:index], fault._replace(at=at), *schedule.faults[index + 1 :])
                yield schedule._replace(faults=faults)
