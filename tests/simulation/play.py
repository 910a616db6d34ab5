"""Plays a schedule: starts the driver until a start that nothing disturbs has ended, and checks what is left."""

import contextlib
import io
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from records import run_record
from records.plan_file import read_plan, read_suite_plan
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.folder import provenance, remote_records, run_store
from study.scheduling.trials import ResolvedInputs
from study.suites import run_suite
from study.suites.suite_loader import Suite, SuiteStudy
from study.utils.error_text import IncompleteError
from study.workflows import open_study, session
from tests.simulation.checks import PLANS, ViolationError, check_copy, check_results, check_runs, read_results
from tests.simulation.machine import Killed, Machine
from tests.simulation.schedules import Damage, Schedule, draw_schedule, shrink
from tests.simulation.trials import Trials
from tests.simulation.wandb import Server
from tests.study.small import SETTINGS
from tests.trainables.small import FROZEN, World
from trainables.models.pretrained import hash_model, hash_module_files, resolve_model_path
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import TrainablePlugin
from trainables.utils.cli import explain_error
from trainables.utils.errors import UserError

_MAX_STARTS = 12
_PLACE = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class Reference(NamedTuple):
    """An undisturbed study: its files, its runs of W&B, how it ended, and how many operations it took."""

    results: dict[str, bytes]
    runs: dict[str, Any]
    end: str
    n_operations: int


class Simulation:
    """Plays schedules, with the model and the data of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._references: dict[str, Reference] = {}
        path, there = resolve_model_path(str(world.bert)), detect_environment()
        model = self._make_study(Path(), {}).model
        self._inputs = ResolvedInputs(
            world.prepared.fingerprint,
            hash_model(path, model),
            path,
            there,
            world.prepared.domains,
            folder_digest=hash_module_files(path),
        )
        provenance.get_commit()
        plugin = self._make_study(Path(), {}).study_type.trainable
        self._data_backend = plugin.data_backend
        self._description = plugin.data_backend.describe_data(world.prepared)
        self._statistics = plugin.load_statistics(world.prepared)
        study = self._make_study(world.cache.parent, {"cache": {"folder": str(world.cache)}})
        self._attributes = self._data_backend.compute_query_attributes(study, self._inputs, "")

    def get_reference(self, settings: dict[str, Any]) -> Reference:
        """Return the undisturbed study of some settings."""
        key = repr(settings)
        if key not in self._references:
            with self._make_disk() as root:
                schedule = Schedule(0, settings)
                machine = Machine(root)
                server = Server(machine)
                with self._replace(Trials(schedule, machine), server):
                    end = self._start(machine, schedule)
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
        reference = self.get_reference(schedule.study)
        with self._make_disk() as root:
            machine = Machine(root, schedule.faults, schedule.seed)
            trials, folder, backups = Trials(schedule, machine), root / "study", dict[Path, bytes]()
            server = Server(machine, schedule.wandb)
            damages, first = list[Damage](), dict[Path, bytes]()
            for number in range(1, _MAX_STARTS + 1):
                n_happened = machine.n_happened
                with self._replace(trials, server):
                    end = self._start(machine, schedule, bool(damages))
                damages = [damage for damage in schedule.damages if damage.after == number]
                is_disturbed = machine.n_happened > n_happened or any(each.after >= number for each in schedule.damages)
                if end == reference.end and not is_disturbed:
                    break
                backups |= _read_intact_plans(folder)
                first = first or {path: path.read_bytes() for path in _list_files(folder)}
                for damage in damages:
                    _damage(folder, damage, first)
                if end == "plan":  # the remedy that the line names
                    for path in backups.keys() - _read_intact_plans(folder).keys():
                        path.write_bytes(backups[path])
            else:
                raise ViolationError(f"after {_MAX_STARTS} starts the study has not ended; the last: {end}")
            check_results(folder, reference.results, bool(schedule.damages))
            check_runs(server.runs, reference.runs)
            if "output" in schedule.study:
                check_copy(root / "remote", folder)
            if machine.background:
                raise ViolationError("a process that writes to W&B is left")

    def _start(self, machine: Machine, schedule: Schedule, is_damaged: bool = False) -> str:
        """Start the driver, perhaps a second one, and return how the last one ended: "done", or what stopped it."""
        n_errors, ends = machine.n_errors, list[str | ViolationError]()

        def drive() -> None:
            try:
                ends.append(self._drive(machine, schedule))
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

    def _drive(self, machine: Machine, schedule: Schedule) -> str:
        try:
            if "suite" in schedule.study:
                run_suite.run_suite(self._make_suite(machine.root, schedule.study), time.monotonic())
            else:
                session.run_study(self._make_study(machine.root, schedule.study), time.monotonic())
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
            if str(error).startswith("output.remote: cannot be read"):
                return f"stopped: {error}"
            raise ViolationError(f"a user's mistake that nobody made: {error}") from error
        except Exception as error:
            cause, remedy = explain_error(error)
            if not remedy:
                raise ViolationError(f"no remedy: {cause}") from error
            return f"stopped: {cause}; {remedy}"
        return "done"

    def _make_suite(self, root: Path, settings: dict[str, Any]) -> Suite:
        studies, own = list[SuiteStudy](), {key: value for key, value in settings.items() if key != "suite"}
        for number, key in enumerate(("first", "second")):
            seeds = [seed + 50 * number for seed in own["seeds"]]
            study = self._make_study(root, own | {"name": key, "seeds": seeds})
            output = study.output.model_copy(update={"folder": str(root / "study" / key)})
            studies.append(SuiteStudy(key, {"part": key}, study.model_copy(update={"output": output})))
        axes = {"part": [each.key for each in studies]}
        return Suite("pair", root / "study", "part", axes, tuple(studies), tuple(studies), None)

    def _make_study(self, root: Path, settings: dict[str, Any]) -> Study:
        world, output = self._world, {"folder": str(root / "study"), "models": None}
        if "output" in settings:
            output["remote"] = str(root / settings["output"]["remote"])
        return get_study_class().model_validate(
            {
                **SETTINGS,
                "task": world.prepared.settings.model_dump(),
                "model": {"name": str(world.bert), "max_length": 32, **FROZEN},
                "cache": {"folder": str(root / "cache")},
                **settings,
                "output": output,
            }
        )

    @contextlib.contextmanager
    def _replace(self, trials: Trials, server: Server) -> Iterator[None]:
        report = SimpleNamespace(conclusion="", text="", folder=Path())
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(open_study, "resolve_study", self._resolve),
            mock.patch("study.execution.tuner.run_trials", trials.run),
            mock.patch("study.tracking.client.WriterProcess", server.start_writer),
            mock.patch("study.tracking.writer.WandbRun", server.open_run),
            mock.patch.object(session, "_write_report", return_value=report),
            mock.patch.object(run_suite, "_write_joint_report", return_value=report),
            mock.patch.object(self._data_backend, "describe_data", return_value=self._description),
            mock.patch.object(self._data_backend, "compute_query_attributes", side_effect=self._copy_attributes),
            mock.patch.object(TrainablePlugin, "load_statistics", return_value=self._statistics),
            mock.patch.object(run_record, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(run_store, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(remote_records, "ThreadPoolExecutor", _InThisThread),
        ):
            yield

    @contextlib.contextmanager
    def _make_disk(self) -> Iterator[Path]:
        root = Path(tempfile.mkdtemp(prefix="simulated-", dir=_PLACE))
        try:
            self._world.fresh_cache(root / "cache")
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _copy_attributes(self, *_: Any) -> Any:
        return self._attributes.copy()

    def _resolve(self, study: Study, cluster: str | None, log: Any) -> tuple[Study, ResolvedInputs, Any]:
        return study, self._inputs, self._world.prepared


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
        if error := _find_error(simulation, schedule):
            smaller = shrink(schedule, lambda each: _find_error(simulation, each) is not None)
            failure = f"{error!r}\n{schedule}\nsmaller: {_find_error(simulation, smaller)!r}\n{smaller}"
        n_played += 1
    return n_played, time.monotonic() - start, failure


def _find_error(simulation: Simulation, schedule: Schedule) -> Exception | None:
    try:
        simulation.play(schedule)
    except Exception as error:
        return error
    return None


class _InThisThread:
    """An executor with no thread, so that the order of operations is that of the code."""

    def __init__(self, n_threads: int) -> None:
        """Create it; the number of threads does not matter."""

    def __enter__(self) -> "_InThisThread":
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for nothing."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """Call a function with each item."""
        return map(function, items)


def _read_intact_plans(folder: Path) -> dict[Path, bytes]:
    """Return the contents of the plans that are not damaged."""
    contents = dict[Path, bytes]()
    for path in (path for name in PLANS for path in sorted(folder.rglob(name))):
        with contextlib.suppress(UserError):
            (read_plan if path.name == "plan.json" else read_suite_plan)(path)
            contents[path] = path.read_bytes()
    return contents


def _list_files(folder: Path) -> list[Path]:
    """Return the files that a study reads again."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "study.toml")


def _damage(folder: Path, damage: Damage, first: dict[Path, bytes]) -> None:
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
        case "flip" if content:
            middle = len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
