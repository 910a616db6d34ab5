"""One configuration named as text: what is taken, what is left aside, and each mistake in one line."""

from typing import Any

import pytest

from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.study_class import get_study_class
from study.config.trial_params import parse_trial_params
from tests.study.driving import STUDY
from trainables.utils.errors import UserError


def study(model: Any = None, **search: Any) -> Study:
    base = STUDY.model_dump()
    changed = {"model": {**base["model"], **(model or {})}, "search": {**base["search"], **search}}
    return get_study_class().model_validate(base | changed)


WIDE = study(
    n_configurations={},
    schedule=("two_stage", "linear", "exponential", "cosine", "beta"),
    schedule_settings={"rate": (3.0, 5.0), "a": (1.0, 2.0)},
    learning_rate=(STUDY.training.learning_rate, 0.1 + 0.2),
)


ADAPTERS = study(
    model={"lora": {"rank": 4}},
    lora={"rank": (4, 16), "alpha": (16.0, 32.0), "dropout": (0.0, 0.1 + 0.2)},
)


@pytest.mark.parametrize("variant", STUDY.variants)
@pytest.mark.parametrize("asked", [STUDY, WIDE, ADAPTERS])
def test_every_point_of_the_space_is_named_by_its_values_as_text(asked, variant):
    for point in make_system_space(asked, variant).list_configurations():
        named = parse_trial_params(
            asked, {"variant": variant, **{name: str(value) for name, value in point.values.items()}}
        )
        assert named == (variant, point, ())


def test_a_value_that_was_rounded_on_the_way_is_the_grids():
    for text in ("0.30000000000000004", "0.3", "3e-1", "0.29999999999"):
        named = parse_trial_params(STUDY, {"variant": "LS", "epsilon": text})
        assert named.params.values == {"epsilon": 0.3}
    assert parse_trial_params(STUDY, {"variant": "LS", "epsilon": "0.3001"}).params.values == {"epsilon": 0.3001}


def test_small_values_that_differ_stay_different():
    close = study(learning_rate=(STUDY.training.learning_rate, 1e-3))
    given = {"variant": "LS", "epsilon": "0.2", "learning_rate": "5.0001e-6"}
    assert parse_trial_params(close, given).params.values["learning_rate"] == 5.0001e-6


def test_what_the_schedule_does_not_take_is_left_aside():
    drawn = {"epsilon": "0.2", "switch": "0.5", "end": "0.8", "rate": "3.0", "a": "1.0", "b": "2.0"}
    drawn["learning_rate"] = str(STUDY.training.learning_rate)
    for schedule, own in {"linear": ["end"], "cosine": [], "beta": ["a", "b"], "two_stage": ["switch"]}.items():
        named = parse_trial_params(WIDE, {"variant": "T-LS", "schedule": schedule, **drawn})
        assert list(named.params.values) == ["epsilon", "schedule", *own, "learning_rate"]
        assert set(named.ignored) == {"switch", "end", "rate", "a", "b"} - set(own)
    ignored = parse_trial_params(WIDE, {"variant": "LS", "schedule": "beta", **drawn}).ignored
    assert set(ignored) == {"schedule", "switch", "end", "rate", "a", "b"}


def test_a_value_that_the_grid_does_not_have_is_taken_if_a_run_can_have_it():
    named = parse_trial_params(
        STUDY, {"variant": "T-LS", "epsilon": "0.25", "schedule": "linear", "end": "0.5", "learning_rate": "0.25"}
    )
    assert named.params.values == {"epsilon": 0.25, "schedule": "linear", "end": 0.5, "learning_rate": 0.25}


def test_every_value_that_is_wrong_is_named():
    with pytest.raises(UserError) as raised:
        parse_trial_params(STUDY, {"variant": "LS", "epsilon": "2", "switch": "many", "rate": "1"})
    assert [line.partition(";")[0] for line in str(raised.value).split("\n")] == [
        "--sweep epsilon: '2'", "--sweep switch: 'many'",
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"(?s)--sweep warmth: '3'.*\n--sweep cold: '4'"):
        parse_trial_params(STUDY, {"variant": "LS", "warmth": "3", "cold": "4"})
