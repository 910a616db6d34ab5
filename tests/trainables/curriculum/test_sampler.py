"""A curriculum decides which queries a batch may hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import rectangle
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.curriculum.pacing import PACING
from trainables.curriculum.sampler import Curriculum, CurriculumSampler, order_by_difficulty, sample_uniform
from trainables.specs.ranker import RankerTrainingSettings
from trainables.training.batching import BatchSampler

QUERIES, CANDIDATES = 300, 5
DIFFICULTY = np.random.default_rng(1).permutation(QUERIES) / 7
TRAINING = RankerTrainingSettings(instances=3200, batch_size=32, negatives=1, sampling="uniform")
ROWS = rectangle(np.ones(QUERIES), CANDIDATES)
STEPS = TRAINING.instances // TRAINING.batch_size


def sampler(seed: int = 1, difficulty: np.ndarray = DIFFICULTY, **settings: object) -> BatchSampler:
    curriculum = Curriculum(CurriculumSettings.model_validate({"score": "turns", **settings}), difficulty)
    return BatchSampler(seed, TRAINING, ROWS, curriculum)


def queries_of(rows: np.ndarray) -> np.ndarray:
    return np.unique(rows // CANDIDATES)


@pytest.mark.parametrize("pacing", ["step", "linear", "root_2", "root_7", "geometric_progression"])
def test_a_batch_holds_only_the_easiest_share(pacing: str) -> None:
    made, ranks = sampler(pacing=pacing, delta=0.2, duration=0.8), np.argsort(np.argsort(DIFFICULTY))
    for step in range(STEPS):
        share = PACING[pacing](step, 0.8 * STEPS, 0.2)
        assert ranks[queries_of(made.sample_rows(step))].max() < share * QUERIES + 1e-9


def test_all_queries_are_sampled_once_all_are_in_and_none_before_its_time() -> None:
    made, hardest = sampler(pacing="linear", delta=0.1, duration=0.5), int(DIFFICULTY.argmax())
    with_hardest = [step for step in range(STEPS) if hardest in queries_of(made.sample_rows(step))]
    assert with_hardest
    assert min(with_hardest) >= STEPS // 2 - 1
    seen = np.unique(np.concatenate([queries_of(made.sample_rows(step)) for step in range(STEPS // 2, STEPS)]))
    assert len(seen) > 0.9 * QUERIES  # 800 draws from 300: each is missed with probability .07


def test_every_query_that_is_in_is_equally_likely() -> None:
    counts = np.zeros(20)
    for step in range(5_000):
        counts[sample_uniform(3, step, 20, 4)] += 1
    expected = 5_000 * 4 / 20
    assert np.square(counts - expected).sum() / expected < 40  # chi-squared with 19 degrees of freedom: p > .003


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 50))
def test_a_batch_has_no_query_twice_where_there_are_enough(seed: int, step: int, available: int, count: int) -> None:
    chosen = sample_uniform(seed, step, available, count)
    assert chosen.shape == (count,)
    assert ((chosen >= 0) & (chosen < available)).all()
    if count <= available:
        assert len(set(chosen.tolist())) == count


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50), st.integers(0, 100))
def test_the_order_is_that_of_difficulty(difficulty: list[int], seed: int) -> None:
    order = order_by_difficulty(np.array(difficulty, dtype=float), seed)
    assert sorted(order.tolist()) == list(range(len(difficulty)))
    assert (np.diff(np.array(difficulty)[order]) >= 0).all()


def test_equal_difficulties_are_shuffled_by_the_seed_alone() -> None:
    equal = np.zeros(100)
    first, again, other = order_by_difficulty(equal, 1), order_by_difficulty(equal, 1), order_by_difficulty(equal, 2)
    assert (first == again).all()
    assert (first != other).any()
    assert abs(np.corrcoef(first, np.arange(100))[0, 1]) < 0.3


def test_batches_follow_from_seed_and_step_and_not_from_earlier_draws() -> None:
    one, other = sampler(), sampler()
    backwards = {step: other.sample_rows(step) for step in reversed(range(STEPS))}
    assert all((one.sample_rows(step) == backwards[step]).all() for step in range(STEPS))
    assert any((one.sample_rows(step) != sampler(seed=2).sample_rows(step)).any() for step in range(STEPS))


def test_a_curriculum_that_has_all_data_samples_as_uniform_sampling_does() -> None:
    """A curriculum differs from uniform sampling by its order alone."""
    plain = BatchSampler(1, TRAINING, ROWS)
    curriculum = Curriculum(CurriculumSettings(score="turns"), np.arange(QUERIES, dtype=float))
    paced = BatchSampler(1, TRAINING, ROWS, curriculum)
    last = [step for step in range(STEPS) if step >= 0.9 * STEPS]
    assert last
    for step in last:
        assert (plain.sample_rows(step) == paced.sample_rows(step)).all()


def test_at_least_one_query_is_in() -> None:
    few = Curriculum(CurriculumSettings(score="turns", delta=0.01), np.arange(5.0))
    assert CurriculumSampler(few, 1, 100).count_available(0) == 1
    assert (CurriculumSampler(few, 1, 100).list_available(0) == 0).all()


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"pacing": "standard"}, None),
        ({"pacing": "linear", "delta": 1.0}, None),
        ({"pacing": "step", "delta": 0.5}, {"pacing": "step"}),
        ({"score": "turns", "scorer": "a", "vectors": "b"}, {"score": "turns"}),
        ({"score": "sigma_SM", "scorer": "a", "vectors": "b"}, {"score": "sigma_SM", "vectors": "b"}),
        ({"score": "BERT_pred", "scorer": "a", "vectors": "b"}, {"score": "BERT_pred", "scorer": "a"}),
    ],
)
def test_equal_behaviour_has_one_name(settings: dict[str, object], same: dict[str, object] | None) -> None:
    found = CurriculumSettings.model_validate(settings).canonicalize()
    assert found == (None if same is None else CurriculumSettings.model_validate(same))
