"""Laws of label smoothing, with torch's own as the oracle."""

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trainables.losses.objective import Objective, Supervision
from trainables.smoothing import DISTRIBUTIONS, SCHEDULES
from trainables.smoothing.distributions import smooth_by_weak_labels
from trainables.smoothing.schedules import SETTINGS, VARIANTS, compute_switch_instances, get_defaults
from trainables.specs import run_spec
from trainables.specs.ranker import LabelSmoothing

shares = st.floats(0, 1)
instances = st.lists(st.tuples(st.integers(0, 1), shares), min_size=1, max_size=20)


def mean_loss(
    logits: torch.Tensor, labels: np.ndarray, weak_labels: np.ndarray, epsilon: float, distribution: str
) -> float:
    """Cross-entropy of pairs with smoothed targets, from float64 logits of shape (pairs, 2)."""
    given = (values[None].astype(float) for values in (labels, weak_labels, weak_labels))
    loss = Objective("cross_entropy", distribution).compute_sum(logits[None], Supervision(*given), epsilon)
    return loss.item() / len(labels)


def arrays(pairs: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    labels = np.array([label for label, _ in pairs])
    weak = np.array([np.nan if label else score for label, score in pairs])
    logits = torch.randn(len(pairs), 2, generator=torch.Generator().manual_seed(len(pairs)), dtype=torch.float64)
    return labels, weak, logits


@given(instances, shares)
def test_ls_is_torchs_label_smoothing(pairs, epsilon):
    labels, weak, logits = arrays(pairs)
    ours = mean_loss(logits, labels, weak, epsilon, "uniform")
    oracle = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), label_smoothing=epsilon).item()
    assert ours == pytest.approx(oracle, abs=1e-12)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@given(pairs=instances)
def test_epsilon_zero_is_cross_entropy(distribution, pairs):
    labels, weak, logits = arrays(pairs)
    ours = mean_loss(logits, labels, weak, 0.0, distribution)
    assert ours == pytest.approx(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).item(), abs=1e-12)


@given(instances, shares)
def test_wsls_with_every_score_a_half_is_ls(pairs, epsilon):
    labels, _, logits = arrays(pairs)
    halves = np.where(labels == 1, np.nan, 0.5)
    ls, wsls = (mean_loss(logits, labels, halves, epsilon, name) for name in ("uniform", "weak_supervision"))
    assert wsls == ls


def test_wsls_mixes_with_the_weak_label_or_a_half():
    labels, weak = np.array([1.0, 0.0, 0.0]), np.array([np.nan, 0.99, 0.1])
    np.testing.assert_array_equal(smooth_by_weak_labels(labels, weak), [0.5, 0.99, 0.1])


@pytest.mark.parametrize(
    ("labels", "weak_labels", "message"),
    [
        ([0], [math.nan], "a weak label for every non-relevant document"),
        ([1, 0], [7.0, 1.5], r"weak labels must be in \[0, 1\] but got 1.5"),
        ([0, 0], [0.5, -0.1], r"weak labels must be in \[0, 1\] but got -0.1"),
    ],
)
def test_weak_labels_that_give_no_distribution_are_an_error(labels, weak_labels, message):
    with pytest.raises(ValueError, match=message):
        smooth_by_weak_labels(np.array(labels), np.array(weak_labels))


def test_a_weak_label_that_is_not_used_may_be_anything():
    assert smooth_by_weak_labels(np.array([1]), np.array([7.0])) == 0.5


def test_every_row_and_column_of_the_table_can_be_named_in_a_study():
    named = {"loss", "teacher", "distribution", "schedule", "epsilon", *SETTINGS, "temperature"}
    assert set(LabelSmoothing.model_fields) == named


@pytest.mark.parametrize("name", SCHEDULES)
@given(epsilon=shares, seen=st.integers(0, 1000))
def test_schedules_stay_between_zero_and_epsilon(name, epsilon, seen):
    assert 0 <= SCHEDULES[name](epsilon, seen, 1000, **get_defaults(name)) <= epsilon


@pytest.mark.parametrize("name", SCHEDULES)
@given(epsilon=shares, steps=st.tuples(st.integers(0, 1000), st.integers(0, 1000)))
def test_no_schedule_ever_rises(name, epsilon, steps):
    earlier, later = (SCHEDULES[name](epsilon, seen, 1000, **get_defaults(name)) for seen in sorted(steps))
    assert later <= earlier + 1e-12


@given(shares, st.integers(0, 1000), st.floats(0.1, 3), st.floats(0.5, 5), st.floats(0.5, 5))
def test_the_decays_are_their_formulas(epsilon, seen, number, a, b):
    """The oracles: interpolation, torch's cosine annealing, scipy's Beta distribution."""
    share = seen / 1000
    line = np.interp(share, [0, number], [epsilon, 0])
    assert SCHEDULES["linear"](epsilon, seen, 1000, end=number) == pytest.approx(line, abs=1e-9)
    power = epsilon * np.power(np.e, -number * share)
    assert SCHEDULES["exponential"](epsilon, seen, 1000, rate=number) == pytest.approx(power, abs=1e-9)
    beta = epsilon * stats.beta(a, b).sf(share)
    assert SCHEDULES["beta"](epsilon, seen, 1000, a=a, b=b) == pytest.approx(beta, abs=1e-9)


def test_the_cosine_is_torchs_annealing():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.4)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for seen in range(20):
        assert SCHEDULES["cosine"](0.4, seen, 20) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        annealing.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_settings_of_a_schedule_are_the_parameters_of_its_function(name):
    assert [*inspect.signature(SCHEDULES[name]).parameters][3:] == [*get_defaults(name)]


@pytest.mark.parametrize("name", SCHEDULES)
@given(epsilon=shares, batch=st.integers(0, 31))
def test_a_variants_strength_is_its_schedules(name, epsilon, batch):
    settings = get_defaults(name)
    variant = LabelSmoothing(distribution="uniform", schedule=name, epsilon=epsilon, **settings)
    assert variant.compute_strength(batch * 32, 1024) == SCHEDULES[name](epsilon, batch * 32, 1024, **settings)


@given(shares, st.integers(0, 999))
def test_switch_at_the_start_is_the_baseline_and_at_the_end_the_constant_schedule(epsilon, seen):
    assert SCHEDULES["two_stage"](epsilon, seen, 1000, switch=0) == 0
    assert SCHEDULES["two_stage"](epsilon, seen, 1000, switch=1) == epsilon


@pytest.mark.parametrize(
    ("switch", "total", "size", "expected"),
    [(0.5, 1536, 32, 768), (0.5, 100, 32, 64), (0, 100, 32, 0), (0.3, 1000, 10, 300), (0.01, 1000, 32, 32)],
)
def test_the_switch_falls_on_a_whole_batch(switch, total, size, expected):
    assert compute_switch_instances(switch, total, size) == expected


def test_the_published_variants():
    assert {name: (row.distribution, row.schedule) for name, row in VARIANTS.items()} == {
        "BERT": ("none", "constant"),
        "LS": ("uniform", "constant"),
        "T-LS": ("uniform", "two_stage"),
        "WSLS": ("weak_supervision", "constant"),
        "T-WSLS": ("weak_supervision", "two_stage"),
        "LR": ("relaxation", "constant"),
        "T-LR": ("relaxation", "two_stage"),
    }


@pytest.mark.parametrize("value", [-0.01, 0.31, math.nan])
def test_a_schedule_out_of_its_range_is_an_error(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    smoothing = LabelSmoothing(distribution="uniform", epsilon=0.3, schedule="linear")
    monkeypatch.setattr(run_spec, "SCHEDULES", {"linear": lambda epsilon, seen, total, end: value})
    with pytest.raises(ValueError, match=r"the schedule linear returned .* after 50 instances; expected a value"):
        smoothing.compute_strength(50, 100)
