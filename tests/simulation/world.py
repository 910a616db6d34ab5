"""The studies of a simulation, and what takes the place of everything around their driver."""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pandas as pd

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
from trainables.data.ranking_dataset import RankingDataset
from trainables.models.pretrained import hash_model, hash_module_files, resolve_model_path
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import TrainablePlugin
from trainables.storage import leases
from trainables.utils.base_settings import require

_OWN_KEYS = ("suite", "report", "inputs", "models", "queries")
"""Keys of the settings of a study that belong to the simulation, or in another place."""
_OTHER_DATA = "0" * 16
_PLACE = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())


class StudyWorld:
    """Makes studies of one world.

    Attributes:
        queries: the queries of each split.
        settings: settings of the study that is started next.
    """

    def __init__(self, world: World) -> None:
        self._world, self._studies = world, dict[str, Study]()
        self.settings = dict[str, Any]()
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
        key = f"{root} {settings}"
        if key not in self._studies:
            self._studies[key] = self._make_study(root, settings)
        return self._studies[key]

    def _make_study(self, root: Path, settings: dict[str, Any]) -> Study:
        world, output = self._world, {"folder": str(root / "study"), "models": settings.get("models")}
        if "output" in settings:
            output["remote"] = str(root / settings["output"]["remote"])
        return get_study_class().model_validate(
            {
                **SETTINGS,
                "training": SETTINGS["training"] | ({"sampling": "uniform"} if "curriculum" in settings else {}),
                "task": world.prepared.settings.model_dump(),
                "model": {"name": str(world.bert), "max_length": 32, **FROZEN},
                **{name: value for name, value in settings.items() if name not in _OWN_KEYS},
                "cache": {"folder": str(root / "cache"), **settings.get("cache", {})},
                "output": output,
            }
        )

    @contextlib.contextmanager
    def replace(self, trials: Trials, server: Server) -> Iterator[None]:
        """Replace what is around the driver: Tune, W&B, model and data, and the report unless the study has it."""
        backend = self._data_backend
        write_report, write_joint_report = session._write_report, run_suite._write_joint_report
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(open_study, "resolve_study", self._resolve),
            mock.patch("study.execution.tuner.run_trials", trials.run),
            mock.patch("study.tracking.client.WriterProcess", server.start_writer),
            mock.patch("study.tracking.writer.WandbRun", server.open_run),
            mock.patch.object(session, "_write_report", self._may_replace(write_report)),
            mock.patch.object(run_suite, "_write_joint_report", self._may_replace(write_joint_report)),
            mock.patch.object(backend, "check_data"),
            mock.patch.object(backend, "describe_data", self._describe_data),
            mock.patch.object(backend, "compute_query_attributes", self._copy_attributes),
            mock.patch.object(TrainablePlugin, "load_statistics", return_value=self._statistics),
            mock.patch.object(leases, "threading", Threads(trials.machine)),
            mock.patch.object(run_record, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(run_store, "ThreadPoolExecutor", _InThisThread),
            mock.patch.object(remote_records, "ThreadPoolExecutor", _InThisThread),
        ):
            yield

    @contextlib.contextmanager
    def make_disk(self, name: str) -> Iterator[Path]:
        """Yield an empty folder of the machine, each time the same one, with an empty cache."""
        root = _PLACE / f"simulated-{os.getpid()}-{name}"
        shutil.rmtree(root, ignore_errors=True)
        try:
            (root / "cache").mkdir(parents=True)
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _resolve(self, study: Study, *_: Any) -> tuple[Study, ResolvedInputs, RankingDataset]:
        inputs = self._inputs
        match self.settings.get("inputs"):
            case "data":
                inputs = inputs._replace(fingerprint=_OTHER_DATA)
            case "environment":
                inputs = inputs._replace(environment=inputs.environment.model_copy(update={"torch": "0"}))
        return study, inputs, self._world.prepared

    def _describe_data(self, *_: Any) -> dict[str, Any]:
        return self._description | ({"fingerprint": _OTHER_DATA} if self.settings.get("inputs") == "data" else {})

    def _copy_attributes(self, *_: Any) -> pd.DataFrame | None:
        return self._attributes.copy() if "queries" in self.settings else None

    def _may_replace(self, write_report: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that writes a report if the study has one, and what has its attributes otherwise."""
        nothing = SimpleNamespace(conclusion="", text="", folder=Path())
        return lambda *given: write_report(*given) if "report" in self.settings else nothing


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
