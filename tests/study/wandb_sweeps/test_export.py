"""The sweeps of a study are its own search: every file leads to the runs that the study itself would make."""

import runpy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from study.config import trial_params as hyperparameters
from study.config.loader import load_study
from study.config.sources import STUDIES_FOLDER
from study.config.spaces import count_proposals
from study.scheduling.trials import ConfigurationFactory
from study.wandb_sweeps.export import StudyReference, export_sweeps
from study.wandb_sweeps.optuna_scheduler import make_sweep_scheduler
from tests.study.driving import RESOLVED, scheduler
from trainables.utils.errors import UserError

SHIPPED = STUDIES_FOLDER.parent / "sweeps"
SCHEDULES = 'search.schedule=["two_stage", "linear", "cosine", "beta"]'
WIDE = (SCHEDULES, "search.a=[1.0, 2.0]", "search.learning_rate=[1e-5, 5e-4]", "search.batch_size=[16, 32]")


def grid(constant: int, ending: int) -> tuple[str, ...]:
    """A grid, with so many configurations of variants whose smoothing is constant, and of those whose ends."""
    counts = {"LS": constant, "WSLS": constant, "T-LS": ending, "T-WSLS": ending}
    return ("search.sampler=grid", *(f"search.n_configurations.{name}={count}" for name, count in counts.items()))


STUDIES_TRIED: dict[str, tuple[str, ...]] = {
    "as shipped": (),
    "many schedules and settings of training": WIDE,
    "a grid": ("search.epsilon=[0.1, 0.2, 0.3]", *grid(3, 9)),
    "a grid of losses": (
        'variants=["BERT", "LS", "WSLS"]',
        'search.loss=["cross_entropy", "lce"]',
        "search.weak_temperature=[1.0, 5.0]",
        "search.epsilon=[0.1, 0.2]",
        "search.sampler=grid",
        "search.n_configurations={BERT=2, LS=4, WSLS=6}",
    ),
    "a grid of many schedules": ("search.epsilon=[0.1, 0.2]", SCHEDULES, "search.a=[1.0, 2.0]", *grid(2, 14)),
}


def written(folder: Path, *overrides: str) -> dict[str, dict[str, Any]]:
    paths = export_sweeps(load_study("quick", overrides), StudyReference("quick", overrides), folder)
    return {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def drawn(sweep: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Everything that W&B may draw, as the agent hands it to the command."""
    parameters = sweep["parameters"]
    values = [own["values"] if "values" in own else [own["value"]] for own in parameters.values()]
    for chosen in product(*values):
        yield dict(zip(parameters, map(str, chosen), strict=True))


def test_the_shipped_sweeps_are_those_of_the_quick_study(tmp_path: Path) -> None:
    written(tmp_path)
    assert {path.name for path in SHIPPED.iterdir()} == {"ls.yaml", "t-ls.yaml", "wsls.yaml", "t-wsls.yaml"}
    for path in SHIPPED.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


@pytest.mark.parametrize("overrides", STUDIES_TRIED.values(), ids=STUDIES_TRIED)
def test_what_is_drawn_are_the_runs_that_the_study_would_make(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    study = load_study("quick", overrides)
    made, maker = scheduler(tmp_path / "results", study), ConfigurationFactory(study, RESOLVED, "plan-hash")
    sweeps = written(tmp_path, *overrides).values()
    for variant, variant_search in made.searches.items():
        own = [sweep for sweep in sweeps if sweep["parameters"]["variant"]["value"] == variant]
        named = [hyperparameters.parse_trial_params(study, given) for sweep in own for given in drawn(sweep)]
        points = {one.params for one in named}
        assert points == set(variant_search.search.configurations)
        found = {
            run.id for point in points for run in maker.make_configuration(variant, point, study.seeds, "search").runs
        }
        assert {run.id for item in variant_search.configurations for run in item.runs} <= found
        assert variant_search.search.n_configurations == sum(sweep["run_cap"] for sweep in own)
        assert len(own) == 1 or study.search.sampler == "grid"


@pytest.mark.parametrize("name", ["a grid", "a grid of losses", "a grid of many schedules"])
def test_a_grid_runs_every_configuration_once(tmp_path: Path, name: str) -> None:
    overrides = STUDIES_TRIED[name]
    study, sweeps = load_study("quick", overrides), written(tmp_path, *overrides).values()
    for variant, count in count_proposals(study).items():
        own = [sweep for sweep in sweeps if sweep["parameters"]["variant"]["value"] == variant]
        points = [hyperparameters.parse_trial_params(study, given) for sweep in own for given in drawn(sweep)]
        assert all(not named.ignored for named in points)
        assert len(set(points)) == len(points) == count == sum(sweep["run_cap"] for sweep in own)
        assert {sweep["method"] for sweep in own} == {"grid"}


@pytest.mark.parametrize("overrides", STUDIES_TRIED.values(), ids=STUDIES_TRIED)
def test_the_command_names_the_same_study_online(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    study = load_study("quick", ["tracking.mode=online", *overrides])
    for sweep in written(tmp_path, *overrides).values():
        *start, name = sweep["command"][:5]
        assert start == ["${env}", "${interpreter}", "-m", "study.run"]
        *given, option, macro = sweep["command"][5:]
        assert (option, macro) == ("--sweep", "${args_no_hyphens}")
        assert load_study(name, given) == study
        assert sweep["project"] == study.project


def test_a_mode_that_is_asked_for_stands(tmp_path: Path) -> None:
    command = written(tmp_path, "tracking.mode=disabled")["ls.yaml"]["command"]
    assert load_study("quick", command[5:-2]).tracking.mode == "disabled"


@pytest.mark.parametrize(
    ("overrides", "method", "goal"),
    [
        ((), "bayes", "maximize"),
        (("search.sampler=gp", "analysis.metric=position"), "bayes", "minimize"),
        (("search.sampler=qmc", 'search.objectives=["R10@1", "ECE"]'), "random", "maximize"),
    ],
)
def test_method_and_goal_are_the_studys(tmp_path: Path, overrides: tuple[str, ...], method: str, goal: str) -> None:
    for sweep in written(tmp_path, *overrides).values():
        assert sweep["method"] == method
        assert sweep["metric"] == {"name": "objective", "goal": goal}


def test_a_sweep_says_which_settings_a_schedule_takes(tmp_path: Path) -> None:
    written(tmp_path, *WIDE)
    (line,) = [line for line in (tmp_path / "t-ls.yaml").read_text("utf-8").splitlines() if "two_stage: switch" in line]
    assert line == "#     two_stage: switch; linear: end; cosine: none; beta: a, b"
    assert "does not take" not in (tmp_path / "ls.yaml").read_text("utf-8")


def test_the_home_folder_is_in_no_file(tmp_path: Path) -> None:
    home = Path.home()
    overrides = (f"output.folder={home}/mine", f"cache.folder={home}")
    export_sweeps(load_study("quick", overrides), StudyReference(f"{home}/mine.toml", overrides), tmp_path)
    content = yaml.safe_load((tmp_path / "ls.yaml").read_text("utf-8"))
    assert content["command"][4:8] == ["~/mine.toml", "tracking.mode=online", "output.folder=~/mine", "cache.folder=~"]
    assert f"{home}/" not in (tmp_path / "ls.yaml").read_text("utf-8")


def test_a_sweep_names_no_folder_or_address_of_this_machine_and_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path.parent / "data"
    file = data / "mine.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text((STUDIES_FOLDER / "quick.toml").read_text("utf-8"), "utf-8")
    overrides = (
        f"task.path={data}/x y",
        f"output.folder={tmp_path}/results",
        f'cache.checkpoints="file://{data}"',
        "curriculum.vectors=~jane/v.vec",
        f"output={{records={str(data)!r}}}",
        "resources.address=192.0.2.7:6379",
        "training.decay=linear",
    )
    asked, source = load_study(str(file), overrides), StudyReference(str(file), overrides)
    paths = export_sweeps(asked, source, Path("sweeps"), make_sweep_scheduler)
    texts = [path.read_text("utf-8") for path in Path("sweeps").iterdir()]
    assert len(texts) == 2 * len(paths)
    for text in texts:
        assert not [own for own in (str(tmp_path.parent), "jane", "192.0.2.7") if own in text]
        assert "${STUDY_TASK_PATH}" in text
    command = yaml.safe_load(paths[0].read_text("utf-8"))["command"]
    with pytest.raises(UserError, match="the environment variable STUDY_FILE to be set"):
        load_study(command[4], command[5:-2])
    for name, value in source.variables.items():
        monkeypatch.setenv(name, value)
    assert len(source.variables) == 6
    again = load_study(command[4], command[5:-2])
    assert (again.folder, again.tracking.mode) == (asked.folder, "online")
    own = {"tracking", "output"}
    assert again.model_dump(exclude=own) == asked.model_dump(exclude=own)
    assert runpy.run_path(str(next(Path("sweeps").glob("ls_space.py"))))["optimizer"]


def test_a_study_without_a_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="searches nothing"):
        written(tmp_path, 'variants=["BERT"]')


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "inner"):
        with pytest.raises(UserError, match="expected a folder"):
            written(place)
