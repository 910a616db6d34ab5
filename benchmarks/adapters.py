"""Memory, time and checkpoints of training with adapters and with gradient checkpointing, on pairs of one length.

python -m benchmarks.adapters [--pairs 8] [--length 512] [--layers 12]

The encoder has the size of BERT-base and random weights. A batch is computed at once, in fp32, with a dropout of .1, by
one thread. Each row is a process of its own: two batches, and the processor time of the second.
"""

import argparse
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerTrainingSettings
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints

ROWS = [(rank, is_on) for rank in (None, 4, 16) for is_on in (False, True)]
_MIB = 1 << 20


class EqualPairs:
    """Pairs of one length, with random words."""

    def __init__(self, count: int, length: int) -> None:
        self.lengths = np.full(count, length)

    def read(self, rows: Ints) -> PackedBatch:
        lengths = self.lengths[rows]
        ids = torch.randint(1000, 30_000, (int(lengths.sum()),), generator=torch.Generator().manual_seed(0))
        return PackedBatch(ids, lengths, lengths // 2)


def write_model(folder: Path, layers: int) -> None:
    """Write a BERT of the base size with random weights."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    BertModel(BertConfig(num_hidden_layers=layers)).save_pretrained(folder)


def train(folder: Path, rank: int | None, is_on: bool, count: int, length: int) -> list[str]:
    """Train two batches, and return the cells of a row."""
    prepare_process(1)
    settings = {"instances": 2 * count, "batch_size": count, "negatives": 1, "precision": "fp32"}
    own = {"tokens_per_micro_batch": count * length, "gradient_checkpointing": is_on}
    training = RankerTrainingSettings.model_validate(settings | own)
    model = CrossEncoder(folder, RankerModelSettings.model_validate({"lora": {"rank": rank}}), 1)
    trainer, labels = RankerTrainer(model, training, 1, EqualPairs(count, length)), np.tile([1, 0], count // 2)
    pairs = Pairs(0, labels, labels, np.where(labels, np.nan, 0.5), labels)
    for until in (count, 2 * count):
        start = time.process_time()
        trainer.train(Segment(0, 2 * count, LabelSmoothing()), until, pairs)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
    sizes = [
        sum(own.nbytes for own in trainer.make_checkpoint(final).tensors.values()) / _MIB for final in (False, True)
    ]
    cells = [f"{peak:,.0f}", f"{seconds:.1f}", *(f"{size:,.1f}" for size in sizes), trainer.hash_weights()[:8]]
    return ["full" if rank is None else f"rank {rank}", "on" if is_on else "off", *cells]


def main() -> None:
    """Print a row for each rank, with gradient checkpointing and without."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("pairs", 8), ("length", 512), ("layers", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options, spawn = parser.parse_args(), multiprocessing.get_context("spawn")
    print("| training | checkpointing | peak MiB | s a batch | resume MiB | final MiB | weights |\n|" + "---|" * 7)
    with TemporaryDirectory() as folder:
        write_model(Path(folder), options.layers)
        with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
            for rank, is_on in ROWS:
                cells = processes.submit(train, Path(folder), rank, is_on, options.pairs, options.length).result()
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
