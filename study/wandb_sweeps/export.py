"""W&B sweeps of a study: a YAML file for each searched variant, made from the search space that the study itself has.

python -m study.run quick --export-sweep study/sweeps        # what is shipped there
wandb sweep study/sweeps/t-ls.yaml                           # then `wandb agent` with what it prints
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from search_spaces.space import Params, collect_values, enumerate_space, split_into_branches
from study.config.schema import Study
from study.config.spaces import count_proposals, make_system_space
from study.scheduling.objectives import get_directions, get_objectives
from trainables.smoothing.schedules import SCHEDULE_SETTINGS
from trainables.utils.errors import UserError

METHODS = {"grid": "grid", "qmc": "random", "tpe": "bayes", "gp": "bayes"}
"""The study's sampler -> what W&B's server has that is most like it."""


_MACHINE_SPECIFIC = re.compile(r"(^|[=\s'\"\[{,])(file:/*)?(/|~\w)|^resources\.address\s*=(?!\s*\W?auto\W?$)")
"""An argument with an absolute path, the home of a named user, or an address."""


class StudyReference(NamedTuple):
    """The study as the command line named it."""

    name: str
    overrides: Sequence[str]

    @property
    def arguments(self) -> list[str]:
        """What names it on any machine, since W&B's server will show it: paths are relative to the folder in which the
        study is run or to ~, and what else belongs to this machine comes from variables of the environment."""
        variables = self.variables
        named = [f"${{{_STUDY_FILE}}}" if _STUDY_FILE in variables else _make_portable(self.name)]
        for override in self.overrides:
            key = override.partition("=")[0].strip()
            known = _format_variable_name(key) in variables
            named.append(f"{key}=${{{_format_variable_name(key)}}}" if known else _make_portable(override))
        return named

    @property
    def variables(self) -> dict[str, str]:
        """Those variables, with their values here."""
        found = {}
        if _MACHINE_SPECIFIC.search(_make_portable(self.name)):
            found[_STUDY_FILE] = self.name
        for override in self.overrides:
            key, _, value = (part.strip() for part in override.partition("="))
            if _MACHINE_SPECIFIC.search(_make_portable(override)):
                found[_format_variable_name(key)] = value
        return found


_STUDY_FILE = "STUDY_FILE"


def _format_variable_name(key: str) -> str:
    return "STUDY_" + re.sub(r"\W", "_", key).upper()


def _make_portable(argument: str) -> str:
    """With what lies below the working folder and the home named relative to these."""
    for folder, name in ((Path.cwd(), "."), (Path.home(), "~")):
        if folder != Path(folder.anchor):
            argument = re.sub(rf"(?<![\w.~-]){re.escape(str(folder))}(?=/|$|['\"])", name, argument)
    return argument


class SweepScheduler(NamedTuple):
    """Who proposes configurations where W&B's server does not."""

    settings: dict[str, Any]
    """Of the sweep, beside its method, which is `custom`."""
    code: tuple[Path, str]
    """The Python file that they name, and what is in it."""


SchedulerFactory = Callable[[StudyReference, str, Path], SweepScheduler]
"""(source, variant, folder for files) -> who proposes its configurations."""


class _Sweep(NamedTuple):
    """A sweep: of a variant, or of a branch of its space."""

    variant: str
    suffix: str | None
    points: Sequence[Params]
    n_runs: int

    @property
    def name(self) -> str:
        return self.variant if self.suffix is None else f"{self.variant} {self.suffix}"

    @property
    def file_name(self) -> str:
        return f"{self.name.lower().replace(' ', '-')}.yaml"


def export_sweeps(
    study: Study, source: StudyReference, folder: Path, make_scheduler: SchedulerFactory | None = None
) -> list[Path]:
    """Writes the sweeps of a study, over those that are there; returns the YAML files.

    Args:
        study: whose searches.
        source: how commands name the study.
        folder: made if need be.
        engine: none: W&B's server proposes.

    Raises:
        UserError: the study has nothing to search, or the folder is none.
    """
    sweeps = [part for variant, runs in count_proposals(study).items() for part in _build_sweeps(study, variant, runs)]
    if not sweeps:
        raise UserError("--export-sweep", "a study that searches nothing", "variants beside the baseline")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError):
        raise UserError("--export-sweep", repr(str(folder)), "a folder that can be written") from None
    written = []
    for part in sweeps:
        scheduler = make_scheduler(source, part.variant, folder) if make_scheduler else None
        path = folder / part.file_name
        path.write_text(
            _format_comment(study, source, part, scheduler) + _format_yaml(study, source, part, scheduler),
            encoding="utf-8",
        )
        if scheduler:
            scheduler.code[0].write_text(scheduler.code[1], encoding="utf-8")
        written.append(path)
    return written


def _build_sweeps(study: Study, variant: str, runs: int) -> Iterator[_Sweep]:
    """W&B's grid runs every combination of all values. Where some schedules or pacing functions have settings that
    others have not, combinations would be the same configuration, so that each branch gets a sweep of its own."""
    found = list(enumerate_space(make_system_space(study, variant)))
    groups = split_into_branches(found) if study.search.sampler == "grid" else [found]
    for branch in groups:
        suffix = _name_branch(branch) if len(groups) > 1 else None
        yield _Sweep(variant, suffix, branch, len(branch) if len(groups) > 1 else runs)


def _name_branch(branch: Sequence[Params]) -> str:
    """What tells a branch of a space from the others: the schedule, and whether the pacing has a delta."""
    own = branch[0].values
    steps = ["step" if own["pacing"] == "step" else "gradual"] if "pacing" in own else []
    return " ".join([*([str(own["schedule"])] if "schedule" in own else []), *steps])


def _format_yaml(study: Study, source: StudyReference, sweep: _Sweep, scheduler: SweepScheduler | None) -> str:
    import yaml

    name, *overrides = source.arguments
    has_mode = any(re.match(r"tracking(\.mode\s*=|\s*=.*\bmode\b)", override) for override in overrides)
    mode = [] if has_mode else ["tracking.mode=online"]
    command = ["${env}", "${interpreter}", "-m", "study.run", name, *mode, *overrides]
    goals = [
        {"name": f"objective/{objective}", "goal": direction}
        for objective, direction in zip(get_objectives(study), get_directions(get_objectives(study)), strict=True)
    ]
    alone = {"metric": {"name": "objective", "goal": goals[0]["goal"]}}
    content = {
        "name": f"{study.name} {sweep.name}",
        "project": study.project,
        "program": "study/run.py",
        "method": "custom" if scheduler else METHODS[study.search.sampler],
        **({"metrics": goals} if scheduler and len(goals) > 1 else alone),
        "run_cap": sweep.n_runs,
        **(scheduler.settings if scheduler else {}),
        "command": [*command, "--sweep", "${args_no_hyphens}"],
        "parameters": {
            "variant": {"value": sweep.variant},
            **{key: {"values": found} for key, found in collect_values(sweep.points).items()},
        },
    }
    return str(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110))


def _format_comment(study: Study, source: StudyReference, sweep: _Sweep, scheduler: SweepScheduler | None) -> str:
    arguments = [
        "python",
        "-m",
        "study.run",
        *source.arguments,
        "--export-sweep",
        *(["--engine", "optuna"] if scheduler else []),
    ]
    lines = [
        f"{sweep.name} of the study {study.name}, made from its own search space by",
        f"    {shlex.join(arguments)}",
        "To run it, in the folder in which the study is run:",
        f"    wandb sweep {sweep.file_name}",
        f"    wandb agent ENTITY/{study.project}/ID",
        *(
            [f"    wandb sweep-scheduler ENTITY/{study.project}/ID        # one, beside the agents"]
            if scheduler
            else []
        ),
        *([f"Agents need {', '.join(source.variables)} in their environment."] if source.variables else []),
        "A run of the sweep is a configuration with all seeds of the study, judged on the development set.",
    ]
    drawn = collect_values(sweep.points)
    taken = {str(name): [*SCHEDULE_SETTINGS[str(name)]] for name in drawn.get("schedule", [])}
    if len(split_into_branches(sweep.points)) > 1 and not scheduler and taken:
        settings = "; ".join(f"{name}: {', '.join(own) or 'none'}" for name, own in taken.items())
        lines += [
            "W&B draws a value for every hyperparameter. Those that the schedule does not take are ignored:",
            f"    {settings}",
        ]
    if "step" in drawn.get("pacing", []) and "delta" in drawn and not scheduler:
        lines.append("The pacing function step takes no delta: W&B draws one, and it is ignored.")
    return "".join(f"# {line}\n" for line in lines)
