"""Kernels, copies and waits of a training step and of an evaluation, on a pretend GPU.

`budgets.toml` has the numbers that the tests allow. They do not depend on the width of a model.

python -m tests.gpu.budgets [CASE ...]          writes them again, and names what rose
"""

import sys
import tempfile
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from tests.pretend_gpu.counting import Counts

FILE = Path(__file__).with_suffix(".toml")
KINDS = ("kernels", "copies", "waits")


class Case(NamedTuple):
    """A step of 32 pairs, or an evaluation of 128.

    Attributes:
        layers: layers of the model, which has the shape of BERT and a small width.
        lengths: distribution of the lengths of the pairs.
        loss: loss of a step; None for an evaluation.
        dropout: rate of dropout.
        precision: precision of a step.
        cuda_graphs: True for a step that a graph repeats; all pairs then have the same length.
        tokens: tokens that are computed at once.
    """

    layers: int
    lengths: Literal["question pairs", "long-tailed"] = "question pairs"
    loss: str | None = "cross_entropy"
    dropout: float = 0.1
    precision: str = "bf16"
    cuda_graphs: bool = False
    tokens: int | Literal["auto"] = "auto"


CASES = {
    "step": Case(12),
    "step without dropout": Case(12, dropout=0.0),
    "step of long pairs": Case(12, "long-tailed"),
    "step of 3 layers": Case(3),
    "step of 3 layers in fp32": Case(3, precision="fp32"),
    "step of 3 layers, ranknet": Case(3, loss="ranknet"),
    "step of 3 layers, lce": Case(3, loss="lce"),
    "step of 3 layers, kl": Case(3, loss="kl"),
    "step of 3 layers, margin_mse": Case(3, loss="margin_mse"),
    "step with CUDA graphs": Case(12, cuda_graphs=True),
    "step with CUDA graphs, without dropout": Case(3, dropout=0.0, cuda_graphs=True),
    "evaluation": Case(12, loss=None),
    "evaluation of long pairs": Case(12, "long-tailed", loss=None),
    "evaluation in parts": Case(3, loss=None, tokens=1024),
}


def measure(case: Case) -> "Counts":
    """Return the counts of a step or of an evaluation.

    A step is the third, without what is prepared once or read at the end; a graph was captured in the second.
    """
    from benchmarks import contenders
    from benchmarks.gpu import models
    from tests.pretend_gpu.counting import count
    from trainables.specs.checkpoint_chain import Segment
    from trainables.specs.ranker import LabelSmoothing
    from trainables.training.process import prepare_process

    contenders.quiet()
    prepare_process(threads=1)
    with tempfile.TemporaryDirectory() as folder:
        path = models.write_model(Path(folder), "tiny", case.layers)
        lengths = models.draw_lengths(case.lengths, 128)
        pairs = models.make_pairs(path, lengths[:1].repeat(128) if case.cuda_graphs else lengths)
        settings = {"dropout": case.dropout, "cuda_graphs": case.cuda_graphs, "tokens_per_micro_batch": case.tokens}
        trainer = contenders.own_trainer(pairs, case.precision, device="cuda", **settings)
    labels = contenders.label(pairs)
    if case.loss is None:
        with count() as counts:
            trainer.score_pairs(labels, "bf16")
        return counts
    segment, size = Segment(0, 128, LabelSmoothing(loss=case.loss)), contenders.BATCH_SIZE
    trainer.train(segment, 2 * size, labels)
    with ExitStack() as stack:
        counts = stack.enter_context(count())
        trainer.train(segment, 3 * size, labels, after_step=stack.close)
    return counts


def read_budgets() -> dict[str, dict[str, int]]:
    """Return the allowed numbers of every case."""
    return tomllib.loads(FILE.read_text("utf-8"))


def main(names: list[str]) -> None:
    """Measure the named cases, or all, and write their numbers."""
    from tests.pretend_gpu.cuda import install

    install()
    budgets = read_budgets() if FILE.exists() else {}
    for name in names or CASES:
        counts = measure(CASES[name])
        print(name, counts, flush=True)
        found = {kind: getattr(counts, kind) for kind in KINDS}
        for kind, number in found.items():
            if number > budgets.get(name, found)[kind]:
                print(f"  {kind} rose from {budgets[name][kind]} to {number}")
        budgets[name] = found
    rows = [f'"{name}" = {{ {", ".join(f"{kind} = {budgets[name][kind]}" for kind in KINDS)} }}' for name in CASES]
    head = (
        "# Kernels, copies and waits that tests/gpu/test_budgets.py allows; written by python -m tests.gpu.budgets.\n"
    )
    FILE.write_text(head + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
