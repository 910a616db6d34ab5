"""The parts of the benchmark, and the place and time that they have.

The module loads neither torch nor numpy.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.report import Row, not_measured

_LIGHT, _HEAVY = ("numpy", "pydantic", "safetensors", "torch", "transformers"), ("pandas", "pyarrow", "scipy")


@dataclass(frozen=True)
class Place:
    """Place and time of a part.

    Attributes:
        is_real: False for the pretend GPU, on which models are tiny and no speed is measured.
        folder: an empty folder for models and data.
        rounds: measured rounds at most.
        end: time, by `time.monotonic`, after which the part begins nothing more.
    """

    is_real: bool
    folder: Path
    rounds: int
    end: float

    def share(self, count: int) -> float:
        """Return the seconds that each of `count` further measurements has."""
        return max(0.0, self.end - time.monotonic()) / count


class Part(NamedTuple):
    """A part; its module has the function `run(place) -> Iterator[Row]`.

    Attributes:
        text: what it does.
        weight: share of the time that is left which it gets, next to the weights of the parts after it.
        packages: modules that it imports.
    """

    text: str
    weight: int
    packages: tuple[str, ...] = _LIGHT

    def run(self, name: str, place: Place) -> Iterator[Row]:
        """Import the part's module and run it until its end."""
        for row in import_module(f"benchmarks.gpu.{name}").run(place):
            yield row
            if time.monotonic() > place.end:
                yield not_measured("the rest of the part", "its time is over")
                break


PARTS = {
    "correctness": Part(
        "scores and gradients against float64 with fresh inputs, masks of dropout, losses twice, CUDA graphs",
        3,
    ),
    "throughput": Part("the matmul peak, training and evaluation next to sentence-transformers' trainer", 8),
    "profile": Part("kernels and waits of a step, and the share of the time in which the GPU is busy", 2),
    "trials": Part("one to four trials on the GPU at once", 4),
    "memory": Part("a trial next to one that runs out of memory", 1),
    "study": Part("the trials of a small study twice, and equal scores", 2, _LIGHT + _HEAVY),
}
"""Parts by name, in the order in which they run."""
