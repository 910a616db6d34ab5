"""A trial's memory follows from the tokens of a micro-batch, not from the batch or the lengths."""

import subprocess
import sys
from pathlib import Path

import pytest

LENGTH = 512
STEPS = """
import os
import sys
from pathlib import Path
import numpy as np, torch
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.specs.ranker import RankerModelSettings, RankerTrainingSettings, LabelSmoothing
from trainables.specs.checkpoint_chain import Segment
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer

model, length, cases = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]

def work(size, tokens):
    class Full:
        lengths = np.full(size, length)
        def read(self, rows):
            ids = torch.full((len(rows) * length,), 7)
            return PackedBatch(ids, np.full(len(rows), length), np.full(len(rows), length // 2))

    settings = RankerTrainingSettings(instances=size, batch_size=size, negatives=1, tokens_per_micro_batch=tokens)
    trainer = RankerTrainer(CrossEncoder(model, RankerModelSettings(), 1), settings, 1, Full())
    labels = np.tile([1, 0], size // 2)
    pairs = Pairs(0, labels, labels, np.where(labels == 1, np.nan, 0.5), labels)
    trainer.train(Segment(0, size, LabelSmoothing()), size, pairs)
    trainer.score_pairs(pairs)
    status = Path("/proc/self/status").read_text()  # ru_maxrss would start from what the parent process uses
    print(int(status.split("VmHWM:")[1].split()[0]) // 1024, flush=True)

torch.set_num_threads(1)
for case in cases:  # each in a process of its own, all of which begin with the same libraries
    if (child := os.fork()) == 0:
        work(*map(int, case.split(",")))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture(scope="module")
def long_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertModel

    place = tmp_path_factory.mktemp("long")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128}
    BertModel(BertConfig(vocab_size=100, max_position_embeddings=LENGTH, **sizes)).save_pretrained(place)
    return place


def peaks(model: Path, *cases: tuple[int, int]) -> list[int]:
    """Megabytes of a process that trains a batch of pairs of 512 tokens and scores them, by (batch size, tokens)."""
    command = [sys.executable, "-c", STEPS, str(model), str(LENGTH), *(f"{size},{tokens}" for size, tokens in cases)]
    return [*map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak")
def test_memory_does_not_grow_with_a_batch_of_long_pairs(long_bert: Path) -> None:
    few, many, unbounded = peaks(long_bert, (4, 2 * LENGTH), (16, 2 * LENGTH), (16, 16 * LENGTH))
    assert many - few < (unbounded - few) / 4  # an allocator's rest, not the batch: 42 of 420 where it was seen worst
