"""Checks that the page of files names every file that a study leaves, and every column and key of its results."""

import json
import re
from pathlib import Path

import pandas as pd

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
STUDY, CACHE = ("Study folder", "Report", "Weights & Biases"), ("Cache",)
"""Sections with paths below the folder of a study and below the cache."""


def section(title: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    level = re.search(rf"^(#+) {re.escape(title)}$", PAGE, re.MULTILINE)
    assert level, title
    return re.split(rf"^#{{1,{len(level[1])}}} ", PAGE[level.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str) -> list[str]:
    """Code in the first cells of the tables."""
    return [name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)]


def as_pattern(path: str) -> re.Pattern[str]:
    """Turns a path of the page into a pattern of the files that it stands for."""
    parts = (
        ".+" if part == "..." else "[^/]+" if part.startswith("<") else re.escape(part)
        for part in re.split(r"(<[^>]+>|\.\.\.$)", path)
    )
    return re.compile("".join(parts))


def unnamed(folder: Path, sections: tuple[str, ...]) -> list[str]:
    """The files below a folder that the sections do not name."""
    patterns = [as_pattern(path) for title in sections for path in first_cells(section(title))]
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()]
    assert files
    return [name for name in files if not any(pattern.fullmatch(name) for pattern in patterns)]


def is_named(name: str, names: list[str]) -> bool:
    return any(as_pattern(known).fullmatch(name) for known in names)


def check_files(place: Path) -> None:
    assert unnamed(place / "study", STUDY) == []
    assert unnamed(place / "cache", CACHE) == []


def check_records(study: Path) -> None:
    for name, title in (
        ("runs/*/scores.parquet", "scores.parquet"),
        ("runs/*/test_scores.parquet", "scores.parquet"),
        ("queries.parquet", "queries.parquet"),
    ):
        known = first_cells(section(title))
        for path in study.glob(name):
            assert [column for column in pd.read_parquet(path) if not is_named(column, known)] == []
    record = first_cells(section("record.json"))
    for path in (*study.glob("runs/*/record.json"), *study.glob("runs/*/test.json")):
        content = json.loads(path.read_text())
        summary = [key.replace("test/", "dev/", 1) for key in content["summary"] if key != "test/seconds"]
        for key in (*content, *content["config"], *summary):
            assert is_named(key, record), key
    for path in study.glob("runs/*/history.json"):
        rows = json.loads(path.read_text())
        assert {key for row in rows for key in row if not is_named(key, first_cells(section("history.json")))} == set()
    plan = json.loads((study / "plan.json").read_text())
    assert all(f"`{key}`" in section("plan.json") for key in plan)
    statistics = json.loads((study / "data.json").read_text())
    assert [key for key in statistics if key not in first_cells(section("data.json"))] == []
    assert all(f"`{key}`" in section("data.json") for row in statistics["rows"] for key in row)
    named = first_cells(section("plan.json"))
    assert [key for key in (*plan["plan"], *plan["plan"]["data"]) if key not in named] == []


def check_searches_and_report(study: Path) -> None:
    search = first_cells(section("search.json"))
    for system in json.loads((study / "search.json").read_text())["systems"].values():
        assert [key for key in (*system, *system["proposals"][0]) if key not in search] == []
    comparisons = json.loads((study / "report" / "comparisons.json").read_text())
    assert [key for key in comparisons[0] if key not in first_cells(section("comparisons.json"))] == []
    for name in ("results.csv", "strata.csv"):
        columns = pd.read_csv(study / "report" / name, nrows=1).columns
        assert [column for column in columns if f"`{column}`" not in section("CSV files")] == []
    findings = json.loads((study / "report" / "findings.json").read_text())
    quantities = re.compile(r"(comparison/.*)/(low|high|p|p_corrected|verdict)$")
    known = first_cells(section("findings.json"))
    assert [key for key in findings if not is_named(quantities.sub(r"\1/difference", key), known)] == []
