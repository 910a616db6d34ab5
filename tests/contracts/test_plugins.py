"""A plug-in adds to every registry; its code is part of what uses it, and of nothing else."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from search_spaces.ranker_search import STUDY_TYPE
from study.config.loader import load_study
from study.config.spaces import make_system_space
from study.config.trial_params import parse_trial_params
from study.plan.analysis_plan import build_plan
from study.scheduling.trials import ConfigurationFactory
from study.workflows.choices import CHOICES
from tests.plugins import EXAMPLE, REGISTRIES, run_with, take_back_plugins
from tests.study.driving import RESOLVED
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.data.ranking_preparation import _build_identity
from trainables.difficulty.cache import get_difficulty_path
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import MachineError, UserError
from trainables.utils.hashing import hash_json
from trainables.utils.plugins import find_changed_plugins, list_plugin_paths, load_plugins

POWER = """
from typing import Annotated
from pydantic import Field
from trainables.smoothing import SCHEDULES
from trainables.utils.base_settings import Settings

class PowerSettings(Settings):
    NAME: Annotated[float, Field(gt=0, le=5)] = 2.0
    \"\"\"Power of the schedule power.\"\"\"

def power(epsilon, seen, total, NAME):
    return epsilon * (1 - seen / total) ** NAME

for name in ("power", "again"):
    SCHEDULES.register(name, "falls as a power", "an example", settings=PowerSettings)(power)
"""
POWER_KEY = "search.schedule_settings.power"
SEARCHED = [
    'variants=["BERT", "LS", "T-LS"]',
    'search.schedule=["two_stage", "power"]',
    "search.schedule_settings.power=[1.0, 3.0]",
]


def write(folder: Path, code: str, name: str = "mine", **loaded: bool) -> str:
    """Write a module, and return the override of a study that loads it."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    importlib.invalidate_caches()
    return f'plugins=["{name}"]'


def get_message(*overrides: str) -> str:
    """Return the error of a study with these overrides."""
    with pytest.raises(UserError) as refused:
        load_study("quick", overrides)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def register(registry: str, name: str, target: str, before: str = "") -> str:
    """Return the code of a plug-in that registers one object."""
    module, _, attribute = registry.rpartition(".")
    return (
        f"from {module} import {attribute}\n{before}\n{attribute}.register({name!r}, 'a line', 'a source')({target})\n"
    )


LOSS, VARIANT = "from trainables.losses import Loss", "from trainables.smoothing.schedules import Variant"
WRONG = {
    "error in the module": ("import no_such_module\n", "(ModuleNotFoundError: No module named 'no_such"),
    "name is taken": (
        register("trainables.specs.samplers.SAMPLERS", "bm25", "abs"), "the name bm25, which this project has; expected"
    ),
    "name with a parameter is taken": (
        register("trainables.metrics.METRICS", "R5@1", "METRICS['MAP']"), "the name R5@1, which this project has"
    ),
    "registered twice": (
        register("trainables.curriculum.PACING", "square", "abs") * 2, "the name square, which mine has; expected a"
    ),
    "no function": (register("trainables.curriculum.PACING", "x", "3"), "3; expected a function or class"),
    "no loss": (register("trainables.losses.LOSSES", "x", "abs"), "<built-in function abs>; expected a Loss"),
    "no task": (register("trainables.data.tasks.TASKS", "x", "abs"), "<built-in function abs>; expected a Task"),
    "no study type": (register("search_spaces.study_type.STUDY_TYPES", "x", "abs"), "abs>; expected a Stu"),
    **{
        f"label {label}": (register("trainables.losses.LOSSES", "x", f"Loss({label!r}, 'm:f', {form!r})", LOSS), told)
        for label, form, told in (
            ("LCE", "margin", "the label 'LCE', with which names of other systems begin; expected another label"),
            ("T", "margin", "the label 'T', with which names of other systems begin"),
            ("CL", "margin", "the label 'CL', with which names of other systems begin"),
            ("A-B", "margin", "the label 'A-B'; expected letters and digits alone"),
            ("Form", "triplet", "the form 'triplet'; expected one of pointwise, "),
        )
    },
    "name of a variant": (
        register("trainables.smoothing.schedules.VARIANTS", "A_B", "Variant('none', 'constant')", VARIANT),
        "the name 'A_B'; expected letters, digits and hyphens",
    ),
    "setting without a default": (POWER.replace("NAME", "power").replace(" = 2.0", ""), "the setting power; expected"),
    "setting of another schedule": (
        POWER.replace("NAME", "rate"), "the setting rate of another schedule; expected the same range and default, or a"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_plugin_is_one_line_that_names_it(plugins: Path, code: str, told: str) -> None:
    message = get_message(write(plugins, code))
    assert message.startswith("command line: plugins: mine (")
    assert told in message


def test_a_plugin_that_is_not_there_or_not_named_is_one_line(plugins: Path) -> None:
    assert get_message('plugins=["gone"]').startswith(
        "command line: plugins: gone (ModuleNotFoundError: No module named 'gone'); expected a module that can be"
    )
    assert get_message("plugins=mine") == (
        "command line: plugins: 'mine'; expected a list of modules, e.g. [\"my_package.my_module\"]"
    )
    for override in ('search.schedule=["power"]', "task.sampler.name=mine", 'variants=["BERT", "Own"]', "trainable=x"):
        assert get_message(override).endswith("; one of your own needs its module in plugins")
    assert get_message("task.sampler.name=bm52").endswith("; did you mean bm25?")


@pytest.mark.parametrize("name", ["round_size", "sampler", "learning_rate", "delta", "copy", "teacher", "distribution"])
def test_a_setting_of_a_schedule_cannot_have_the_name_of_a_key(plugins: Path, name: str) -> None:
    place = f"the schedule power, setting {name}"
    expected = f"{place}: the name of another setting or label; expected a free name"
    assert get_message(write(plugins, POWER.replace("NAME", name))) == expected


def test_a_setting_of_a_schedule_cannot_have_the_name_of_a_label(plugins: Path) -> None:
    """A run's labels are one table, in which the settings of its smoothing are entries."""
    factory = ConfigurationFactory(load_study("quick"), RESOLVED, "")
    (configuration, *_) = factory.make_reference_systems()
    labels = factory.make_labels(configuration, configuration.runs[0]).keys() - {*STUDY_TYPE.hyperparameter_names}
    assert {"variant", "seed", "task"} <= labels
    for name in labels:
        with take_back_plugins(plugins):
            assert "the name of another setting" in get_message(
                write(plugins, POWER.replace("NAME", name), f"own_{name}")
            )


def make_runs(*overrides: str) -> dict[str, Any]:
    """Return id and plug-ins of a run of each kind, and the hash of the plan of the quick study."""
    study = load_study("quick", ["training.precision=fp32", *overrides])
    factory = ConfigurationFactory(study, RESOLVED, "")
    texts = {
        "BERT": {"variant": "BERT"},
        "LS": {"variant": "LS", "epsilon": "0.2"},
        "two_stage": {"variant": "T-LS", "epsilon": "0.2", "schedule": "two_stage", "switch": "0.5"},
    }
    if overrides:
        texts["power"] = {"variant": "T-LS", "epsilon": "0.2", "schedule": "power", "power": "3"}
    found: dict[str, Any] = {"plan": hash_json(build_plan(load_study("quick"), "digest"))}
    for name, own in texts.items():
        params = parse_trial_params(study, own).params
        run = factory.make_configuration(own["variant"], params, [1], "search").runs[0]
        found[name] = run.id, run.plugins
    return found


def test_only_runs_that_use_a_plugin_depend_on_its_code(plugins: Path) -> None:
    without, found = make_runs(), list[dict[str, Any]]()
    for code in (POWER, POWER + "# changed\n"):
        with take_back_plugins(plugins):
            found.append(make_runs(*SEARCHED, write(plugins, code.replace("NAME", "power"))))
    for name in without:
        assert without[name] == found[0][name] == found[1][name]
    (first, (label,)), (second, (changed,)) = found[0]["power"], found[1]["power"]
    assert first != second
    assert label.split()[0] == changed.split()[0] == "mine"
    assert label != changed


@pytest.mark.parametrize("first", ["__init__", "other"])
def test_the_code_of_a_package_is_that_of_all_its_modules(plugins: Path, first: str) -> None:
    labels = set[str]()
    for helper in ("", "# changed\n"):
        (plugins / "own" / "deep").mkdir(parents=True, exist_ok=True)
        for name, code in ((first, ""), ("helper", helper), ("deep/notes", "")):
            (plugins / "own" / f"{name}.py").write_text(code, encoding="utf-8")
        (plugins / "own" / "entries.py").write_text(POWER.replace("NAME", "power"), encoding="utf-8")
        with take_back_plugins(plugins):
            labels |= {*make_runs(*SEARCHED, 'plugins=["own.entries"]')["power"][1]}
            assert list_plugin_paths() == [str(plugins / "own")]
    assert {label.split()[0] for label in labels} == {"own"}
    assert len(labels) == 2


def test_data_and_difficulties_depend_on_the_code_of_a_plugin_that_they_use(plugins: Path) -> None:
    code = (
        register("trainables.data.tasks.TASKS", "mine", "Task(abs, abs)", "from trainables.data.tasks import Task")
        + register("trainables.specs.samplers.SAMPLERS", "mine", "abs")
        + register(
            "trainables.curriculum.DIFFICULTY_SCORES", "mine", "DifficultyScore('text', 'mine:f')",
            "from trainables.curriculum.difficulty_scores import DifficultyScore",
        )
    )  # fmt: skip

    def identify() -> Iterator[Any]:
        for own in ({"name": "mine"}, {"sampler": SamplerSettings(name="mine")}, {}):
            yield hash_json(_build_identity(RankerTaskSettings(**own)))
        for score in ("mine", "turns"):
            yield get_difficulty_path(Path(), CurriculumSettings(score=score), "")

    found = list[list[Any]]()
    for own in (code, code + "# changed\n"):
        with take_back_plugins(plugins):
            write(plugins, own)
            load_plugins(["mine"])
            found.append([*identify()])
    assert [before == after for before, after in zip(*found, strict=True)] == [False, False, True, False, True]


def test_a_node_with_other_code_or_without_the_plugin_says_so(plugins: Path) -> None:
    study = load_study("quick", [*SEARCHED, write(plugins, POWER.replace("NAME", "power"))])
    factory = ConfigurationFactory(study, RESOLVED, "")
    params = parse_trial_params(study, {"variant": "T-LS", "epsilon": "0.2", "schedule": "power", "power": "3"}).params
    configuration = factory.make_configuration("T-LS", params, [1], "search")
    trial = factory.make_request(configuration, configuration.runs[0], "train").trial
    sent = json.loads(trial.model_dump_json())
    assert TrialSpec.model_validate_json(json.dumps(sent)) == trial
    assert not find_changed_plugins(configuration.runs[0].plugins)
    sent["specification"]["plugins"] = ["mine 0123456789abcdef"]
    with pytest.raises(MachineError, match="this node has other code of the plug-in mine, which the run uses"):
        TrialSpec.model_validate_json(json.dumps(sent))
    sent["plugins"] = ["gone"]
    with pytest.raises(MachineError, match=r"on this node: plugins: gone \(ModuleNotFoundError"):
        TrialSpec.model_validate_json(json.dumps(sent))


def test_the_setting_of_a_schedule_is_searched_trained_and_planned(plugins: Path) -> None:
    own = write(plugins, POWER.replace("NAME", "power"))
    study = load_study("quick", [SEARCHED[0], 'search.schedule=["power"]', SEARCHED[2], own])
    points = [point.values for point in make_system_space(study, "T-LS").list_configurations()]
    assert {point["power"] for point in points} == {1.0, 3.0}
    assert all(point["schedule"] == "power" and "switch" not in point for point in points)
    smoothing = study.study_type.make_smoothing("T-LS", {"epsilon": 0.4, "schedule": "power", "power": 3.0})
    assert smoothing.model_dump(mode="json") == {
        "distribution": "uniform", "schedule": "power", "epsilon": 0.4, "power": 3.0, "loss": "cross_entropy",
        **dict.fromkeys(("switch", "end", "rate", "a", "b", "teacher", "temperature")),
    }  # fmt: skip
    assert smoothing.compute_strength(50, 100) == pytest.approx(0.4 * 0.5**3)
    assert "power" not in smoothing.to_constant().model_dump()
    plan = build_plan(study, "digest")
    assert "power" in plan["hyperparameters"]
    assert plan["settings"]["search"]["schedule_settings"]["power"] == [1.0, 3.0]
    assert load_study("quick", [own, 'search.schedule=["again"]', "search.compare=power"]).search.compare
    for override, told in {
        "search.schedule_settings.power=[0]": "expected for power numbers greater than 0",
        "search.compare=power": "expected a hyperparameter of every schedule in search.schedule; two_stage does not",
        "search.schedule_settings.powr=[1]": "did you mean search.schedule_settings.power?",
    }.items():
        assert told in get_message(*SEARCHED[:2], own, override)
    with pytest.raises(UserError, match="--sweep power: '9'; expected less than or equal to 5"):
        parse_trial_params(study, {"variant": "T-LS", "epsilon": "0.2", "power": "9"})
    options = [option for section in CHOICES for option in section.list_options() if option.key == POWER_KEY]
    assert options == [(POWER_KEY, "2.0", "Power of the schedule power")]


def test_a_smoothing_that_says_nothing_for_a_loss_has_no_variant_with_it(plugins: Path) -> None:
    """`NS` has no scores, so LCE-NS would be LCE by another name."""
    code = register(
        "trainables.smoothing.DISTRIBUTIONS", "negatives", "Distribution('mine:smooth')",
        "from trainables.smoothing import Distribution",
    )  # fmt: skip
    code += register("trainables.smoothing.schedules.VARIANTS", "NS", "Variant('negatives', 'constant')", VARIANT)
    own = write(plugins, code + "def smooth(labels, weak_labels):\n    return labels / 2 + 0.5\n")
    assert load_study("quick", [own, 'variants=["BERT", "NS", "BCE", "BCE-NS"]']).variants[-1] == "BCE-NS"
    assert "expected none with NS of the loss LCE, which" in get_message(own, 'variants=["LCE", "LCE-NS"]')


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("'uniform', 'linear', 0", "n_configurations = 0; expected a whole number from 1 on"),
        ("'uniform', 'linear', compared_with=('LX',)", "compared_with 'LX'; expected other variants out of BE"),
        ("'uniform', None", "the schedule None; expected one of constant, two_stage, linear"),
        ("'triangular', 'linear'", "the distribution 'triangular'; expected one of none, uniform"),
    ],
)
def test_a_variant_with_a_wrong_row_is_one_line(plugins: Path, row: str, told: str) -> None:
    code = register("trainables.smoothing.schedules.VARIANTS", "X-LS", f"Variant({row})", VARIANT)
    assert get_message(write(plugins, code)).startswith(f"trainables.rankers, variant X-LS: {told}")


def test_the_example_registers_a_name_of_every_kind_that_can_be_chosen() -> None:
    with take_back_plugins(EXAMPLE):
        before = {id(registry): len(registry.entries) for registry in REGISTRIES}
        study = load_study(
            "quick",
            [
                'plugins=["own_package", "own_package.logistic"]', "task.name=faq", "task.path=none",
                "task.sampler.name=jaccard", 'search.schedule=["powered"]', f"{POWER_KEY}=[1.0, 3.0]",
                "search.compare=power", "analysis.metric=RBP", "training.checkpoint=RBP", "training.evaluations=2",
                "training.sampling=uniform", 'curriculum.variants=["BERT"]', 'curriculum.pacing=["square"]',
            ],
        )  # fmt: skip
        systems = ("T-LS-1", "T-LS-3", "CL")
        points = [point.values for name in systems for point in make_system_space(study, name).list_configurations()]
        assert {point.get("power", 0) for point in points} == {0, 1.0, 3.0}
        assert points[-1]["pacing"] == "square"
        added = sum(len(registry.entries) - before[id(registry)] for registry in REGISTRIES)
        assert added == 7
        faq, points_study = (load_study(str(EXAMPLE / name)) for name in ("faq.toml", "points.toml"))
        assert (faq.variants[-1], points_study.trainable) == ("Hinge-T-LS", "logistic")


def test_a_plugin_is_listed_swept_and_accepted_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from study.run import main\n"
        "status = main(sys.argv[1:])\n"
        "print(sorted({'torch', 'ray', 'transformers', 'wandb', 'optuna'} & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = run_with(EXAMPLE, tmp_path, "-c", code, str(EXAMPLE / "faq.toml"), "--list")
    assert (done.returncode, done.stderr) == (0, "[]\n")
    listed = done.stdout.splitlines()
    for name, module in {"faq": "faq", "powered": "schedules", "hinge": "losses", "RBP": "metrics"}.items():
        place = next(number for number, line in enumerate(listed) if line.startswith(f"  {name} "))
        assert listed[place + 2].split() == ["plug-in:", f"own_package.{module}"]
    assert any(line.startswith(f"    {POWER_KEY} = 2.0: Power of the schedule powered") for line in listed)
    arguments = (str(EXAMPLE / "faq.toml"), "--export-sweep", str(tmp_path / "sweeps"))
    done = run_with(EXAMPLE, tmp_path, "-m", "study.run", *arguments)
    assert done.returncode == 0, done.stderr
    assert "power:\n    values: [1.0, 3.0]" in (tmp_path / "sweeps" / "t-ls.yaml").read_text("utf-8")
