"""Exports a study as W&B sweeps: one YAML file for each searched variant, from its search space.

python -m study.run quick --export-sweep study/sweeps        # creates the shipped files
wandb sweep study/sweeps/t-ls.yaml                           # then run the `wandb agent` command that it prints
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from search_spaces.space import Params, collect_values, split_into_branches
from study.config.schema import Study
from study.config.sources import expand_variables
from study.config.spaces import count_proposals, make_system_space
from study.plan.study_file import format_variable_name, make_portable
from trainables.metrics import LOWER_IS_BETTER
from trainables.smoothing.schedules import get_defaults
from trainables.utils.errors import UserError
from trainables.utils.files import check_outputs, read_head, write_atomically

_METHODS = {"grid": "grid", "qmc": "random", "tpe": "bayes", "gp": "bayes"}
"""Sampler of the study -> the most similar method of the W&B server."""

_ORIGIN = "made from its own search space by"
"""End of the first line of a sweep."""
_MACHINE_SPECIFIC = re.compile(r"(^|[=\s'\"\[{,])(file:/*)?(/|~\w)|^resources\.address\s*=(?!\s*\W?auto\W?$)")
"""Matches an argument with an absolute path, the home of a named user, or an address."""


class StudyReference(NamedTuple):
    """The study as it is named on the command line.

    Example:
        >>> source = StudyReference("quick", ["cache.folder=/data/cache", "seeds=[0]"])
        >>> source.arguments
        ['quick', 'cache.folder=${STUDY_CACHE_FOLDER}', 'seeds=[0]']
        >>> source.variables
        {'STUDY_CACHE_FOLDER': '/data/cache'}
    """

    name: str
    overrides: Sequence[str]

    @property
    def arguments(self) -> list[str]:
        """Arguments that name the study on any machine, because the W&B server shows them.

        Paths are relative to ~ or to the folder in which the study is run. Anything else that is specific to this
        machine is read from environment variables.
        """
        variables = self.variables
        arguments = [f"${{{_STUDY_FILE}}}" if _STUDY_FILE in variables else make_portable(self.name)]
        for override in self.overrides:
            key = override.partition("=")[0].strip()
            is_variable = format_variable_name(key) in variables
            arguments.append(f"{key}=${{{format_variable_name(key)}}}" if is_variable else make_portable(override))
        return arguments

    @property
    def variables(self) -> dict[str, str]:
        """These environment variables, with their values on this machine."""
        variables = {}
        if self.name.startswith("${") or _MACHINE_SPECIFIC.search(make_portable(self.name)):
            variables[_STUDY_FILE] = expand_variables(self.name)
        for override in self.overrides:
            key, _, value = (part.strip() for part in override.partition("="))
            if _MACHINE_SPECIFIC.search(make_portable(override)):
                variables[format_variable_name(key)] = value
        return variables


_STUDY_FILE = "STUDY_FILE"


class _Sweep(NamedTuple):
    """Sweep of a variant, or of one branch of its search space."""

    variant: str
    name: str
    points: Sequence[Params]
    n_runs: int

    @property
    def file_name(self) -> str:
        return f"{self.name.lower().replace(' ', '-')}.yaml"


def export_sweeps(study: Study, source: StudyReference, folder: Path) -> list[Path]:
    """Write the sweeps of a study to a folder, replacing earlier ones, and return the paths of the YAML files.

    Raises:
        UserError: the study has nothing to search, the folder cannot be written, or it has somebody else's file of the
            name of a sweep.
    """
    sweeps = [part for variant, runs in count_proposals(study).items() for part in _build_sweeps(study, variant, runs)]
    if not sweeps:
        raise UserError("--export-sweep", "a study that searches nothing", "variants in addition to the baseline")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError):
        raise UserError("--export-sweep", repr(str(folder)), "a folder that can be written") from None
    texts = {
        folder / part.file_name: _format_comment(study, source, part) + _format_yaml(study, source, part)
        for part in sweeps
    }
    check_outputs("--export-sweep", texts, lambda path: read_head(path).partition("\n")[0].endswith(_ORIGIN))
    for path, text in texts.items():
        with write_atomically(path) as draft:
            draft.write_text(text, encoding="utf-8")
    return list(texts)


def _build_sweeps(study: Study, variant: str, runs: int) -> Iterator[_Sweep]:
    """Yield the sweeps of a variant: one, or one for each branch of its grid.

    W&B's grid runs every combination of all values. If some schedules or pacing functions lack settings that others
    have, several combinations are the same configuration. So each branch has a sweep of its own.
    """
    points = make_system_space(study, variant).points
    groups = split_into_branches(points) if study.search.sampler == "grid" else [points]
    if len(groups) == 1:
        yield _Sweep(variant, variant, points, runs)
    else:
        yield from (_Sweep(variant, f"{variant} {_name_branch(branch)}", branch, len(branch)) for branch in groups)


def _name_branch(branch: Sequence[Params]) -> str:
    """Return what distinguishes a branch of the space: schedule, and whether the pacing has a delta."""
    values = branch[0].values
    steps = ["step" if values["pacing"] == "step" else "gradual"] if "pacing" in values else []
    return " ".join([*([str(values["schedule"])] if "schedule" in values else []), *steps])


def _format_yaml(study: Study, source: StudyReference, sweep: _Sweep) -> str:
    import yaml

    name, *overrides = source.arguments
    has_mode = any(re.match(r"tracking(\.mode\s*=|\s*=.*\bmode\b)", override) for override in overrides)
    mode = [] if has_mode else ["tracking.mode=online"]
    # W&B's agent replaces ${envvar:NAME} and drops any other word of the form ${NAME}. Within a word it keeps ${NAME},
    # which the study replaces itself: it refuses a variable that is not set.
    name = re.sub(r"^\$\{(\w+)\}$", r"${envvar:\1}", name)
    command = ["${env}", "${interpreter}", "-m", "study.run", name, *mode, *overrides]
    goal = "minimize" if study.analysis.metric in LOWER_IS_BETTER else "maximize"
    content = {
        "name": f"{study.name} {sweep.name}",
        "project": study.project,
        "program": "study/run.py",
        "method": _METHODS[study.search.sampler],
        "metric": {"name": "objective", "goal": goal},
        "run_cap": sweep.n_runs,
        "command": [*command, "--sweep", "${args_no_hyphens}"],
        "parameters": {
            "variant": {"value": sweep.variant},
            **{key: {"values": values} for key, values in collect_values(sweep.points).items()},
        },
    }
    return str(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110))


def _format_comment(study: Study, source: StudyReference, sweep: _Sweep) -> str:
    lines = [
        f"{sweep.name} of the study {study.name}, {_ORIGIN}",
        f"    {shlex.join(['python', '-m', 'study.run', *source.arguments, '--export-sweep'])}",
        "To run it, in the folder in which the study is run:",
        f"    wandb sweep {sweep.file_name}",
        f"    wandb agent {shlex.quote(f'ENTITY/{study.project}/ID')}",
        *([f"Agents need {', '.join(source.variables)} in their environment."] if source.variables else []),
        "A run of the sweep is a configuration with all seeds of the study, judged on the development set.",
    ]
    values = collect_values(sweep.points)
    settings_by_schedule = {str(name): [*get_defaults(str(name))] for name in values.get("schedule", [])}
    if len(split_into_branches(sweep.points)) > 1 and settings_by_schedule:
        settings = "; ".join(f"{name}: {', '.join(keys) or 'none'}" for name, keys in settings_by_schedule.items())
        lines += [
            "W&B draws a value for every hyperparameter. Those that the schedule does not take are ignored:",
            f"    {settings}",
        ]
    if "step" in values.get("pacing", []) and "delta" in values:
        lines.append("The pacing function step takes no delta: W&B draws one, and it is ignored.")
    return indent("".join(f"{line}\n" for line in lines), "# ", lambda line: True)
