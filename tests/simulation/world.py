"""The studies of a simulation, and what takes the place of everything around their driver."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from records import run_record
from records.run_record import SPLITS
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.folder import provenance, remote_records, run_store
from study.scheduling.trials import ResolvedInputs
from study.suites import run_suite
from study.suites.suite_loader import Suite, SuiteStudy
from study.workflows import open_study, session
from tests.simulation.threads import Threads
from tests.simulation.trials import Trials
from tests.simulation.wandb import Server
from tests.study.small import SETTINGS
from tests.trainables.small import FROZEN, World
from trainables.models.pretrained import hash_model, hash_module_files, resolve_model_path
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import TrainablePlugin
from trainables.storage import leases
from trainables.utils.base_settings import require

_OWN_KEYS = ("suite", "report", "inputs", "models")
"""Keys of the settings of a study that belong to the simulation, or in another place."""
_OTHER_DATA = "0" * 16
_PLACE = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class StudyWorld:
    """Makes studies of one world.

    Attributes:
        queries: the queries of each split.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        path, there = resolve_model_path(str(world.bert)), detect_environment()
        model = self.make_study(Path(), {}).model
        self._inputs = ResolvedInputs(
            world.prepared.fingerprint,
            hash_model(path, model),
            path,
            there,
            world.prepared.domains,
            folder_digest=hash_module_files(path),
        )
        provenance.get_commit()
        plugin = self.make_study(Path(), {}).study_type.trainable
        self._data_backend = plugin.data_backend
        self._description = plugin.data_backend.describe_data(world.prepared)
        self._statistics = plugin.load_statistics(world.prepared)
        study = self.make_study(world.cache.parent, {"cache": {"folder": str(world.cache)}})
        self._attributes = require(self._data_backend.compute_query_attributes(study, self._inputs, ""))
        rows = self._attributes
        self.queries = {split: tuple(rows.loc[rows["split"] == split, "query_id"]) for split in SPLITS}

    def make_suite(self, root: Path, settings: dict[str, Any]) -> Suite:
        """Return the suite of a study and of one with other seeds."""
        studies = list[SuiteStudy]()
        for number, key in enumerate(("first", "second")):
            seeds = [seed + 50 * number for seed in settings["seeds"]]
            study = self.make_study(root, settings | {"name": key, "seeds": seeds})
            output = study.output.model_copy(update={"folder": str(root / "study" / key)})
            studies.append(SuiteStudy(key, {"part": key}, study.model_copy(update={"output": output})))
        axes = {"part": [each.key for each in studies]}
        return Suite("pair", root / "study", "part", axes, tuple(studies), tuple(studies), None)

    def make_study(self, root: Path, settings: dict[str, Any]) -> Study:
        """Return the study of some settings, with its files below a folder."""
        world, output = self._world, {"folder": str(root / "study"), "models": settings.get("models")}
        if "output" in settings:
            output["remote"] = str(root / settings["output"]["remote"])
        return get_study_class().model_validate(
            {
                **SETTINGS,
                "task": world.prepared.settings.model_dump(),
                "model": {"name": str(world.bert), "max_length": 32, **FROZEN},
                **{name: value for name, value in settings.items() if name not in _OWN_KEYS},
                "cache": {"folder": str(root / "cache"), **settings.get("cache", {})},
                "output": output,
            }
        )

    @contextlib.contextmanager
    def replace(self, settings: dict[str, Any], trials: Trials, server: Server) -> Iterator[None]:
        """Replace what is around the driver: Tune, W&B, model and data, and the report unless the study has it."""
        inputs, description = self._inputs, self._description
        match settings.get("inputs"):
            case "data":
                inputs = inputs._replace(fingerprint=_OTHER_DATA)
                description = description | {"fingerprint": _OTHER_DATA}
            case "environment":
                inputs = inputs._replace(environment=inputs.environment.model_copy(update={"torch": "0"}))
        report, has_report = SimpleNamespace(conclusion="", text="", folder=Path()), "report" in settings
        write_report, write_joint_report = session._write_report, run_suite._write_joint_report
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(open_study, "resolve_study", lambda study, *_: (study, inputs, self._world.prepared)),
            mock.patch("study.execution.tuner.run_trials", trials.run),
            mock.patch("study.tracking.client.WriterProcess", server.start_writer),
            mock.patch("study.tracking.writer.WandbRun", server.open_run),
            mock.patch.object(session, "_write_report", write_report if has_report else lambda *_: report),
            mock.patch.object(
                run_suite, "_write_joint_report", write_joint_report if has_report else lambda *_: report
            ),
            mock.patch.object(self._data_backend, "describe_data", return_value=description),
            mock.patch.object(self._data_backend, "compute_query_attributes", self._copy_attributes),
            mock.patch.object(TrainablePlugin, "load_statistics", return_value=self._statistics),
            mock.patch.object(leases, "threading", Threads(trials.machine)),
            mock.patch.object(run_record, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(run_store, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(remote_records, "ThreadPoolExecutor", _InThisThread),
        ):
            yield

    @contextlib.contextmanager
    def make_disk(self) -> Iterator[Path]:
        """Yield an empty folder of the machine, with the caches that each study finds."""
        root = Path(tempfile.mkdtemp(prefix="simulated-", dir=_PLACE))
        try:
            self._world.fresh_cache(root / "cache")
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _copy_attributes(self, *_: Any) -> Any:
        return self._attributes.copy()


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
