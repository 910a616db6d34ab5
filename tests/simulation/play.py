"""Plays a schedule: starts the driver until a start that nothing disturbs has ended, and checks what is left."""

import contextlib
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from records.plan_file import read_plan, read_suite_plan
from study.suites import run_suite
from study.utils.error_text import IncompleteError
from study.workflows import session
from tests.simulation.checks import (
    PLANS,
    ViolationError,
    check_copy,
    check_results,
    check_runs,
    check_stopped_search,
    forget_plan,
    get_plan_hash,
    list_files,
    read_results,
)
from tests.simulation.machine import Killed, Machine
from tests.simulation.schedules import Damage, Schedule, draw_schedule, shrink
from tests.simulation.trials import Trials
from tests.simulation.wandb import Server
from tests.simulation.world import StudyWorld
from tests.trainables.small import World
from trainables.utils.cli import explain_error
from trainables.utils.errors import UserError

_MAX_STARTS = 12


class Reference(NamedTuple):
    """An undisturbed study: its files, its runs of W&B, how it ended, and how many operations it took."""

    results: dict[str, bytes]
    runs: dict[str, Any]
    end: str
    n_operations: int


class Simulation:
    """Plays schedules, with the model and the data of one world."""

    def __init__(self, world: World) -> None:
        self._world, self._references = StudyWorld(world), dict[str, Reference]()

    def get_reference(self, settings: dict[str, Any]) -> Reference:
        """Return the undisturbed study of some settings."""
        key = repr(settings)
        if key not in self._references:
            with self._world.make_disk("undisturbed") as root:
                schedule = Schedule(0, settings)
                machine = Machine(root)
                server = Server(machine)
                with self._world.replace(Trials(schedule, machine, self._world.queries), server):
                    end = self._start(machine, settings)
                assert end == "done" or end.startswith("incomplete"), end
                results = read_results(root / "study")
                self._references[key] = Reference(results, server.runs, end, machine.n_operations)
        return self._references[key]

    def play(self, schedule: Schedule) -> None:
        """Play a schedule.

        Raises:
            ViolationError: something that must hold does not; a note has the schedule.
        """
        try:
            self._play(schedule)
        except Exception as error:
            error.add_note(str(schedule))
            raise

    def _play(self, schedule: Schedule) -> None:
        with self._world.make_disk("disturbed") as root:
            machine = Machine(root, schedule.faults, schedule.seed)
            trials = Trials(schedule, machine, self._world.queries)
            server = Server(machine, schedule.wandb)
            with self._world.replace(trials, server):
                settings = self._start_until_ended(schedule, machine, trials)
                results = read_results(root / "study")
                if "hours" in settings["search"]:  # a further start changes nothing
                    self._start(machine, settings)
                    check_results(read_results(root / "study"), results, was_damaged=False)
            self._check(schedule, settings, results, server, trials.keeps_weights)
            if "output" in settings:
                check_copy(root / "remote", root / "study")
            if machine.taken and not any(fault.kind == "clock" for fault in schedule.faults):
                raise ViolationError(f"taken from a living holder: {', '.join(machine.taken)}")
            if machine.background:
                raise ViolationError("a process or a thread is left")

    def _start_until_ended(self, schedule: Schedule, machine: Machine, trials: Trials) -> dict[str, Any]:
        """Start the driver until a start that nothing disturbs has ended, and return the last settings of the study."""
        folder, settings, backups = machine.root / "study", schedule.study, dict[Path, bytes]()
        damages, first = list[Damage](), dict[Path, bytes]()
        may_lose = any(fault.kind == "power" for fault in schedule.faults) and not schedule.damages
        for number in range(1, _MAX_STARTS + 1):
            n_happened, n_attempts = machine.n_happened, trials.n_attempts
            records = _list_records(folder) if may_lose else set[str]()
            end = self._start(machine, settings, bool(damages or machine.unreadable))
            if records and trials.n_attempts > n_attempts and (lost := records - _list_records(folder)):
                raise ViolationError(f"lost: {', '.join(sorted(lost))}")
            damages = [damage for damage in schedule.damages if damage.after == number]
            last = max([0, *(each.after for each in schedule.damages), *(each.after for each in schedule.changes)])
            is_disturbed = machine.n_happened > n_happened or last >= number
            if not is_disturbed and self._has_ended(end, settings):
                return settings
            if schedule.damages:
                backups |= _read_intact_plans(folder)
                first = first or {path: path.read_bytes() for path in _list_files(folder)}
            for damage in damages:
                _damage(machine, folder, damage, first)
            if end == "plan":  # the remedy that the line names
                for path in backups.keys() - _read_intact_plans(folder).keys():
                    path.write_bytes(backups[path])
            for name in [name for name in machine.unreadable if name in end]:  # "fix this"
                Path(name).unlink(missing_ok=True)
                machine.unreadable.discard(name)
            if end == "refused":  # and so here
                if settings == schedule.study:
                    raise ViolationError("a study that nobody has changed is refused")
                settings = schedule.study
            settings = next((change.study for change in schedule.changes if change.after == number), settings)
        raise ViolationError(f"after {_MAX_STARTS} starts the study has not ended; the last: {end}")

    def _has_ended(self, end: str, settings: dict[str, Any]) -> bool:
        """Return whether an end is that of an undisturbed study; which systems a budget leaves differs."""
        is_limited = "hours" in settings["search"] and end.startswith("incomplete")
        return is_limited or end == self.get_reference(settings).end

    def _check(
        self, schedule: Schedule, settings: dict[str, Any], found: dict[str, bytes], server: Server, keeps_weights: bool
    ) -> None:
        """Check what a study has left on the disk and in W&B."""
        reference = self.get_reference(settings)
        if "hours" in settings["search"] and settings["search"]["n_configurations"]:
            search = {name: value for name, value in settings["search"].items() if name != "hours"}
            check_stopped_search(found, self.get_reference(settings | {"search": search}).results)
            return
        runs = server.runs
        if not keeps_weights:  # no result depends on them
            found, reference = _forget_models(found), reference._replace(results=_forget_models(reference.results))
        if not schedule.changes:
            check_results(found, reference.results, bool(schedule.damages))
            check_runs(runs, reference.runs)
            return
        plan, expected_plan = get_plan_hash(found), get_plan_hash(reference.results)
        found, runs = forget_plan(found, plan), forget_plan(runs, plan)
        expected, expected_runs = (forget_plan(it, expected_plan) for it in (reference.results, reference.runs))
        for other in (schedule.study, *(change.study for change in schedule.changes)):  # what only another one has
            before = self.get_reference(other)
            found = {key: value for key, value in found.items() if key in expected or key not in before.results}
            runs = {key: value for key, value in runs.items() if key in expected_runs or key not in before.runs}
        check_results(found, expected, bool(schedule.damages))
        check_runs(runs, expected_runs)

    def _start(self, machine: Machine, settings: dict[str, Any], is_damaged: bool = False) -> str:
        """Start the driver, perhaps a second one, and return how the last one ended: "done", or what stopped it."""
        n_errors, ends = machine.n_errors, list[str | ViolationError]()
        self._world.settings = settings

        def drive() -> None:
            try:
                ends.append(self._drive(machine, settings))
            except ViolationError as error:
                ends.append(error)

        machine.spawn_second = lambda: machine.spawn(drive)
        machine.spawn(drive)
        machine.run()
        for end in ends:
            if isinstance(end, ViolationError):
                raise end
        stops = [str(end) for end in ends if str(end).startswith("stopped")]
        if stops and machine.n_errors == n_errors and not is_damaged:
            raise ViolationError(f"without a cause, {stops[0]}")
        return str(ends[-1])

    def _drive(self, machine: Machine, settings: dict[str, Any]) -> str:
        try:
            if "suite" in settings:
                run_suite.run_suite(self._world.make_suite(machine.root, settings), time.monotonic())
            else:
                session.run_study(self._world.make_study(machine.root, settings), time.monotonic())
        except Killed:
            return "killed"
        except KeyboardInterrupt:
            return "interrupted"
        except ViolationError:
            raise
        except IncompleteError as error:
            return f"incomplete: {error}"
        except UserError as error:
            if "restore it" in str(error):
                return "plan"
            if "another output.folder" in str(error):
                return "refused"
            if str(error).startswith("output.remote: cannot be read"):
                return f"stopped: {error}"
            raise ViolationError(f"a user's mistake that nobody made: {error}") from error
        except Exception as error:
            cause, remedy = explain_error(error)
            if not remedy:
                raise ViolationError(f"no remedy: {cause}") from error
            return f"stopped: {cause}; {remedy}"
        return "done"


def draw(simulation: Simulation, seed: int) -> Schedule:
    """Return the schedule of a seed."""
    return draw_schedule(seed, lambda study: simulation.get_reference(study).n_operations)


def play_schedules(
    simulation: Simulation, first: int, seconds: float, most: float = math.inf
) -> tuple[int, float, str]:
    """Play the schedules of seeds from the first on, until one fails, or the time or their number is over.

    Returns:
        How many were played, the seconds that they took, and which one failed, with a smaller one that fails: empty if
        none did.
    """
    start, failure, n_played = time.monotonic(), "", 0
    while time.monotonic() - start < seconds and n_played < most and not failure:
        try:
            schedule = draw(simulation, first + n_played)
        except Exception as error:
            failure = f"undisturbed, seed {first + n_played}: {error!r}"
            break
        if found := _find_error(simulation, schedule):
            smaller = shrink(schedule, lambda each: type(_find_error(simulation, each)) is type(found))
            failure = f"{found!r}\n{schedule}\nsmaller: {_find_error(simulation, smaller)!r}\n{smaller}"
        n_played += 1
    return n_played, time.monotonic() - start, failure


def _find_error(simulation: Simulation, schedule: Schedule) -> Exception | None:
    try:
        simulation.play(schedule)
    except Exception as error:
        return error
    return None


def _forget_models(results: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a study without the weights that it keeps."""
    return {name: content for name, content in results.items() if "/models/" not in f"/{name}"}


def _read_intact_plans(folder: Path) -> dict[Path, bytes]:
    """Return the contents of the plans that are not damaged."""
    contents = dict[Path, bytes]()
    for path in (path for path in list_files(folder).values() if path.name in PLANS):
        with contextlib.suppress(UserError):
            (read_plan if path.name == "plan.json" else read_suite_plan)(path)
            contents[path] = path.read_bytes()
    return contents


def _list_records(folder: Path) -> set[str]:
    """Return the names of the records of a study."""
    return {name for name in list_files(folder) if name.endswith(("/record.json", "/test.json"))}


def _list_files(folder: Path) -> list[Path]:
    """Return the files that a study reads again, among them the difficulty scores of its scoring run."""
    files = list_files(folder) | list_files(folder.parent / "cache" / "prepared")
    return [path for path in files.values() if path.name != "study.toml"]


def _damage(machine: Machine, folder: Path, damage: Damage, first: dict[Path, bytes]) -> None:
    files = _list_files(folder)
    if not files:
        return
    path = files[damage.file % len(files)]
    content = path.read_bytes()
    match damage.kind:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "empty":
            path.write_bytes(b"")
        case "delete":
            path.unlink()
        case "stale" if path in first:
            path.write_bytes(first[path])
        case "unreadable":
            machine.unreadable.add(str(path))
        case "flip" if content:
            middle = len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
