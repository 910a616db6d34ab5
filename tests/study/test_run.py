"""The command line's light commands; several mistakes at once."""

import pytest

from tests.study.command import call, light


def test_several_mistakes_are_a_line_each(tmp_path):
    result = call("study.run", tmp_path, "seeds=3", "training.treads=2", "search.round_size=0")
    assert (result.returncode, result.stdout) == (2, "")
    assert [line.split("; expected ")[0] for line in result.stderr.splitlines()] == [
        "study.run: command line: training.treads: 2",
        "study.run: command line: seeds: 3",
        "study.run: command line: search.round_size: 0",
    ]


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("--help", ["usage"]),
        ("--list", ["T-WSLS"]),
        ("--export-sweep", ["t-wsls.yaml"]),
        (
            "--dry-run",
            [
                "unknown until a run is recorded, or --estimate-cost",
                "search.round_size = 2 configurations a round, on which results depend",
            ],
        ),
    ],
)
def test_light_commands_answer_without_torch_or_ray(option, parts, tmp_path):
    result = light(tmp_path, option)
    assert result.returncode == 0, result.stderr
    for part in parts:
        assert part in result.stdout


def test_sweeps_are_written_where_the_command_is_run_unless_it_says_where(tmp_path):
    for arguments, folder in (((), "sweeps"), (("there/too",), "there/too")):
        result = call("study.run", tmp_path, "quick", "--export-sweep", *arguments)
        assert result.returncode == 0, result.stderr
        files = [f"{folder}/{name}.yaml" for name in ("ls", "t-ls", "wsls", "t-wsls", "kl")]
        assert result.stdout.splitlines() == files
        assert all((tmp_path / file).is_file() for file in files)
