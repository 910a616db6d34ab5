"""A key of a study file stays only if something that ships sets it, or if it belongs to the machine."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from docs.scripts.study_keys import list_study_keys
from search_spaces.study_type import STUDY_TYPES
from tests.docs.blocks import PAGES, ROOT, read_blocks

MOST = 119
MACHINE = re.compile(
    r"(cache|output|resources|tracking|trial)\..*|search\.(gpu_)?hours|task\.path"
    r"|training\.(threads|tokens_per_micro_batch)"
)
"""Keys of one machine or one run, which no study that ships needs."""
KEYS = {key.name for name in STUDY_TYPES for key in list_study_keys(name)}


def list_leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of a study file; a table in which a user names the entries is one key."""
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key not in KEYS:
            yield from list_leaves(value, f"{key}.")
        else:
            yield key


def list_set_keys(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that a study sets, or a suite for itself, for all its studies and for labels of its axes."""
    rest = {name: value for name, value in content.items() if name not in ("study", "axes")}
    labels = (label for axis in content.get("axes", {}).values() for label in axis.values())
    for table in (rest, content.get("study", {}), *labels):
        yield from list_leaves(table)


def test_every_key_is_set_by_something_that_ships_or_belongs_to_the_machine():
    found = set[str]()
    for folder in ("study/studies", "examples"):
        for path in (ROOT / folder).rglob("*.toml"):
            found |= {*list_set_keys(tomllib.loads(path.read_text(encoding="utf-8")))}
    for block in (block for page in PAGES for block in read_blocks(page)):
        if block.language == "toml":
            found |= {*list_set_keys(tomllib.loads(block.text))}
        elif block.language == "sh":
            found |= {match[1] for match in re.finditer(r"(?<![\w.])([a-z_]+(?:\.[a-z_0-9]+)*)=", block.text)}
    assert sorted(key for key in KEYS - found if not MACHINE.fullmatch(key)) == []


def test_there_are_few_keys():
    assert len(KEYS) <= MOST
