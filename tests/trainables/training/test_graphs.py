"""Training steps as CUDA graphs are the steps without them, bit for bit."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables import encoders as sentences
from tests.trainables.deaths import same
from tests.trainables.encoders import Encoders
from tests.trainables.rankers.test_gpu_runs import EqualTexts
from tests.trainables.small import BATCH_SIZE, FROZEN, LS, T_LS, TRAINING, Fresh, World, finish, fresh_model, job
from tests.trainables.training.test_gpu import gpu, on_gpu, ready
from trainables.models import packing
from trainables.rankers.ranker_run import RankerRun
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerTrainingSettings
from trainables.specs.trial import TrialSpec
from trainables.training import graphs
from trainables.utils.errors import UserError

pytestmark = gpu
STEPS = 12
SETTINGS = {"instances": STEPS * BATCH_SIZE, "precision": "bf16", "decay": "linear", "dropout": 0.1, "evaluations": 4}
LCE = LabelSmoothing(loss="lce", distribution="uniform", schedule="linear", epsilon=0.4, end=1.0)
RELAXED = LabelSmoothing(distribution="relaxation", schedule="two_stage", epsilon=0.3, switch=0.5)
DECAYING = LabelSmoothing(distribution="relaxation", schedule="linear", epsilon=0.3, end=1.0)
RUNS: dict[str, tuple[LabelSmoothing, dict[str, Any]]] = {
    "cls": (T_LS, {}),
    "mean": (LCE, {"pooling": "mean"}),
    "cosine, frozen": (RELAXED, FROZEN),
    "adapters": (T_LS, {"lora": {"rank": 4, "dropout": 0.2}}),
    "epsilon of every step": (DECAYING, {}),
}


@pytest.fixture(autouse=True)
def fill_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short batches of these tests have several shapes."""
    monkeypatch.setattr(packing, "_FILLED_ROWS", 4)
    monkeypatch.setattr(packing, "_FILLED_LENGTH", 2)


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[torch.cuda.CUDAGraph]:
    """The graph of every replay."""
    found, replay = list[torch.cuda.CUDAGraph](), torch.cuda.CUDAGraph.replay

    def replay_and_note(graph: torch.cuda.CUDAGraph) -> None:
        found.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replay_and_note)
    return found


def finish_without_graphs(monkeypatch: pytest.MonkeyPatch, trial: TrialSpec) -> Any:
    """The same run with every step as it is for a new shape."""
    with monkeypatch.context() as patch:
        patch.setattr(graphs, "MOST_GRAPHS", 0)
        return finish(ready(trial))


@pytest.mark.parametrize("name", RUNS)
def test_graphs_have_the_bits_of_the_steps_that_they_repeat(
    monkeypatch: pytest.MonkeyPatch, world: World, fresh: Fresh, replays: list[torch.cuda.CUDAGraph], name: str
) -> None:
    variant, model = RUNS[name]
    trials = [on_gpu(job(world, fresh(), variant, model, cuda_graphs=True, **SETTINGS)) for _ in range(2)]
    found = finish(ready(trials[0]))
    n_replays, n_graphs = len(replays), len({*replays})
    assert same(found, finish_without_graphs(monkeypatch, trials[1]))
    assert len(replays) == n_replays
    assert (1 < n_graphs < n_replays) if name != "epsilon of every step" else not n_graphs


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_filling_up_changes_a_run_by_rounding_alone(world: World, fresh: Fresh, pooling: str) -> None:
    settings = SETTINGS | {"dropout": 0.0, "learning_rate": 1e-4}
    runs = [
        finish(on_gpu(job(world, fresh(), LS, {"pooling": pooling}, cuda_graphs=is_on, **settings)))
        for is_on in (True, False)
    ]
    losses = [[row["train/loss"] for row in run.history if "train/loss" in row] for run in runs]
    np.testing.assert_allclose(*losses, rtol=0, atol=2e-3)
    np.testing.assert_allclose(runs[0].scores, runs[1].scores, rtol=0, atol=1e-2)


def test_a_restored_trainer_has_new_graphs(world: World, fresh: Fresh, replays: list[torch.cuda.CUDAGraph]) -> None:
    """The old ones change states of the optimizer that the checkpoint replaced."""
    run, segment = RankerRun(on_gpu(job(world, fresh(), LS, cuda_graphs=True, **SETTINGS))), Segment(0, STEPS * 8, LS)
    run.trainer.train(segment, segment.stop // 2, run._train_pairs)
    middle = run.trainer.make_checkpoint(final=False)
    run.trainer.train(segment, segment.stop, run._train_pairs)
    expected, n_replays = run.trainer.hash_weights(), len(replays)
    run.trainer.restore(middle)
    run.trainer.train(segment, segment.stop, run._train_pairs)
    assert run.trainer.hash_weights() == expected
    assert len(replays) > n_replays


@pytest.mark.parametrize("schedule", ["two_stage", "linear"])
def test_a_sentence_encoder_has_the_bits_of_the_steps_that_its_graphs_repeat(
    monkeypatch: pytest.MonkeyPatch, encoders: Encoders, replays: list[torch.cuda.CUDAGraph], schedule: str
) -> None:
    monkeypatch.setattr(packing, "_FILLED_ROWS", 64)
    monkeypatch.setattr(packing, "_FILLED_LENGTH", 64)
    noise = sentences.GS.model_copy(update={"schedule": schedule, "switch": 0.5, "end": 0.5})
    settings = {"precision": "bf16", "cuda_graphs": True, "instances": 8 * sentences.BATCH_SIZE}
    trials = [on_gpu(sentences.job(encoders, encoders.fresh(), noise, **settings)) for _ in range(2)]
    found = finish(ready(trials[0]))
    assert replays
    assert same(found, finish_without_graphs(monkeypatch, trials[1]))


def test_a_model_on_a_processor_has_no_graphs(world: World) -> None:
    settings = RankerTrainingSettings.model_validate(TRAINING | {"precision": "bf16", "cuda_graphs": True})
    with pytest.raises(UserError, match=r"^training\.cuda_graphs: true; expected false, or a model that runs in bf16"):
        RankerTrainer(fresh_model(world.bert), settings, 1, EqualTexts())
