"""A package of one's own adds to every registry by entry points; a wrong one is one line that names it."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from study.config.loader import load_study
from study.plan.analysis_plan import build_plan
from study.scheduling.trials import ConfigurationFactory
from tests.packages import install_example, run_with, write_package
from tests.study.driving import RESOLVED
from trainables.specs.samplers import SAMPLERS
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import MachineError
from trainables.utils.hashing import hash_json

ENTRY = "from trainables.utils.registry import Entry\n"
POWER = """
from typing import Annotated
from pydantic import Field
def power(epsilon: float, seen: int, total: int, {name}: Annotated[float, Field(gt=0, description="Power.")] = 2.0):
    return epsilon * (1 - seen / total) ** {name}
"""
THREE_CALLS = """
import contextlib, io, json, sys
from study.run import main
found = []
for arguments in (["--help"], ["--list"], ["quick", "--dry-run"]):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
    found.append([status, errors.getvalue()])
heavy = sorted({"torch", "ray", "transformers", "wandb", "optuna"} & set(sys.modules))
print(json.dumps([found, heavy]))
"""
IDS = """
import json
from study.config.loader import load_study
from study.plan.analysis_plan import build_plan
from study.scheduling.trials import ConfigurationFactory
from search_spaces.space import Params
from tests.study.driving import RESOLVED
from trainables.utils.hashing import hash_json
study = load_study("quick", ["training.precision=fp32", *OVERRIDES])
factory = ConfigurationFactory(study, RESOLVED, "")
def made(name, **values):
    run = factory.make_configuration(name, Params(tuple(values.items())), [1], "search").runs[0]
    return [run.id, list(run.packages)]
print(json.dumps({
    "BERT": made("BERT"), "LS": made("LS", epsilon=0.2),
    "two_stage": made("T-LS", epsilon=0.2, schedule="two_stage", switch=0.5),
    "power": made("T-LS", epsilon=0.2, schedule="power", power=2.0) if OVERRIDES else None,
    "plan": hash_json(build_plan(load_study("quick"), "digest")),
}))
"""


def entry(name: str, target: str, **own: Any) -> str:
    """The code of a module with an entry."""
    options = "".join(f", {key}={value!r}" for key, value in own.items())
    return f"{ENTRY}MADE = Entry({name!r}, {target}, 'a line', 'a source'{options})\n"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the example is installed."""
    return install_example(tmp_path_factory.mktemp("example"))


WRONG = {
    "not there": ({"tasks": {"x": "broken:MADE"}}, "import no_such_module\n", "broken:MADE (ModuleNotFoundError: "),
    "no attribute": ({"metrics": {"x": "broken:OTHER"}}, entry("x", "abs"), "broken:OTHER (AttributeError: module"),
    "no entry": ({"distributions": {"x": "broken:MADE"}}, "MADE = 3\n", "3; expected an Entry of trainables.utils.reg"),
    "name is taken": (
        {"negative_samplers": {"x": "broken:MADE"}}, entry("bm25", "abs"), "the name bm25, which this project has;"
    ),
    "name with a parameter is taken": (
        {"tasks": {"x": "broken:MADE"}}, entry("irds:mine", "abs"), "the name irds:mine, which this project has; expe"
    ),
    "name of a metric is taken": ({"metrics": {"x": "broken:MADE"}}, entry("R5@1", "abs"), "the name R5@1, which "),
    "taken by another of the package": (
        {"pacing": {"x": "broken:MADE", "y": "broken:MADE"}}, entry("square", "abs"), "the name square, which packag"
    ),
    "unknown group": ({"schedule": {"x": "broken:MADE"}}, "", "an unknown group; expected one of ranker_studies."),
    "no range": (
        {"schedules": {"x": "broken:MADE"}},
        "def power(epsilon, seen, total, power=2.0): return epsilon\n" + entry("power", "power"),
        "no range for the setting power; expected Annotated[float",
    ),
    "schedule that is not there": (
        {"schedules": {"x": "broken:MADE"}}, entry("power", "'broken:power'"), "broken:power (module broken has no powe"
    ),
    "task that is not there": (
        {"tasks": {"x": "broken:MADE"}}, entry("mine", "'broken:TASK'"), "broken:TASK (module broken has no TASK); expe"
    ),
    "target in a module that is not loaded": (
        {"tasks": {"x": "broken:MADE"}}, entry("mine", "'colorsys:TASK'"), "colorsys:TASK (module colorsys has no TASK)"
    ),
    "module of a target is not there": (
        {"negative_samplers": {"x": "broken:MADE"}}, entry("mine", "'no_such:f'"), "no_such:f (no module no_such); exp"
    ),
    "label is taken": (
        {"losses": {"x": "broken:MADE"}},
        "from trainables.losses import Loss\n" + entry("mine", "Loss('LCE', 'broken:f', 'margin')"),
        "the label 'LCE', with which names of other systems begin; expected another label",
    ),
    **{
        f"label {label}": (
            {"losses": {"x": "broken:MADE"}},
            f"from trainables.losses import Loss\n{entry('mine', f'Loss({label!r}, {function!r}, {form!r})')}",
            told,
        )
        for label, function, form, told in (
            ("T", "broken:f", "margin", "the label 'T', with which names of other systems begin; expected another"),
            ("CL", "broken:f", "margin", "the label 'CL', with which names of other systems begin; expected another"),
            ("A-B", "broken:f", "margin", "the label 'A-B'; expected letters and digits alone"),
            ("Form", "broken:f", "triplet", "the form 'triplet'; expected one of pointwise, "),
            ("Gone", "no_such:f", "margin", "no_such:f (no module no_such); expected one that can be imported"),
        )
    },
    "outputs of a loss of queries": (
        {"losses": {"x": "broken:MADE"}},
        "from trainables.losses import Loss\n" + entry("mine", "Loss('Two', 'broken:f', 'listwise', outputs=2)"),
        "2 outputs; expected 1, or for the form pointwise 1 or 2",
    ),
    "no distribution": (
        {"distributions": {"x": "broken:MADE"}}, entry("x", "abs"), "<built-in function abs>; expected a Dis"
    ),
    "no variant": (
        {"variants": {"x": "broken:MADE"}}, entry("x", "abs"), "<built-in function abs>; expected a Var"
    ),
    "no measure": (
        {"metrics": {"x": "broken:MADE"}}, entry("x", "abs"), "<built-in function abs>; expected a Mea"
    ),
    "pattern without examples": (
        {"metrics": {"x": "broken:MADE"}}, entry("S@<k>", "abs", pattern=r"S@(\d+)"), "a pattern without exa"
    ),
    "no loss": ({"losses": {"x": "broken:MADE"}}, entry("mine", "abs"), "<built-in function abs>; expected a Loss of "),
    "trainable is taken": ({"trainables": {"cross-encoder": "broken"}}, "", "the name cross-encoder, which "),
    "trainable is not there": ({"trainables": {"mine": "no_such_module"}}, "", "no_such_module:STUDY_TYPE (Mod"),
    "trainable is none": ({"trainables": {"mine": "broken"}}, "STUDY_TYPE = 3\n", "3; expected a StudyType"),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "code", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_entry_point_is_one_line_that_names_its_package(
    tmp_path: Path, groups: dict[str, dict[str, str]], code: str, told: str
) -> None:
    write_package(tmp_path, "broken", groups, code)
    done = run_with(tmp_path, tmp_path, "-c", THREE_CALLS)
    assert done.returncode == 0, done.stderr
    (helped, *refused), heavy = json.loads(done.stdout)
    assert helped == [0, ""]
    for status, message in refused:
        assert status == 2
        ((group, points),) = groups.items()
        place = f"study.run: package broken 1.0, entry point {[*points][-1]} of ranker_studies.{group}: {told}"
        assert message.startswith(place)
        assert message.count("\n") == 1
    assert not heavy


NEGATIVES = """
from trainables.smoothing import Distribution
from trainables.smoothing.schedules import Variant
from trainables.utils.registry import Entry

def smooth(labels, weak_labels):
    return labels + (1 - labels) / 2

MIX = Entry("negatives", Distribution("mixing:smooth"), "a line", "a source")
NS = Entry("NS", Variant("negatives", "constant"), "a line", "a source")
"""


def test_a_package_adds_a_distribution_and_the_variant_that_names_it(tmp_path: Path) -> None:
    groups = {"distributions": {"mix": "mixing:MIX"}, "variants": {"ns": "mixing:NS"}}
    write_package(tmp_path, "mixing", groups, NEGATIVES)
    study = ("-m", "study.run", "quick", 'variants=["BERT", "NS", "BCE", "BCE-NS"]', "--dry-run", "--json")
    planned = run_with(tmp_path, tmp_path, *study)
    assert planned.returncode == 0, planned.stderr
    assert {"NS", "BCE-NS"} <= {*re.findall(r"[A-Z-]+", planned.stdout)}
    code = (
        "from trainables.losses.objective import Objective, Supervision; import numpy as np, torch\n"
        "given = Supervision(*(np.array([[0.0, 1.0]]) for _ in range(3)))\n"
        "print(Objective('binary_cross_entropy', 'negatives').compute_sum(torch.ones(1, 2, 1), given, 0.4).item())"
    )
    assert float(run_with(tmp_path, tmp_path, "-c", code).stdout) == pytest.approx(2 * math.log1p(math.e) - 1.2)


def test_packages_follow_the_project_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ("delta", "alpha", "echo", "charlie", "bravo")
    for name in names:
        write_package(tmp_path, name, {"negative_samplers": {"x": f"{name}:MADE"}}, entry(name, "abs"))
    code = "from trainables.specs.samplers import SAMPLERS; print(*SAMPLERS)"
    listed = run_with(tmp_path, tmp_path, "-c", code).stdout.split()
    assert listed == [*SAMPLERS, *sorted(names)]


def test_a_setting_with_the_name_of_a_key_is_one_line(tmp_path: Path) -> None:
    code = POWER.format(name="epsilon_") + entry("power", "power")
    write_package(tmp_path / "free", "mine", {"schedules": {"x": "mine:MADE"}}, code)
    assert run_with(tmp_path / "free", tmp_path, "-m", "study.run", "--dry-run").returncode == 0
    code = POWER.format(name="negatives") + entry("power", "power")
    write_package(tmp_path / "taken", "mine", {"schedules": {"x": "mine:MADE"}}, code)
    refused = run_with(tmp_path / "taken", tmp_path, "-m", "study.run", "--dry-run")
    assert refused.returncode == 2
    assert refused.stderr == (
        "study.run: the schedule power, setting negatives: the name of another setting of trainables.rankers; "
        "expected a free name\n"
    )


def ids(packages: Path, place: Path, overrides: list[str]) -> dict[str, Any]:
    done = run_with(packages, place, "-c", IDS.replace("OVERRIDES", repr(overrides)))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_only_runs_that_use_a_package_depend_on_its_version(tmp_path: Path) -> None:
    power, groups = POWER.format(name="power") + entry("power", "power"), {"schedules": {"x": "mine:MADE"}}
    overrides = ['search.schedule=["two_stage", "power"]']
    without = ids(tmp_path, tmp_path, [])
    first, second = (
        ids(write_package(tmp_path / version, "mine", groups, power, version), tmp_path, overrides)
        for version in ("1.0", "1.1")
    )
    for name in ("BERT", "LS", "two_stage", "plan"):
        assert without[name] == first[name] == second[name]
    assert first["BERT"][1] == []
    assert first["power"][0] != second["power"][0]
    assert (first["power"][1], second["power"][1]) == (["mine 1.0"], ["mine 1.1"])


def test_data_and_difficulties_of_a_package_depend_on_its_version_and_no_others_do(tmp_path: Path) -> None:
    """The data of the task; the file of a difficulty score of the package, and of one of the project."""
    code = (
        "import json, sys; from pathlib import Path\n"
        "from trainables.data.ranking_preparation import _build_identity\n"
        "from trainables.difficulty.cache import get_score_path\n"
        "from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings\n"
        "from trainables.utils.hashing import hash_json\n"
        "def identify(**own): return hash_json(_build_identity(RankerTaskSettings(**own)))\n"
        "print(json.dumps([identify(name='mine'), identify(sampler=SamplerSettings(name='mine')),\n"
        "str(get_score_path(Path(), 'mine', None, 'train')),\n"
        "identify(), str(get_score_path(Path(), 'turns', None, 'train'))]))"
    )
    groups = {name: {"x": "mine:MADE"} for name in ("tasks", "negative_samplers", "difficulty_scores")}
    score = "from trainables.curriculum.scores import DifficultyScore\n"
    first, second = (
        json.loads(
            run_with(
                write_package(
                    tmp_path / version,
                    "mine",
                    groups,
                    score + entry("mine", "DifficultyScore('text', 'mine:f')"),
                    version,
                ),
                tmp_path,
                "-c",
                code,
            ).stdout
        )
        for version in ("1.0", "1.1")
    )
    assert [before == after for before, after in zip(first, second, strict=True)] == [False, False, False, True, True]


def test_without_packages_ids_and_plans_are_those_of_this_process(tmp_path: Path) -> None:
    study = load_study("quick", ["training.precision=fp32"])
    factory = ConfigurationFactory(study, RESOLVED, "")
    found = ids(tmp_path, tmp_path, [])
    assert found["BERT"][0] == factory.scorer.runs[0].model_copy(update={"seed": 1}).id
    assert found["plan"] == hash_json(build_plan(load_study("quick"), "digest"))


def test_a_node_without_the_package_says_so() -> None:
    factory = ConfigurationFactory(load_study("quick"), RESOLVED, "")
    configuration = factory.make_reference_systems()[0]
    run = configuration.runs[0].model_copy(update={"packages": ("elsewhere 1.0",)})
    request = factory.make_request(configuration, run, "train")
    with pytest.raises(MachineError, match=r"the package elsewhere 1\.0, which the run uses, is not installed on this"):
        TrialSpec.model_validate_json(request.trial.model_dump_json())


def test_the_example_is_listed_and_accepted_without_loading_torch(example: Path, tmp_path: Path) -> None:
    done = run_with(example, tmp_path, "-c", THREE_CALLS)
    found, heavy = json.loads(done.stdout)
    assert (found, heavy) == ([[0, ""]] * 3, [])
    listed = run_with(example, tmp_path, "-m", "study.run", "--list").stdout.splitlines()
    for name in ("faq", "jaccard", "powered", "hinge", "square", "RBP"):
        place = next(number for number, line in enumerate(listed) if line.startswith(f"  {name} "))
        assert listed[place + 2].split() == ["package:", "own-package", "0.1.0"]
    assert "trainable logistic: variants" in listed
    assert "    search.power = [2.0]: Powers of the schedule powered" in listed


def test_every_name_of_the_example_can_be_chosen_and_searched(example: Path, tmp_path: Path) -> None:
    code = (
        "import json; from study.config.loader import load_study\n"
        "from study.config.spaces import make_system_space; from search_spaces.space import enumerate_space\n"
        "study = load_study('quick', ['task.name=faq', 'task.path=none', 'task.sampler.name=jaccard',\n"
        "'search.schedule=[\"powered\"]', 'search.power=[1.0, 3.0]', 'search.compare=power',\n"
        "'analysis.metric=RBP', 'training.checkpoint=RBP', 'training.evaluations=2', 'training.sampling=uniform',\n"
        "'curriculum.variants=[\"BERT\"]', 'curriculum.pacing=[\"square\"]'])\n"
        "systems = ('T-LS-1', 'T-LS-3', 'CL')\n"
        "points = [point.values for name in systems for point in enumerate_space(make_system_space(study, name))]\n"
        "print(json.dumps([sorted({point.get('power', 0) for point in points}), points[-1]['pacing']]))"
    )
    done = run_with(example, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[0, 1.0, 3.0], "square"]


def test_a_sweep_of_the_example_has_the_setting(example: Path, tmp_path: Path) -> None:
    arguments = ("quick", 'search.schedule=["powered"]', "search.power=[1.0, 3.0]", "--export-sweep")
    done = run_with(example, tmp_path, "-m", "study.run", *arguments, str(tmp_path / "sweeps"))
    assert done.returncode == 0, done.stderr
    assert "power:\n    values: [1.0, 3.0]" in (tmp_path / "sweeps" / "t-ls.yaml").read_text("utf-8")


def test_a_smoothing_that_says_nothing_for_a_loss_has_no_variant_with_it(tmp_path: Path) -> None:
    """`NS` has no scores, so LCE-NS would be LCE by another name."""
    code = """
from trainables.smoothing import Distribution
from trainables.smoothing.schedules import Variant
from trainables.utils.registry import Entry

NEGATIVES = Entry("negatives", Distribution("smoothing_pack:smooth"), "the negatives alone", "an example")
NS = Entry("NS", Variant("negatives", "constant"), "smooths the negatives alone", "an example")


def smooth(labels, weak_labels):
    return labels / 2 + 0.5
"""
    groups = {"distributions": {"negatives": "smoothing_pack:NEGATIVES"}, "variants": {"NS": "smoothing_pack:NS"}}
    packages = write_package(tmp_path / "packages", "smoothing_pack", groups, code)
    load = """
from study.config.loader import load_study
from trainables.utils.errors import UserError

for settings in (['variants=["BERT", "NS", "BCE", "BCE-NS"]'], ['variants=["LCE", "LCE-NS"]'],
                 ['variants=["BERT", "NS"]', 'search.loss=["cross_entropy", "lce"]', "search.compare=loss"]):
    try:
        print(load_study("quick", settings).variants)
    except UserError as error:
        print(error)
"""
    found = run_with(packages, tmp_path, "-c", load)
    allowed, unknown, refused = found.stdout.splitlines()
    assert allowed == "('BERT', 'NS', 'BCE', 'BCE-NS')"
    assert unknown.startswith("command line: variants: ['LCE', 'LCE-NS']; expected none with NS of the loss LCE, which")
    assert refused.endswith("expected losses that all variants can have; lce has no NS")
