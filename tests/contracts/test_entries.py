"""The contract of every registry: its entries describe themselves, and the list and the page are made from them."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces.search_settings import SearchSettings
from study.config.loader import load_study
from study.config.sources import list_shipped
from study.workflows.choices import CHOICES, Choice, format_page, print_choices, read_field_docs
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.data.tasks import get_task
from trainables.metrics import get_measure
from trainables.models.architectures import get_architecture
from trainables.specs.ranker import LabelSmoothing
from trainables.specs.ranking_task import SamplerSettings
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "choices.md"
LONGEST = 100
CHOOSE: dict[str, Callable[[str], Any]] = {
    "types of encoders": get_architecture,
    "tasks": get_task,
    "negative samplers": lambda name: SamplerSettings(name=name),
    "losses of rankers": lambda name: LabelSmoothing(loss=name),
    "smoothing distributions": lambda name: LabelSmoothing(distribution=name),
    "schedules of the smoothing": lambda name: LabelSmoothing(schedule=name),
    "pacing functions": lambda name: CurriculumSettings(pacing=name),
    "difficulty scores": lambda name: CurriculumSettings(score=name),
    "samplers of the search": lambda name: SearchSettings(sampler=name),
    "metrics": get_measure,
}
"""Title of a section -> what takes a name of its registry."""
ENTRIES = [
    pytest.param(section, entry, id=f"{section.title}: {entry.name}")
    for section in CHOICES
    for entry in section.registry.entries
]
every_section = pytest.mark.parametrize("section", CHOICES, ids=lambda section: section.title)


@pytest.fixture(scope="module")
def listed() -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_choices()
    return printed.getvalue().splitlines()


@pytest.fixture(scope="module")
def page() -> str:
    return format_page()


@pytest.mark.parametrize(("section", "entry"), ENTRIES)
def test_an_entry_describes_itself_in_one_line(section: Choice, entry: Entry) -> None:
    for text in (entry.line, entry.source):
        assert text == " ".join(text.split())
        assert 0 < len(text) <= LONGEST
        assert not text.endswith(".")
        assert "|" not in text  # it is a cell of a table
    assert entry.load_target() is not None


def test_suites_are_listed_apart_from_studies(listed: list[str]) -> None:
    start = listed.index("suites, several studies that run as one: the first argument")
    studies, suites = listed[:start], listed[start : listed.index("", start + 1)]
    assert any(line.startswith("  quick ") for line in studies)
    assert list_shipped(suites=True).keys() == {line.split()[0] for line in suites[1:]}
    assert not list_shipped(suites=True).keys() & {line.split()[0] for line in studies if line}


@every_section
def test_every_listed_name_can_be_chosen(section: Choice) -> None:
    assert len({entry.name for entry in section.registry.entries}) == len(section.registry.entries)
    for name in section.registry:
        CHOOSE[section.title](name)
        assert section.registry[name] is not None


@every_section
@pytest.mark.parametrize("name", ["", "unknown"])
def test_another_name_is_an_error_with_those_of_the_registry(section: Choice, name: str) -> None:
    with pytest.raises(Exception, match=r"one of|expected") as refused:
        CHOOSE[section.title](name)
    for entry in section.registry.entries:
        assert entry.name in str(refused.value)


def is_known(key: str, value: str) -> bool:
    """Returns True if the quick study has this key; the value may be wrong for it."""
    try:
        load_study("quick", [f"{key}={value}"])
    except UserError as error:
        return "a known key" not in str(error)
    return True


@every_section
def test_options_are_keys_of_a_study_that_take_their_defaults(section: Choice) -> None:
    for key in section.keys:
        assert is_known(key, "x")
    owners = dict.fromkeys(section.registry.options, section.settings)
    for entry in section.registry.entries:
        owners |= dict.fromkeys(entry.options, section.settings)
        if entry.settings:
            owners |= dict.fromkeys(entry.settings.model_fields, entry.settings)
    fields = {f"{section.table}.{name}": name for name in owners}
    assert {option.key for option in section.list_options()} == fields.keys()
    for option in section.list_options():
        assert is_known(option.key, option.default)
        assert option.meaning
        name = fields[option.key]
        default = owners[name].model_fields[name].default
        assert getattr(owners[name].model_validate({name: default}), name) == default


def test_a_docstring_belongs_to_the_field_above_it() -> None:
    assert read_field_docs(SamplerSettings)["encoder"].startswith("Sentence encoder of the method dense")
    assert read_field_docs(SamplerSettings).keys() == SamplerSettings.model_fields.keys()


@pytest.mark.parametrize(("section", "entry"), ENTRIES)
def test_the_list_and_the_page_have_every_entry(section: Choice, entry: Entry, listed: list[str], page: str) -> None:
    below = listed[listed.index(f"{section.title}: {', '.join(section.keys)}") :]
    place = below.index(f"  {entry.name:21} {entry.line}")
    assert below[place + 1].split() == ["source:", *entry.source.split()]
    if entry.options:
        assert below[place + 2].split() == f"options: {section.format_keys(entry.options)}".split()
    rows = [line for line in page.splitlines() if line.startswith(f"| `{entry.name}` | {entry.line} |")]
    assert any(row.endswith(f"| {entry.source} |") for row in rows)


@every_section
def test_the_list_has_every_option_with_its_default_and_the_page_links_it_or_has_it(
    section: Choice, listed: list[str], page: str
) -> None:
    text = " ".join(" ".join(listed).split())
    for option in section.list_options():
        assert f"{option.key} = {option.default}: {option.meaning}" in text
        link = f"[`{option.key}`](configuration.md#{option.key})"
        row = f"| `{option.key}` | `{option.default}` | {option.meaning} |"
        assert (link if section.is_study_key(option.key) else row) in page


def test_the_page_is_up_to_date(page: str) -> None:
    assert PAGE.read_text(encoding="utf-8") == page + "\n"
