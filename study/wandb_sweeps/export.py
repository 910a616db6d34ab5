"""W&B sweeps of a study: a YAML file for each searched variant, made from the search space that the study itself has.

python -m study.run quick --export-sweep study/sweeps        # what is shipped there
wandb sweep study/sweeps/t-ls.yaml                           # then `wandb agent` with what it prints
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from search_spaces.space import Point, branches, points, values
from study.config.schema import Study
from study.config.spaces import family, searched
from study.scheduling.objectives import directions, objectives
from trainables.smoothing.schedules import SCHEDULE_SETTINGS
from trainables.utils.errors import UserError

METHODS = {"grid": "grid", "qmc": "random", "tpe": "bayes", "gp": "bayes"}
"""The study's sampler -> what W&B's server has that is most like it."""


_OF_A_MACHINE = re.compile(r"(^|[=\s'\"\[{,])(file:/*)?(/|~\w)|^resources\.address\s*=(?!\s*\W?auto\W?$)")
"""An argument with an absolute path, the home of a named user, or an address."""


class Source(NamedTuple):
    """The study as the command line named it."""

    name: str
    overrides: Sequence[str]

    @property
    def arguments(self) -> list[str]:
        """What names it on any machine, since W&B's server will show it: paths are relative to the folder in which the
        study is run or to ~, and what else belongs to this machine comes from variables of the environment."""
        variables = self.variables
        named = [f"${{{_STUDY_FILE}}}" if _STUDY_FILE in variables else _portable(self.name)]
        for override in self.overrides:
            key = override.partition("=")[0].strip()
            known = _variable(key) in variables
            named.append(f"{key}=${{{_variable(key)}}}" if known else _portable(override))
        return named

    @property
    def variables(self) -> dict[str, str]:
        """Those variables, with their values here."""
        found = {}
        if _OF_A_MACHINE.search(_portable(self.name)):
            found[_STUDY_FILE] = self.name
        for override in self.overrides:
            key, _, value = (part.strip() for part in override.partition("="))
            if _OF_A_MACHINE.search(_portable(override)):
                found[_variable(key)] = value
        return found


_STUDY_FILE = "STUDY_FILE"


def _variable(key: str) -> str:
    return "STUDY_" + re.sub(r"\W", "_", key).upper()


def _portable(argument: str) -> str:
    """With what lies below the working folder and the home named relative to these."""
    for folder, name in ((Path.cwd(), "."), (Path.home(), "~")):
        if folder != Path(folder.anchor):
            argument = re.sub(rf"(?<![\w.~-]){re.escape(str(folder))}(?=/|$|['\"])", name, argument)
    return argument


class Proposer(NamedTuple):
    """Who proposes configurations where W&B's server does not."""

    settings: dict[str, Any]
    """Of the sweep, beside its method, which is `custom`."""
    code: tuple[Path, str]
    """The Python file that they name, and what is in it."""


Engine = Callable[[Source, str, Path], Proposer]
"""(source, variant, folder for files) -> who proposes its configurations."""


class _Part(NamedTuple):
    """A sweep: of a variant, or of a branch of its space."""

    variant: str
    ending: str | None
    points: Sequence[Point]
    runs: int

    @property
    def name(self) -> str:
        return self.variant if self.ending is None else f"{self.variant} {self.ending}"

    @property
    def file(self) -> str:
        return f"{self.name.lower().replace(' ', '-')}.yaml"


def export(study: Study, source: Source, folder: Path, engine: Engine | None = None) -> list[Path]:
    """Writes the sweeps of a study, over those that are there; returns the YAML files.

    Args:
        study: whose searches.
        source: how commands name the study.
        folder: made if need be.
        engine: none: W&B's server proposes.

    Raises:
        UserError: the study has nothing to search, or the folder is none.
    """
    parts = [part for variant, runs in searched(study).items() for part in _parts(study, variant, runs)]
    if not parts:
        raise UserError("--export-sweep", "a study that searches nothing", "variants beside the baseline")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError):
        raise UserError("--export-sweep", repr(str(folder)), "a folder that can be written") from None
    written = []
    for part in parts:
        chosen = engine(source, part.variant, folder) if engine else None
        path = folder / part.file
        path.write_text(_comment(study, source, part, chosen) + _yaml(study, source, part, chosen), encoding="utf-8")
        if chosen:
            chosen.code[0].write_text(chosen.code[1], encoding="utf-8")
        written.append(path)
    return written


def _parts(study: Study, variant: str, runs: int) -> Iterator[_Part]:
    """W&B's grid runs every combination of all values. Where some schedules or pacing functions have settings that
    others have not, combinations would be the same configuration, so that each branch gets a sweep of its own."""
    found = list(points(family(study, variant)))
    parted = branches(found) if study.search.sampler == "grid" else [found]
    for branch in parted:
        ending = _branch(branch) if len(parted) > 1 else None
        yield _Part(variant, ending, branch, len(branch) if len(parted) > 1 else runs)


def _branch(found: Sequence[Point]) -> str:
    """What tells a branch of a space from the others: the schedule, and whether the pacing has a delta."""
    own = found[0].values
    steps = ["step" if own["pacing"] == "step" else "gradual"] if "pacing" in own else []
    return " ".join([*([str(own["schedule"])] if "schedule" in own else []), *steps])


def _yaml(study: Study, source: Source, part: _Part, proposer: Proposer | None) -> str:
    import yaml

    name, *overrides = source.arguments
    said = any(re.match(r"tracking(\.mode\s*=|\s*=.*\bmode\b)", override) for override in overrides)
    mode = [] if said else ["tracking.mode=online"]
    command = ["${env}", "${interpreter}", "-m", "study.run", name, *mode, *overrides]
    goals = [
        {"name": f"objective/{objective}", "goal": direction}
        for objective, direction in zip(objectives(study), directions(objectives(study)), strict=True)
    ]
    alone = {"metric": {"name": "objective", "goal": goals[0]["goal"]}}
    content = {
        "name": f"{study.name} {part.name}",
        "project": study.project,
        "program": "study/run.py",
        "method": "custom" if proposer else METHODS[study.search.sampler],
        **({"metrics": goals} if proposer and len(goals) > 1 else alone),
        "run_cap": part.runs,
        **(proposer.settings if proposer else {}),
        "command": [*command, "--sweep", "${args_no_hyphens}"],
        "parameters": {
            "variant": {"value": part.variant},
            **{key: {"values": found} for key, found in values(part.points).items()},
        },
    }
    return str(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110))


def _comment(study: Study, source: Source, part: _Part, proposer: Proposer | None) -> str:
    made = [
        "python",
        "-m",
        "study.run",
        *source.arguments,
        "--export-sweep",
        *(["--engine", "optuna"] if proposer else []),
    ]
    lines = [
        f"{part.name} of the study {study.name}, made from its own search space by",
        f"    {shlex.join(made)}",
        "To run it, in the folder in which the study is run:",
        f"    wandb sweep {part.file}",
        f"    wandb agent ENTITY/{study.project}/ID",
        *([f"    wandb sweep-scheduler ENTITY/{study.project}/ID        # one, beside the agents"] if proposer else []),
        *([f"Agents need {', '.join(source.variables)} in their environment."] if source.variables else []),
        "A run of the sweep is a configuration with all seeds of the study, judged on the development set.",
    ]
    drawn = values(part.points)
    taken = {str(name): [*SCHEDULE_SETTINGS[str(name)]] for name in drawn.get("schedule", [])}
    if len(branches(part.points)) > 1 and not proposer and taken:
        told = "; ".join(f"{name}: {', '.join(own) or 'none'}" for name, own in taken.items())
        lines += [
            "W&B draws a value for every hyperparameter. Those that the schedule does not take are ignored:",
            f"    {told}",
        ]
    if "step" in drawn.get("pacing", []) and "delta" in drawn and not proposer:
        lines.append("The pacing function step takes no delta: W&B draws one, and it is ignored.")
    return "".join(f"# {line}\n" for line in lines)
