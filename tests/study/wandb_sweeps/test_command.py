"""The command line of sweeps: what it writes, and that it loads nothing for that."""

import json
from pathlib import Path

from tests.study.command import call, called


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
