"""A small library written to disk: enough docstrings for a task, without imports."""

from pathlib import Path

from trainables.specs.ranking_task import RankerTaskSettings

SUBJECTS = ["matrix", "graph", "signal", "polynomial", "table", "tensor", "series", "kernel", "random forest", "group"]
VERBS = ["Invert", "Sort", "Sample", "Factor", "Plot", "Merge"]


def write_library(folder: Path, name: str = "tinylib", functions: int = 60) -> Path:
    """Writes package `name` with that many documented functions below `folder` and returns its module file."""
    package = folder / name
    package.mkdir(parents=True)
    lines = ['"""A module."""\n']
    for i in range(functions):
        subject, verb = SUBJECTS[i % len(SUBJECTS)], VERBS[i // len(SUBJECTS) % len(VERBS)]
        lines.append(
            f"def f{i}(x):\n"
            f'    """{verb} the {subject} number {i}.\n\n'
            f"    Takes one {subject} and a tolerance {i}, then returns what {verb.lower()} made of it\n"
            '    in place, see the guide of this package for more.\n    """\n'
            '    raise RuntimeError("must not be executed")\n\n\n'
        )
    (package / "__init__.py").write_text('raise RuntimeError("must not be imported")\n')
    module = package / "core.py"
    module.write_text("".join(lines))
    return module


def tiny_settings(**changes: object) -> RankerTaskSettings:
    """Settings of the task over that library."""
    return RankerTaskSettings.model_validate(
        {"libraries": ("tinylib",), "candidates": 5, "document_words": 12, **changes}
    )
