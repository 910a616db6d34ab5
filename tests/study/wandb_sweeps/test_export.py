"""The sweeps of a study are its own search: every file leads to the runs that the study itself would make."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb.wandb_agent import Agent

from study.config import trial_params as hyperparameters
from study.config.loader import Study, load_study
from study.config.sources import STUDIES_FOLDER, expand_variables, split_arguments
from study.config.spaces import count_proposals
from study.export import _build_parser, _format_command
from study.run import main
from study.scheduling.trials import ConfigurationFactory
from study.wandb_sweeps.sweep_export import StudyReference, export_sweeps
from tests.study.driving import RESOLVED, scheduler
from trainables.utils.errors import UserError

SHIPPED = STUDIES_FOLDER.parent / "sweeps"
SCHEDULES = 'search.schedule=["two_stage", "linear", "cosine", "beta"]'
A = "search.schedule_settings.a=[1.0, 2.0]"
WIDE = (SCHEDULES, A, "search.learning_rate=[1e-5, 5e-4]")


def grid(constant: int, ending: int) -> tuple[str, ...]:
    """A grid with so many configurations of variants with constant smoothing, and with smoothing that ends."""
    counts = {"LS": constant, "WSLS": constant, "T-LS": ending, "T-WSLS": ending}
    return ("search.sampler=grid", *(f"search.n_configurations.{name}={count}" for name, count in counts.items()))


STUDIES_TRIED: dict[str, tuple[str, ...]] = {
    "as shipped": (),
    "many schedules and settings of training": WIDE,
    "a grid": ("search.epsilon=[0.1, 0.2, 0.3]", *grid(3, 9)),
    "a grid of losses": (
        'variants=["BERT", "LCE", "LCE-LS", "LCE-WSLS"]',
        "search.temperature=[1.0, 5.0]",
        "search.epsilon=[0.1, 0.2]",
        "search.sampler=grid",
        "search.n_configurations={LCE-LS=2, LCE-WSLS=4}",
    ),
    "a grid of many schedules": ("search.epsilon=[0.1, 0.2]", SCHEDULES, A, *grid(2, 14)),
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


def test_the_shipped_sweeps_are_those_of_the_quick_study(tmp_path):
    written(tmp_path)
    assert {path.name for path in SHIPPED.iterdir()} == {"kl.yaml", "ls.yaml", "t-ls.yaml", "wsls.yaml", "t-wsls.yaml"}
    for path in SHIPPED.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


@pytest.mark.parametrize("overrides", STUDIES_TRIED.values(), ids=STUDIES_TRIED)
def test_what_is_drawn_are_the_runs_that_the_study_would_make(tmp_path, overrides):
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
def test_a_grid_runs_every_configuration_once(tmp_path, name):
    overrides = STUDIES_TRIED[name]
    study, sweeps = load_study("quick", overrides), written(tmp_path, *overrides).values()
    for variant, count in count_proposals(study).items():
        own = [sweep for sweep in sweeps if sweep["parameters"]["variant"]["value"] == variant]
        points = [hyperparameters.parse_trial_params(study, given) for sweep in own for given in drawn(sweep)]
        assert all(not named.ignored for named in points)
        assert len(set(points)) == len(points) == count == sum(sweep["run_cap"] for sweep in own)
        assert {sweep["method"] for sweep in own} == {"grid"}


def test_a_mode_that_is_asked_for_stands(tmp_path):
    command = written(tmp_path, "tracking.mode=disabled")["ls.yaml"]["command"]
    assert load_study("quick", command[5:-2]).tracking.mode == "disabled"


@pytest.mark.parametrize(
    ("overrides", "method", "goal"),
    [
        ((), "bayes", "maximize"),
        (("search.sampler=gp", "analysis.metric=position"), "bayes", "minimize"),
        (("search.sampler=qmc",), "random", "maximize"),
    ],
)
def test_method_and_goal_are_the_studys(tmp_path, overrides, method, goal):
    for sweep in written(tmp_path, *overrides).values():
        assert sweep["method"] == method
        assert sweep["metric"] == {"name": "objective", "goal": goal}


def test_a_sweep_says_which_settings_a_schedule_takes(tmp_path):
    written(tmp_path, *WIDE)
    (line,) = [line for line in (tmp_path / "t-ls.yaml").read_text("utf-8").splitlines() if "two_stage: switch" in line]
    assert line == "#     two_stage: switch; linear: end; cosine: none; beta: a, b"
    assert "does not take" not in (tmp_path / "ls.yaml").read_text("utf-8")


def test_the_home_folder_is_in_no_file(tmp_path):
    home = Path.home()
    overrides = (f"output.folder={home}/mine", f"cache.folder={home}")
    export_sweeps(load_study("quick", overrides), StudyReference(f"{home}/mine.toml", overrides), tmp_path)
    content = yaml.safe_load((tmp_path / "ls.yaml").read_text("utf-8"))
    assert content["command"][4:8] == ["~/mine.toml", "tracking.mode=online", "output.folder=~/mine", "cache.folder=~"]
    assert f"{home}/" not in (tmp_path / "ls.yaml").read_text("utf-8")


def test_a_sweep_names_no_folder_or_address_of_this_machine_and_runs_all_the_same(tmp_path, monkeypatch):
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
        f"output={{remote={str(data)!r}}}",
        "resources.address=192.0.2.7:6379",
        "training.decay=linear",
    )
    asked, source = load_study(str(file), overrides), StudyReference(str(file), overrides)
    paths = export_sweeps(asked, source, Path("sweeps"))
    for text in (path.read_text("utf-8") for path in paths):
        assert not [own for own in (str(tmp_path.parent), "jane", "192.0.2.7") if own in text]
        assert "${STUDY_TASK_PATH}" in text
    command = yaml.safe_load(paths[0].read_text("utf-8"))["command"]
    assert command[4] == "${envvar:STUDY_FILE}"
    with pytest.raises(UserError, match="the environment variable STUDY_TASK_PATH to be set"):
        load_study(str(file), command[5:-2])
    for name, value in source.variables.items():
        monkeypatch.setenv(name, value)
    assert len(source.variables) == 6
    again = load_study("${STUDY_FILE}", command[5:-2])
    assert (again.folder, again.tracking.mode) == (asked.folder, "online")
    own = {"tracking", "output"}
    assert again.model_dump(exclude=own) == asked.model_dump(exclude=own)


ODD = "it's an `odd` $HOME folder"
NAMED: dict[str, tuple[str, ...]] = {
    "shipped": ("quick",),
    "in the current folder": ("own file.toml", "seeds=[1, 2]"),
    "elsewhere": (f"{{elsewhere}}/{ODD}/mine.toml", "seeds=[ 1,\n 2]", f"cache.folder={{elsewhere}}/{ODD}"),
    "by a variable": ("${MINE}", "tracking.project=two words"),
    "by a variable in lower case": ("${mine}", "model.name=team/bert", "output.folder=${mine}.results"),
}


@pytest.fixture(params=NAMED)
def named(request, tmp_path, monkeypatch):
    """Arguments that name a study with another seed than the quick one, as a user gives them to a command."""
    elsewhere, own = tmp_path / "elsewhere", tmp_path / "own"
    for file in (elsewhere / ODD / "mine.toml", own / "own file.toml"):
        file.parent.mkdir(parents=True)
        file.write_text((STUDIES_FOLDER / "quick.toml").read_text("utf-8").replace("name =", "#") + "\n", "utf-8")
        file.write_text(f'name = "mine"\n{file.read_text("utf-8")}', "utf-8")
    monkeypatch.chdir(own)
    for name in ("MINE", "mine"):
        monkeypatch.setenv(name, str(elsewhere / ODD / "mine.toml"))
    return [word.format(elsewhere=elsewhere) if "{elsewhere}" in word else word for word in NAMED[request.param]]


def same(study: Study, words: list[str], *, but: frozenset[str] = frozenset()) -> bool:
    """Returns True if the words of a command name the study, wherever it is tracked."""
    name, overrides = split_arguments(words)
    fields = but | {"tracking"}
    return load_study(name, overrides).model_dump(exclude=fields) == study.model_dump(exclude=fields)


def test_every_command_that_is_written_names_the_study_that_it_was_written_for(named, tmp_path, monkeypatch, capsys):
    """Taken apart by what will read it: W&B's agent, which starts a program, and a shell."""
    study = load_study(named[0], named[1:])
    assert main([*named, "--export-sweep", str(tmp_path / "sweeps")]) == 0
    *_, exports = capsys.readouterr().out.partition("for the agents: ")
    for name in set(re.findall(r"STUDY_\w+", exports)):
        monkeypatch.delenv(name, raising=False)
    script = "\n".join([*exports.split("for the agents: "), "env -0"])
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    for line in shell.stdout.split("\0"):
        if line.startswith("STUDY_"):
            monkeypatch.setenv(*line.split("=", 1))

    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {shlex.quote(str(tmp_path / 'words'))}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("WANDB_DIR", "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH"):  # the agent sets them
        monkeypatch.setenv(name, str(tmp_path))
    text = (tmp_path / "sweeps" / "ls.yaml").read_text("utf-8")
    sweep = yaml.safe_load(text)
    agent = Agent(None, None, sweep_id="id")
    agent._sweep_command = sweep["command"]
    args = {name: {"value": value} for name, value in next(drawn(sweep)).items()}
    agent._command_run({"run_id": "run", "program": sweep["program"], "args": args})
    assert agent._run_processes["run"].wait(timeout=10) == 0
    words = (tmp_path / "words").read_text("utf-8").split("\0")[:-1]
    given = words[words.index("--sweep") + 1 :]
    assert words[:2] == ["-m", "study.run"]
    assert same(study, words[2 : words.index("--sweep")])
    assert given == [f"{name}={value['value']}" for name, value in args.items()]

    comment = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines() if line.startswith("#"))
    printed = re.findall(r"(?ms)^    (python .*?--export-sweep|wandb agent .*?/ID'?)$", comment)
    export, start = map(shlex.split, printed)
    assert same(study, export[3:-1])
    assert start == ["wandb", "agent", f"ENTITY/{study.project}/ID"]

    card = shlex.split(_format_command(_build_parser().parse_args([named[0], "LS", *named[1:], "--to", "x"])))
    assert [*card[:3], card[4]] == ["python", "-m", "study.export", "LS"]
    monkeypatch.chdir(Path(expand_variables(named[0])).parent)  # a card names a file without its folder
    assert same(study, [card[3], *card[5:-2]], but=frozenset({"output", "cache"}))


def test_sweeps_replace_sweeps_and_nothing_else(tmp_path):
    assert written(tmp_path) == written(tmp_path)
    (tmp_path / "ls.yaml").write_text("mine")
    with pytest.raises(UserError, match=r"ls\.yaml exists and this command did not write it"):
        written(tmp_path)
    assert (tmp_path / "ls.yaml").read_text() == "mine"
