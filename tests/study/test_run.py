"""The command line's light commands, and a user's mistakes: exit status 2 and one line."""

from pathlib import Path

import pytest

from tests.study.command import call, light


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["training.speed=3"], ["training.speed", "known key"]),
        (["search.epsilon=[1.5]"], ["search.epsilon", "1.5", "at most 1"]),
        (["search.schedule_settings.switch=[-1]"], ["search.schedule_settings", "-1", "greater than 0"]),
        (["task.name=trivia"], ["task.name", "trivia", "docstrings"]),
        (["task.name=beir"], ["task.path", "none", "corpus.jsonl"]),
        (["task.name=qqp", "task.path=pairs.tsv"], ["pairs.tsv, line 2", "fields: 2", "6"]),
        (["--prepare", "task.name=qqp", "task.path=pairs.tsv"], ["pairs.tsv, line 2", "fields: 2", "6"]),
        (["task.sampler.name=random"], ["task.sampler.weak_label", "bm25", "uniform"]),
        (['variants=["BERT", "XLS"]'], ["variants", "XLS", "T-WSLS"]),
        (["model.name=./nowhere"], ["model.name", "nowhere", "config.json"]),
        (["model.name=package:nowhere/model"], ["model.name", "nowhere"]),
        (['task.libraries=["no_such_library"]'], ["task.libraries", "no_such_library", "installed"]),
        (["model.num_layers=none", "model.frozen_layers=6"], ["model.frozen_layers", "fewer than the 6"]),
        (["model.num_layers=9"], ["model.num_layers", "at most the model's 6"]),
        (["model.max_length=1000"], ["model.max_length", "at most the model's 512"]),
        (["broken.toml"], ["broken.toml", "not TOML"]),
        (["missing.toml"], ["missing.toml", "no such file"]),
        (["quick", "another"], ["another"]),
        (["--jsn"], ["command line", "--jsn", "--help"]),
        (["--list", "--prepare"], ["command line", "argument --prepare: not allowed with argument --list"]),
        ([f"output.folder={Path(__file__).parent}"], ["other files"]),
        (["output.folder=/proc/study"], ["command line: output.folder: '/proc/study'", "a folder on a disk"]),
        (["cache.folder=/sys/cache"], ["command line: cache.folder: '/sys/cache'", "a folder on a disk"]),
        (["--dry-run", "output.folder=/proc/study"], ["output.folder: '/proc/study'"]),
        (["--dry-run", "training.threads=1000"], ["training.threads: 1000", "the cores of this machine"]),
        (["training.threads=1000"], ["training.threads: 1000", "the cores of this machine"]),
        (["--dry-run", "model.num_layers=9"], ["model.num_layers", "at most the model's 6"]),
        (["--dry-run", f"training.instances={16 * 10**21}"], ["training.instances", "less than or equal to"]),
        (["--dry-run", ".".join("a" * 3000) + "=1"], ["command line: a: 2999 levels of keys", "at most 8"]),
        (["seeds=[1]", "seeds=[2]"], ["command line: seeds: given twice, as [1] and [2]", "one value"]),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, parts, tmp_path):
    (tmp_path / "broken.toml").write_text("name = [", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\n", encoding="utf-8")
    result = call("study.run", tmp_path, *arguments)
    assert not list(tmp_path.rglob("*.parquet"))
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("study.run: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert "; expected " in result.stderr or "; see --help" in result.stderr
    for part in parts:
        assert part in result.stderr


def test_several_mistakes_are_a_line_each(tmp_path):
    result = call("study.run", tmp_path, "seeds=3", "training.treads=2", "search.round_size=0")
    assert (result.returncode, result.stdout) == (2, "")
    assert [line.split("; expected ")[0] for line in result.stderr.splitlines()] == [
        "study.run: command line: training.treads: 2",
        "study.run: command line: seeds: 3",
        "study.run: command line: search.round_size: 0",
    ]


def test_a_wrong_mode_in_the_environment_is_named(tmp_path):
    result = call("study.run", tmp_path, WANDB_MODE="sometimes")
    assert result.returncode == 2
    assert "WANDB_MODE" in result.stderr
    assert "sometimes" in result.stderr


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("--help", ["usage"]),
        ("--list", ["T-WSLS"]),
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
