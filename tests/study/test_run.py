"""The command line's light commands, and a user's mistakes: exit status 2 and one line."""

from pathlib import Path

import pytest

from tests.study.command import call, called, light


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["training.speed=3"], ["training.speed", "known key"]),
        (["search.epsilon=[1.5]"], ["search.epsilon", "1.5", "at most 1"]),
        (["search.switch=[-1]"], ["search.switch", "-1", "above 0"]),
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
        (["--list", "quick"], ["command line", "'quick'", "no other argument with --list"]),
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


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ('Variant("uniform", "linear", 0)', "n_configurations = 0; expected a whole number from 1 on"),
        (
            'Variant("uniform", "linear", compared_with=("LX",))',
            "compared_with 'LX'; expected other variants out of BE",
        ),
        ('Variant("uniform", None)', "the schedule None; expected one of constant, two_stage, linear"),
        ('Variant("triangular", "linear")', "the distribution 'triangular'; expected one of none, uniform"),
        ('Variant("uniform", "linear")', ""),
    ],
)
def test_a_variant_whose_row_is_wrong_is_one_line(tmp_path, row, told):
    code = (
        "import sys, trainables.smoothing.schedules as s\nfrom trainables.smoothing.schedules import Variant\n"
        "from trainables.utils.registry import Entry, Registry\n"
        f"s.VARIANTS = Registry(*s.VARIANTS.entries, Entry('X-LS', {row}, 'a row', 'this test'))\n"
        "from study.run import main\n"
        """sys.exit(2 * main(["--list"]) + main(["quick", 'variants=["BERT", "X-LS"]', "--dry-run"]))"""
    )
    result = called(tmp_path, "-c", code)
    if told:
        assert result.returncode == 2 * 2 + 2, result.stderr
        lines = result.stderr.splitlines()
        assert len(lines) == 2
        assert all(line.startswith(f"study.run: trainables.rankers, variant X-LS: {told}") for line in lines)
    else:
        assert result.returncode == 0, result.stderr
        assert "X-LS" in result.stdout.partition("\nstudy quick")[0]
        assert "X-LS" in result.stdout.partition("\nstudy quick")[2]


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
