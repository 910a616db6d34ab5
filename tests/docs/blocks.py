"""Reads the code blocks of a page, each with the comment above it that says how it is checked."""

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CHECKED = ("sh", "toml", "python")
SCRIPTS = {"ranker-study": "study.run", "compare-runs": "analysis.compare"}
"""Module that each console script runs."""
_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)")
_MARK = re.compile(r"<!-- (?P<mark>[a-z -]+?)(?:: (?P<detail>.+))? -->")


class Block(NamedTuple):
    """A code block and the comment in the line above it."""

    page: Path
    line: int
    language: str
    mark: str
    detail: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[list[str]]:
        """The words of each command, without comments; a line that ends in a backslash goes on in the next.

        A console script is the module that it runs.
        """
        lines = self.text.replace("\\\n", " ").splitlines()
        commands = [words for line in lines if (words := shlex.split(line, comments=True))]
        return [
            ["python", "-m", SCRIPTS[first], *rest] if first in SCRIPTS else [first, *rest] for first, *rest in commands
        ]


def find_previews(blocks: list[Block]) -> dict[Block, str]:
    """Blocks that preview a study or a suite, prepare its data or compare scores, each with the output shown below it.

    The output of a study begins with the study, the suite or the task.
    """
    return {
        block: below.text
        for block, below in pairwise(blocks)
        if block.language == "sh" and below.language == "text"
        if ("study.run" in block.text and below.text.startswith(("study ", "suite ", "task ", "reading task ")))
        or (block.mark == "run" and any("analysis.compare" in words for words in block.commands()))
        if below.line == block.line + block.text.count("\n") + 4  # nothing but a blank line is between them
    }


def is_printed(shown: str, output: str) -> bool:
    """True if a program prints the lines that a page shows; "..." in them stands for anything."""
    pattern = ".*".join(map(re.escape, shown.split("...")))
    return re.search(f"^{pattern}$", output, re.DOTALL | re.MULTILINE) is not None


def read_blocks(page: Path) -> list[Block]:
    """Every code block of a page."""
    lines, blocks, number = page.read_text(encoding="utf-8").splitlines(), list[Block](), 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        above = _MARK.fullmatch(lines[number - 2].strip()) if number > 1 else None
        mark, detail = (above["mark"], above["detail"] or "") if above else ("", "")
        start, indent = number, len(opening["indent"])
        while lines[number].strip() != opening["ticks"]:
            number += 1
        text = "\n".join(line[indent:] for line in lines[start:number])
        blocks.append(Block(page, start, opening["language"], mark, detail, text))
        number += 1
    return blocks
