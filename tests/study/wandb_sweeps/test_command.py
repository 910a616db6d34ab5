"""The command line of sweeps: what it writes, what it refuses, and that it loads nothing for that."""

import json
from pathlib import Path

import pytest

from tests.study.command import call, called

T_LS = ("variant=T-LS", "epsilon=0.2", "switch=0.5")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--sweep", *T_LS), "--sweep: no study; expected the name or file of its study, e.g. quick"),
        (("quick", "--sweep"), "--sweep variant: none; expected one of the study's variants: BERT"),
        (
            ("quick", "--sweep", *T_LS, "warmth=3"),
            "--sweep warmth: '3'; expected a name out of variant, epsilon, schedule",
        ),
        (("quick", "--sweep", *T_LS, "training.speed=3"), "command line: training.speed: 3; expected a known key"),
        (("quick", "--sweep", *T_LS, "seeds=[0.5]"), "command line: seeds: [0.5]; expected a list of distinct whole"),
        (("quick", "--sweep", "variant=LS", "epsilon=2"), "--sweep epsilon: '2'; expected less than or equal to 1"),
        (
            ("quick", "--sweep", "variant=LS", "epsilon=0.2", "learning_rate=0"),
            "--sweep learning_rate: '0'; expected greater than 0",
        ),
        (("--sweep", *T_LS, "--dry-run"), "command line: argument --dry-run: not allowed with argument --sweep"),
        (
            ("--sweep", "--export-sweep"),
            "command line: argument --export-sweep: not allowed with argument --sweep; see",
        ),
        (
            ("--export-sweep", "--prepare"),
            "command line: argument --prepare: not allowed with argument --export-sweep; see",
        ),
        (("--export-sweep", "quick"), "--export-sweep: 'quick'; expected a folder; the study and its settings come"),
        (("--export-sweep", "/proc/x"), "--export-sweep: '/proc/x'; expected a folder that can be written"),
        (("--export-sweep", "seeds=[1]"), "--export-sweep: 'seeds=[1]'; expected a folder; the study and its"),
        (
            ("--sweep", "variant=LS", "variant=T-LS"),
            "command line: variant: given twice, as 'LS' and 'T-LS'; expected one",
        ),
        (("epsilon=0.2",), "command line: epsilon: 0.2; expected a known key; did you mean search.epsilon?"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    result = call("study.run", tmp_path, *arguments)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith(f"study.run: {line}")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_sweeps_are_written_where_the_command_is_run_unless_it_says_where(tmp_path: Path) -> None:
    for arguments, folder in (((), "sweeps"), (("there/too",), "there/too")):
        result = call("study.run", tmp_path, "quick", "--export-sweep", *arguments)
        assert result.returncode == 0, result.stderr
        files = [f"{folder}/{name}.yaml" for name in ("ls", "t-ls", "wsls", "t-wsls")]
        assert result.stdout.splitlines() == files
        assert all((tmp_path / file).is_file() for file in files)


def test_writing_sweeps_loads_neither_torch_nor_ray_nor_wandb(tmp_path: Path) -> None:
    code = (
        "import json, sys; from study.run import main; status = main(); "
        "print(json.dumps([status, sorted({'torch', 'ray', 'wandb', 'optuna'} & sys.modules.keys())]))"
    )
    result = called(tmp_path, "-c", code, "quick", "--export-sweep")
    assert json.loads(result.stdout.splitlines()[-1]) == [0, []]
