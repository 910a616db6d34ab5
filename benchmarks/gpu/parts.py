"""The parts of the benchmark: what each does on a GPU, and what a processor can check of it.

The module loads neither torch nor numpy.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.gpu.report import Row

_LIGHT, _HEAVY = ("numpy", "pydantic", "safetensors", "torch", "transformers"), ("pandas", "pyarrow", "scipy")


@dataclass(frozen=True)
class Place:
    """Place of a part.

    Attributes:
        device: "cuda", or "cpu" for the stand-in, which measures nothing.
        folder: an empty folder for models and data.
        rounds: measured rounds at most.
        seconds: time of the part; when its measurements have taken it, they begin no further round.
    """

    device: Literal["cuda", "cpu"]
    folder: Path
    rounds: int
    seconds: float

    @property
    def is_gpu(self) -> bool:
        """True if speed is measured."""
        return self.device == "cuda"


class Part(NamedTuple):
    """A part; its module has the function `run(place) -> list[Row]`."""

    on_gpu: str
    on_cpu: str
    packages: tuple[str, ...] = _LIGHT

    def run(self, name: str, place: Place) -> list[Row]:
        """Imports the part's module and runs it."""
        found: list[Row] = import_module(f"benchmarks.gpu.{name}").run(place)
        return found


PARTS = {
    "equality": Part(
        "scores and gradients of a tiny and a MiniLM-size cross-encoder in fp32 against the processor's, and the same "
        "bits from two trainings, in fp32 and bf16",
        "the packed computation against transformers' padded one, and the same bits from two trainings",
    ),
    "throughput": Part(
        "training and evaluation of BERT-base and ModernBERT-base sizes in bf16 next to sentence-transformers' trainer "
        "or a plain loop, with the share of the matmul peak and the peak memory",
        "the same code with tiny models, without a rate",
    ),
    "kernels": Part(
        "time of attention by kernel and shape, with and without dropout, and which kernel the engine chooses",
        "that the kernels which a processor has give the same attention",
    ),
    "trials": Part(
        "instances a second of one, two and four trials on the GPU at once (resources.gpu = 1, 0.5, 0.25)",
        "that two trials at once train on the processor, without a rate",
    ),
    "study": Part(
        "the trials of a small study twice, and equal scores",
        "the same trials on the processor",
        _LIGHT + _HEAVY,
    ),
}
"""Parts by name, in the order in which they run."""
