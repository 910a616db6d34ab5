"""The command line: python -m study.run [STUDY] [KEY=VALUE ...].

Only what a command needs is imported: --help, --list and --plan load neither torch nor ray.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from study.config import load, shipped
from trainables.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status: 0 done, 2 bad input, 1 anything else."""
    options = _parser().parse_intermixed_args(argv)
    started = time.monotonic()
    folder: Path | None = None
    try:
        if options.list:
            _list()
            return 0
        name, overrides = _split(options.arguments)
        if options.address:
            overrides.append(f"resources.address={options.address}")
        study = load(name, overrides)
        folder = study.folder
        if options.plan:
            from study.preview import show

            show(study)
        elif options.prepare:
            from study.preparation import summarise

            summarise(study)
        else:
            from study.session import conduct

            conduct(study, started)
        return 0
    except UserError as error:
        print(f"study.run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstudy.run: interrupted; {_how_to_go_on(folder)}", file=sys.stderr)
        return 1
    except Exception as error:
        cause = (str(error).strip().splitlines() or [""])[-1][:200]
        print(f"study.run: {type(error).__name__}: {cause}; {_how_to_go_on(folder)}", file=sys.stderr)
        if folder is not None and folder.is_dir():
            (folder / "error.log").write_text(traceback.format_exc(), encoding="utf-8")
            print(f"study.run: the whole story is in {folder / 'error.log'}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study.run",
        description="Trains rankers with every label-smoothing variant, searches their settings over seeds, tests the "
        "chosen ones and writes a report. Without arguments: the quick study. The same command again resumes.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument("--plan", action="store_true", help="show what would run, and run nothing")
    parser.add_argument("--prepare", action="store_true", help="only prepare the task's data, and say what it is")
    parser.add_argument("--list", action="store_true", help="show the shipped studies, the tasks and the variants")
    parser.add_argument("--address", metavar="ADDRESS", help="a running Ray cluster, e.g. auto")
    return parser


def _split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise UserError("command line", repr(names[1]), f"one study, after {names[0]!r} only KEY=VALUE")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]


def _list() -> None:
    from trainables.data import TASKS
    from trainables.data.samplers import SAMPLERS
    from trainables.smoothing import VARIANTS

    print("studies")
    for name, line in shipped():
        print(f"  {name:20} {line}")
    print("tasks")
    for name in TASKS:
        print(f"  {name}:ID" if name == "irds" else f"  {name}")
    print("negative samplers")
    for name in SAMPLERS:
        print(f"  {name}")
    print("variants")
    for name, variant in VARIANTS.items():
        print(f"  {name:20} distribution {variant.distribution}, schedule {variant.schedule}")


def _how_to_go_on(folder: Path | None) -> str:
    if folder is None:
        return "nothing was started"
    done = len(list(folder.glob("runs/*/scores.parquet")))
    return f"{done} finished runs are safe in {folder}; the same command goes on from there"


if __name__ == "__main__":
    sys.exit(main())
