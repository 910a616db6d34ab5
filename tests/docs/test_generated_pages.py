"""The generated pages are up to date, have every key, and say of each what it does to the ids of runs."""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from analysis.figures.style import render_svg
from benchmarks.recorded import read_entries
from docs.scripts import commands, configuration, pacing, speed
from search_spaces.study_type import STUDY_TYPES, get_study_type
from study.config.loader import _iter_known_keys, load_study
from study.config.study_class import get_study_class
from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ConfigurationFactory, ResolvedInputs
from tests.docs.blocks import ROOT
from tests.study.command import merged
from tests.study.driving import RESOLVED, drive
from trainables.curriculum import PACING

REFERENCE, IMAGES = ROOT / "docs" / "reference", ROOT / "docs" / "images"
PAGE = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
BASE = ("seeds=[1, 2]", 'variants=["BERT", "LS", "T-LS"]', "training.precision=fp32")
KEYS = tomllib.loads(Path(__file__).with_name("keys.toml").read_text(encoding="utf-8"))


@cache
def rows() -> dict[str, dict[str, list[str]]]:
    """Reads the page: trainable -> key -> cells."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in STUDY_TYPES}
    owners: Sequence[str] = ()
    for line in PAGE.splitlines():
        if line.startswith("#"):
            owners = [name for name in STUDY_TYPES if f"`{name}`" in line] or list(STUDY_TYPES)
        elif line.startswith("Only a study with"):
            owners = [name for name in STUDY_TYPES if f'"{name}"' in line]
        elif match := re.match(r"\| `([\w.-]+)`\{#\1\}", line):
            for name in owners:
                assert match[1] not in found[name]
                found[name][match[1]] = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    return found


def known_keys(trainable: str) -> set[str]:
    """Every key that a study of the trainable reads, without tables and variants."""
    known = _iter_known_keys(get_study_class(trainable))
    named = ("search.n_configurations.", "search.schedule_settings.")  # tables with entries that a user names
    fields = [field for field in known if not field.startswith(named)]
    tables = {field.rpartition(".")[0] for field in fields}
    unused = "" if get_study_type(trainable).has_curricula else "curriculum."
    return {field for field in fields if field not in tables and not (unused and field.startswith(unused))}


def answer(key: str) -> str:
    """Returns what the page says about the id of a cross-encoder's run."""
    return rows()["cross-encoder"][key][-1]


def runs(folder: Path, override: str = "", is_driven: bool = False) -> dict[tuple[object, ...], str]:
    """System, hyperparameters and seed of the first runs that a study makes, or of all, and the id of each."""
    study = load_study("quick", merged(*BASE, *([override] if override else [])))
    scheduler = StudyScheduler(study, RESOLVED, RunStore(folder), "plan-hash")
    requests = drive(scheduler) if is_driven else iter(scheduler.pop_request, None)
    started = {request.trial.specification.id for request in requests}
    return {
        (item.name, *item.params.values.items(), run.seed): run.id
        for item in scheduler.configurations
        for run in item.runs
        if run.id in started
    }


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return runs(tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def all_before(tmp_path_factory):
    return runs(tmp_path_factory.mktemp("before"), is_driven=True)


def test_the_page_of_keys_is_up_to_date():
    assert configuration.format_page() + "\n" == PAGE


def test_the_figure_of_pacing_functions_shows_all_of_them_and_is_up_to_date():
    (panel,) = pacing.draw_pacing().axes
    lines = {line.get_label(): line.get_xydata() for line in panel.lines if not line.get_label().startswith("_")}
    assert list(lines) == list(PACING)
    for name, points in lines.items():
        assert points[500].tolist() == pytest.approx([0.5, PACING[name](50, T=90, delta=0.33)])
        assert points[-1].tolist() == [1, 1]
    assert render_svg(pacing.draw_pacing) == (ROOT / "docs" / "images" / "pacing.svg").read_text(encoding="utf-8")


def test_the_figure_of_speed_shows_the_last_record_of_each_processor_and_is_up_to_date():
    panels = speed.draw_speed().axes
    assert [panel.get_title() for panel in panels] == [*read_entries()]
    for panel, records in zip(panels, read_entries().values(), strict=True):
        ratios = records[-1]["ratios"]
        assert [bar.get_width() for bar in panel.patches] == [values["median"] for values in ratios.values()]
        assert {name.partition(",")[0] for name in ratios} == {*speed.CONTENDERS}
    assert render_svg(speed.draw_speed) == (IMAGES / "speed.svg").read_text(encoding="utf-8")


def test_the_page_of_commands_is_up_to_date():
    assert commands.format_page().rstrip() + "\n" == (REFERENCE / "commands.md").read_text(encoding="utf-8")


def test_the_page_of_commands_has_every_option():
    page = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    for module in commands.COMMANDS:
        text = page.partition(f"## {module}\n")[2].partition("\n## ")[0]
        for action in commands.read_parser(module)._actions:
            assert all(name in text for name in action.option_strings if action.dest != "help")
        assert commands.read_statuses(module) == {0: "done", 1: "any other failure", 2: "bad input"}


@pytest.mark.parametrize("trainable", STUDY_TYPES)
def test_the_page_has_every_key_and_no_other(trainable):
    assert rows()[trainable].keys() == known_keys(trainable)


@pytest.mark.parametrize("trainable", STUDY_TYPES)
def test_every_row_is_complete(trainable):
    for key, (name, values, default, meaning, run_id) in rows()[trainable].items():
        assert name.startswith(f"`{key}`")
        assert values
        assert default
        assert len(meaning) > len("Seed.")
        assert run_id in ("yes", "content", "which runs", "no", "-")


@pytest.mark.parametrize(("key", "value"), KEYS["yes"].items())
def test_the_id_of_a_run_depends_on_the_key(key, value, before, tmp_path):
    assert answer(key) == "yes"
    after = runs(tmp_path, f"{key}={value}")
    assert after.keys() == before.keys()
    assert [label for label in after if after[label] == before[label] and label[0] not in ("BM25", "cosine")] == []


@pytest.mark.parametrize(("key", "value"), KEYS["no"].items())
def test_no_run_depends_on_the_key(key, value, before, tmp_path):
    assert answer(key) == "no"
    assert runs(tmp_path, f"{key}={value}") == before


@pytest.mark.parametrize(("key", "value"), KEYS["which runs"].items())
def test_the_key_decides_which_runs_there_are(key, value, all_before, tmp_path):
    assert answer(key) == "which runs"
    before, after = all_before, runs(tmp_path, f"{key}={value}", is_driven=True)
    assert {*after.values()} != {*before.values()}
    assert {*after.values()} & {*before.values()} - {before["BM25", None]}
    assert [label for label in after.keys() & before.keys() if after[label] != before[label]] == []


@pytest.mark.parametrize("part", ["fingerprint", "model_digest"])
def test_content_that_files_have_decides_ids_and_their_place_does_not(part, tmp_path):
    def first_id(resolved: ResolvedInputs, model: str) -> str:
        study = load_study("quick", [*BASE, f"model.name={model}"])
        return ConfigurationFactory(study, resolved, "").scorer.id

    known = first_id(RESOLVED, "bert-base-uncased")
    assert answer("model.name") == answer("task.path") == "content"
    assert first_id(RESOLVED, "roberta-base") == known
    assert first_id(RESOLVED._replace(**{part: "other"}), "bert-base-uncased") != known
