"""Savings of the quick study: the peer trains on the same pairs, and the plan says how often."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from study.workflows.dry_run import build_preview
from tests.study import small

if TYPE_CHECKING:
    from tests.trainables.small import World

for package in ("accelerate", "datasets"):
    pytest.importorskip(package, reason="the peer needs requirements-bench.lock")
EPSILON, SEEDS, QUERIES = 0.2, (1, 2), 3


@pytest.fixture
def made(world: "World", fresh: Callable[[], Path], tmp_path: Path) -> Any:
    """A tiny study that freezes layers and reads the first token."""
    model = {"name": str(world.bert), "max_length": 64, "num_layers": 2, "frozen_layers": 1}
    search = {"epsilon": [EPSILON, 0.4], "n_configurations": {"LS": 2}}
    return small.study(world, tmp_path / "study", fresh(), model=model, variants=["BERT", "LS"], search=search)


@pytest.fixture
def trial(world: "World", made: Any) -> Any:
    from benchmarks.savings import make_trial

    return make_trial(made, small.scheduler(world, made).resolved, world.prepared)


@pytest.fixture
def recipe(trial: Any, tmp_path: Path) -> Any:
    from benchmarks.savings import make_recipe, write_pairs
    from trainables.rankers.ranker_run import RankerData

    write_pairs(RankerData(trial), trial, SEEDS, tmp_path)
    return make_recipe(trial, [EPSILON], tmp_path)


@pytest.mark.slow
def test_the_peer_trains_on_the_same_tokens_and_labels(
    trial: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import peer_study
    from trainables.rankers.ranker_run import RankerData
    from trainables.rankers.ranker_trainer import RankerTrainer
    from trainables.specs.checkpoint_chain import Segment

    theirs, ours = list[list[tuple[Any, int]]](), list[list[tuple[Any, int]]]()

    class Recorded(peer_study.CrossEntropyLoss):
        def forward(self, inputs: Any, labels: torch.Tensor, **names: Any) -> torch.Tensor:
            ids = self.model.tokenizer(*map(list, inputs))["input_ids"]
            theirs.append(sorted(zip(map(tuple, ids), labels.tolist(), strict=True)))
            return super().forward(inputs, labels, **names)

    monkeypatch.setattr(peer_study, "CrossEntropyLoss", Recorded)
    found = peer_study.train_model(recipe, SEEDS[0], EPSILON, str(tmp_path / "model"))

    data = RankerData(trial)
    pairs, read = data.select_pairs("train"), data.read

    def record(rows: Any) -> Any:
        labels = pairs.labels[rows - pairs.first_row].tolist()
        ours[-1] += [(tuple(data.tokens.get_ids(row).tolist()), one) for row, one in zip(rows, labels, strict=True)]
        return read(rows)

    monkeypatch.setattr(data, "read", record)
    specification = trial.specification
    trainer = RankerTrainer(data.load_model(SEEDS[0]), specification.training, SEEDS[0], data)
    for _ in data.precompute(lambda: None):
        pass
    for step in range(small.BATCHES):
        ours.append([])
        until = (step + 1) * specification.training.batch_size
        trainer.train(Segment(0, specification.training.instances, specification.variant), until, pairs)
    assert len(theirs) == small.BATCHES
    assert theirs == [sorted(batch) for batch in ours]

    tested = peer_study.evaluate_model(recipe, str(tmp_path / "model"))
    for recall, split in ((found["dev_recall"], "dev"), (tested["test_recall"], "test")):
        n_queries = data.frame[data.frame["split"] == split]["query_id"].nunique()
        assert recall * n_queries == pytest.approx(round(recall * n_queries))


@pytest.mark.slow
def test_the_peer_freezes_the_same_layers(trial: Any, recipe: Any) -> None:
    from benchmarks.peer_study import load_model
    from trainables.rankers.ranker_run import RankerData

    theirs = [one.numel() for one in load_model(recipe, 1).model.parameters() if one.requires_grad]
    ours = RankerData(trial).load_model(1).trainable_parameters()
    assert sum(theirs) == sum(one.numel() for one in ours.values())


@pytest.mark.long
def test_a_search_of_the_peer_trains_and_tests_each_seed(recipe: Any, tmp_path: Path) -> None:
    from benchmarks.peer_study import search

    found = search(recipe, SEEDS, tmp_path / "tune")
    assert sorted((one.epsilon, one.seed) for one in found.trials) == [(EPSILON, seed) for seed in SEEDS]
    assert all((times > 0).all() for one in found.trials for times in (one.training, one.dev, one.test, found.start))


@pytest.mark.slow
def test_what_is_switched_off_changes_the_cost_alone(trial: Any) -> None:
    from benchmarks.engine_savings import SWITCHES, FrozenEachTime, measure_engine
    from trainables.rankers.ranker_run import RankerData
    from trainables.rankers.ranker_trainer import RankerTrainer
    from trainables.training.frozen_features import InMemoryFeatures

    data = RankerData(trial)
    model, pairs = data.load_model(1), data.select_pairs("dev").select_queries(0, QUERIES)
    rows = pairs.first_row + np.arange(len(pairs.relevant))
    sources = [InMemoryFeatures(data.tokens, rows, model), FrozenEachTime(data.tokens, model, is_packed=True)]
    scores = [RankerTrainer(model, trial.specification.training, 1, each).score_pairs(pairs) for each in sources]
    np.testing.assert_allclose(*scores, atol=1e-5)
    padded = FrozenEachTime(data.tokens, model, is_packed=False).read(rows)
    assert padded.lengths.tolist() == [data.lengths[rows].max()] * len(rows)
    for switches in SWITCHES.values():
        assert min(measure_engine(trial, *switches, batches=2)) > 0


def test_the_work_is_that_of_the_plan(world: "World", made: Any, trial: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.engine_savings import Rates
    from benchmarks.peer_study import Outcome, Round
    from benchmarks.savings import count_work, derive, extrapolate
    from trainables.rankers.ranker_run import RankerData

    monkeypatch.syspath_prepend(world.cache.parent / "site")
    work, preview = count_work(made, RankerData(trial)), build_preview(made)
    n_rankings = len(made.references)
    assert work.trainings + n_rankings == preview["runs"]
    assert work.trainings * work.instances == sum(row["instances"] for row in preview["systems"])
    assert work.tests == (len(preview["systems"]) - n_rankings) * len(made.seeds)
    one = Outcome(EPSILON, 1, *np.array([[10, 9], [4, 3], [1, 1], [5, 4], [2, 1]]), dev_recall=0, test_recall=0)
    whole = extrapolate(work, Round([one, one], np.array([7, 2])), np.array([3, 3]))
    scores = np.array([4, 3]) * work.trainings
    np.testing.assert_allclose(whole.training, np.array([10, 9]) * work.trainings)
    np.testing.assert_allclose(whole.scores, scores + np.array([5, 4]) * work.tests)
    of_trials = whole.training + whole.scores + whole.loading
    np.testing.assert_allclose(whole.times, [10 + of_trials[0] / 2, 5 + of_trials[1]])
    rates = Rates(work.instances / 9, work.dev * work.evaluations / 3, work.test / 4)
    assert derive(work, rates) == pytest.approx((whole.training[1], whole.scores[1]))
