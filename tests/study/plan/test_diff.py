"""What has changed since the plan was written: every key, its old and its new value, and nothing else."""

from typing import Any

import pytest

from study.config.schema import Study
from study.config.study_class import get_study_class
from study.plan.analysis_plan import build_plan
from study.plan.diff import list_changed_settings
from trainables.specs.ranking_task import RankerTaskSettings

MODEL = "sha256:0"
TRAINING = {"instances": 64, "batch_size": 32, "negatives": 1}


def study(**changed: Any) -> Study:
    return get_study_class().model_validate({"name": "small", "training": TRAINING, **changed})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"search": {"epsilon": [0.2, 0.3]}}, ["search.epsilon [0.1, 0.2, 0.3, 0.4] -> [0.2, 0.3]"]),
        ({"training": TRAINING | {"instances": 128}}, ["training.instances 64 -> 128"]),
        ({"task": RankerTaskSettings(dev_queries=7).model_dump()}, ["task.dev_queries none -> 7"]),
        ({"analysis": {"correction": "holm"}}, ['analysis.correction "bonferroni" -> "holm"']),
        ({"output": {"folder": "elsewhere"}}, []),
        ({"search": {"round_size": 3}}, ["search.round_size 2 -> 3"]),
        ({"seeds": [1], "variants": ["BERT"]}, ["seeds [1, 2, 3, 4, 5] -> [1]", "variants"]),
    ],
)
def test_what_changed_is_told_with_old_and_new_value(changed: dict[str, Any], expected: list[str]) -> None:
    found = list_changed_settings(build_plan(study(), MODEL), build_plan(study(**changed), MODEL))
    assert len(found) == len(expected)
    assert all(line.startswith(wanted) for line, wanted in zip(found, expected, strict=True))


def test_a_long_value_is_cut() -> None:
    (line,) = list_changed_settings(build_plan(study(), MODEL), build_plan(study(seeds=list(range(100))), MODEL))
    assert len(line) < 120
    assert line.endswith("...")


def test_new_data_are_a_change() -> None:
    splits = {split: {"queries": 3} for split in ("dev", "test")}
    old, new = (build_plan(study(), MODEL, {"fingerprint": name, "splits": splits}) for name in "ab")
    assert list_changed_settings(old, new) == ['data.fingerprint "a" -> "b"']
