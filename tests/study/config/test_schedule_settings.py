"""A schedule with a setting is a function and an entry: all that a study knows of the setting follows from it."""

import json
import subprocess
import sys
from typing import Annotated, Any

import pytest
from pydantic import Field

from search_spaces.ranker import STUDY_TYPE
from study.config.loader import load_study
from study.plan.analysis_plan import build_plan
from study.scheduling.trials import ConfigurationFactory
from tests.study.driving import RESOLVED
from trainables.smoothing.signatures import complete_schedule
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json
from trainables.utils.registry import Entry, Registry

ADD = """
import json, sys
from typing import Annotated
from pydantic import Field
from trainables.smoothing import schedules
from trainables.smoothing.signatures import complete_schedule
from trainables.utils.registry import Entry, Provider, Registry
Power = Annotated[float, Field(gt=0, le=5, description="Power of the schedule power.", examples=[1.0, 3.0])]
def power(epsilon: float, seen: int, total: int, {name}: Power = 2.0) -> float:
    return epsilon * (1 - seen / total) ** {name}
provider = Provider("example 1", "schedules", "power", "example")
rows = [Entry(name, power, "falls as a power", "an example", provider=provider) for name in ("power", "again")]
schedules.SCHEDULES = Registry(*schedules.SCHEDULES.entries, *rows, complete=complete_schedule)
import trainables.smoothing
trainables.smoothing.SCHEDULES = schedules.SCHEDULES
"""
POWER = ['variants=["BERT", "LS", "T-LS"]', 'search.schedule=["power"]', "search.power=[1.0, 3.0]"]


def called(*lines: str, name: str = "power") -> Any:
    """What a process that has the schedule prints as JSON."""
    code = ADD.replace("{name}", name) + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(study: list[str], *lines: str) -> Any:
    """What a study tells in a process that has the schedule."""
    return called(
        "from study.config.loader import load_study",
        "from study.plan.analysis_plan import build_plan",
        "from study.scheduling.trials import ConfigurationFactory",
        "from study.config.spaces import make_system_space",
        "from search_spaces.space import enumerate_space",
        "from tests.study.driving import RESOLVED",
        "from trainables.utils.errors import UserError",
        "from trainables.utils.hashing import hash_json",
        f"study = load_study('quick', {study!r})",
        *lines,
    )


def test_a_schedule_that_no_study_uses_changes_no_plan_and_no_id() -> None:
    overrides = ["training.precision=fp32"]
    study = load_study("quick", overrides)
    point = next(iter(study.study_type.variants))
    ours = [
        hash_json(build_plan(study, "digest")),
        [item.id for item in ConfigurationFactory(study, RESOLVED, "").make_reference_systems()],
        study.study_type.make_smoothing("T-LS", {"epsilon": 0.2, "switch": 0.5}).model_dump(mode="json"),
    ]
    assert point == "BERT"
    theirs = told(
        overrides,
        "print(json.dumps([hash_json(build_plan(study, 'digest')),",
        "[item.id for item in ConfigurationFactory(study, RESOLVED, '').make_reference_systems()],",
        "study.study_type.make_smoothing('T-LS', {'epsilon': 0.2, 'switch': 0.5}).model_dump(mode='json')]))",
    )
    assert theirs == ours


def test_it_is_searched_trained_and_planned() -> None:
    found = told(
        POWER,
        "points = [point.values for point in enumerate_space(make_system_space(study, 'T-LS'))]",
        "own = study.study_type.make_smoothing('T-LS', points[-1])",
        "plan = build_plan(study, 'digest')",
        "print(json.dumps({'points': points, 'dump': own.model_dump(mode='json'),",
        "'strength': own.compute_strength(50, 100, 10), 'constant': own.to_constant().model_dump(mode='json'),",
        "'plan': [plan['hyperparameters'], plan['settings']['search']['power']]}))",
    )
    assert {point["power"] for point in found["points"]} == {1.0, 3.0}
    assert all(point["schedule"] == "power" and "switch" not in point for point in found["points"])
    unset = dict.fromkeys(("teacher_temperature", "teacher", "weak_temperature"))
    assert found["dump"] == {
        "loss": "cross_entropy", "distribution": "uniform", "schedule": "power", "epsilon": 0.4, "power": 3.0, **unset
    }  # fmt: skip
    assert found["strength"] == pytest.approx(0.4 * 0.5**3)
    assert "power" not in found["constant"]
    assert "power" in found["plan"][0]
    assert found["plan"][1] == [1.0, 3.0]


def test_its_keys_are_those_of_any_setting() -> None:
    found = told(
        POWER,
        "def told(*overrides):",
        "    try:",
        "        return load_study('quick', overrides).search.compare",
        "    except UserError as error:",
        "        return str(error)",
        "from study.config.trial_params import parse_trial_params",
        "swept = {'variant': 'T-LS', 'epsilon': '0.2', 'power': '9'}",
        "try:",
        "    parse_trial_params(study, swept)",
        "except UserError as error:",
        "    swept = str(error)",
        "from study.workflows.choices import SECTIONS",
        "options = [option for section in SECTIONS for option in section.list_options()]",
        "options = [option for option in options if option.key == 'search.power']",
        "print(json.dumps([told('search.power=[0]'), told('search.compare=power', 'search.schedule=[\"again\"]'),",
        "told('search.compare=power'), told('search.powr=[1]'), swept, options]))",
    )
    assert found[0] == (
        "command line: search.power: [0]; "
        "expected a list of increasing numbers, each above 0 and at most 5, e.g. [1.0, 3.0]"
    )
    assert found[1] == "power"
    assert "expected a hyperparameter of every schedule in search.schedule; two_stage does not have it" in found[2]
    assert "did you mean search.power?" in found[3]
    assert found[4] == "--sweep power: '9'; expected less than or equal to 5"
    assert found[5] == [["search.power", "[2.0]", "Power of the schedule power"]]


@pytest.mark.parametrize(
    "name", ["epsilon_", "n_configurations", "sampler", "learning_rate", "delta", "negatives", "copy"]
)
def test_the_name_of_another_key_is_refused_when_a_study_is_read(name: str) -> None:
    found = called(
        "from trainables.utils.errors import UserError",
        "from study.config.loader import load_study",
        "try:",
        "    load_study('quick')",
        "    print(json.dumps(''))",
        "except UserError as error:",
        "    print(json.dumps(str(error)))",
        name=name,
    )
    if name == "epsilon_":
        assert found == ""
    else:
        expected = (
            f"the schedule power, setting {name}: the name of another setting of trainables.rankers; expected a free"
        )
        assert found.startswith(expected)


def test_a_setting_cannot_have_the_name_of_a_label() -> None:
    """A run's labels are one table, in which the settings of its smoothing are entries."""
    factory = ConfigurationFactory(load_study("quick"), RESOLVED, "")
    (configuration, *_) = factory.make_reference_systems()
    labels = factory.make_labels(configuration, configuration.runs[0])
    others = labels.keys() - {*STUDY_TYPE.hyperparameter_names}
    assert {"variant", "seed", "task"} <= others
    for name in others:
        code = {"Power": Annotated[float, Field(gt=0, description="Power.")]}
        exec(f"def made(epsilon, seen, total, {name}: Power = 2.0): return epsilon", code)
        with pytest.raises(UserError, match=f"the setting {name}; expected a free name"):
            Registry(Entry("made", code["made"], "a line", "a source"), complete=complete_schedule).check_name("made")
