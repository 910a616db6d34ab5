"""Semantic textual similarity: pseudo-values against loops over scipy, sets and subsets, and the mean over sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trainables.metrics import get_measure, spearman, spearman_pseudo_values

NAMES = ["SICK-R", "STS-B", "STS12/MSRpar", "STS12/MSRvid", "STS13/FNWN"]
LENGTHS = np.array([30, 20, 12, 15, 9])


def pairs(lengths: np.ndarray = LENGTHS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) cosines and gold similarities in steps of .2, as in the files."""
    rng = np.random.default_rng(seed)
    grades = np.round(rng.uniform(0, 25, lengths.sum())) / 5
    return np.tanh(grades / 3 + rng.normal(0, 0.6, len(grades))), grades


def without_each(scores: np.ndarray, grades: np.ndarray) -> np.ndarray:
    """The correlation of the others, one by one."""
    found = []
    for left_out in range(len(scores)):
        own, gold = np.delete(scores, left_out), np.delete(grades, left_out)
        flat = len(set(own)) == 1 or len(set(gold)) == 1
        found.append(0.0 if flat else stats.spearmanr(own, gold).statistic)
    return np.array(found)


few = st.integers(0, 4).map(float)
lists = st.lists(st.tuples(few, few), min_size=3, max_size=25).filter(lambda own: len({gold for _, gold in own}) > 1)


@given(lists)
def test_pseudo_values_are_those_of_leaving_one_out_with_all_ties(own: list[tuple[float, float]]) -> None:
    scores, grades = np.array(own).T
    n, value = len(own), spearman(scores, grades)
    expected = n * value - (n - 1) * without_each(scores, grades)
    found = spearman_pseudo_values(scores, grades)
    assert found.mean() == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-9)


def test_their_standard_error_is_that_of_the_bootstrap() -> None:
    """Within a tenth: that of 2,000 resamples is known to a fiftieth."""
    scores, grades = pairs(np.array([400]))
    found = spearman_pseudo_values(scores, grades)
    own = stats.bootstrap(
        (scores, grades), lambda x, y: stats.spearmanr(x, y).statistic, paired=True, vectorized=False,
        n_resamples=2000, method="percentile", rng=np.random.default_rng(1),
    )  # fmt: skip
    assert found.std(ddof=1) / 20 == pytest.approx(own.standard_error, rel=0.1)


def test_a_set_is_the_pairs_of_its_subsets_as_one_list() -> None:
    scores, grades = pairs()
    starts = dict(zip(NAMES, zip(np.cumsum(LENGTHS) - LENGTHS, np.cumsum(LENGTHS), strict=True), strict=True))

    def expected(first: str, last: str) -> float:
        own = slice(starts[first][0], starts[last][1])
        return 100 * stats.spearmanr(scores[own], grades[own]).statistic

    both = {
        "STS/STS12": expected("STS12/MSRpar", "STS12/MSRvid"),
        "STS/STS12/MSRvid": expected("STS12/MSRvid", "STS12/MSRvid"),
        "STS/STS-B": expected("STS-B", "STS-B"),
        "STS/STS13": expected("STS13/FNWN", "STS13/FNWN"),
        "STS/SICK-R": expected("SICK-R", "SICK-R"),
    }
    both["STS"] = np.mean([both[f"STS/{name}"] for name in ("STS12", "STS-B", "STS13", "SICK-R")])
    counts = dict(zip(both, (27, 15, 20, 9, 30, 86), strict=True))
    for name, value in both.items():
        assert get_measure(name).compute_overall(scores, grades, LENGTHS, NAMES) == pytest.approx(value, abs=1e-9)
        values = get_measure(name).compute_values(scores, grades, LENGTHS, NAMES)
        assert values.mean() == pytest.approx(value, abs=1e-9)
        assert len(values) == counts[name]


def test_the_mean_over_sets_has_the_variance_of_a_stratified_sample() -> None:
    scores, grades = pairs(20 * LENGTHS)
    values = get_measure("STS").compute_values(scores, grades, 20 * LENGTHS, NAMES)
    sets = [get_measure(f"STS/{name}").compute_values(scores, grades, 20 * LENGTHS, NAMES)
            for name in ("SICK-R", "STS-B", "STS12", "STS13")]  # fmt: skip
    stratified = sum(own.var(ddof=1) / len(own) for own in sets) / len(sets) ** 2
    assert values.var(ddof=1) / len(values) == pytest.approx(stratified, rel=0.01)
    centred = [own - own.mean() for own in sets]
    weights = [len(values) / len(sets) / len(own) for own in sets]
    expected = [weight * own for weight, own in zip(weights, centred, strict=True)]
    np.testing.assert_allclose(values - values.mean(), np.concatenate(expected), atol=1e-9)


def without_a_unit(
    scores: np.ndarray, grades: np.ndarray, lengths: np.ndarray, units: np.ndarray, unit: int, metric: str
) -> float:
    kept = units != unit
    left = np.array([own.sum() for own in np.split(kept, np.cumsum(lengths)[:-1])])
    return get_measure(metric).compute_overall(scores[kept], grades[kept], left, NAMES)


@pytest.mark.parametrize("metric", ["STS", "STS/STS12"])
def test_a_pair_that_is_there_several_times_is_one_unit(metric: str) -> None:
    """Against a jackknife that leaves out whole units; what that adds of second order is a few per cent."""
    lengths = 4 * LENGTHS
    scores, grades = pairs(lengths)
    units = np.arange(len(scores))
    starts = dict(zip(NAMES, np.cumsum(lengths) - lengths, strict=True))
    copied = [("STS-B", "STS12/MSRpar", 40), ("STS12/MSRvid", "STS12/MSRpar", 20), ("STS13/FNWN", "STS-B", 25)]
    for name, source, count in copied:
        own, other = (slice(starts[place], starts[place] + count) for place in (name, source))
        scores[own], units[own] = scores[other], units[other]
        grades[own] = grades[other] + 0.2  # people judged them again
    assert len(np.unique(units)) == len(scores) - 85
    values = get_measure(metric).compute_values(scores, grades, lengths, NAMES, units)
    about = np.repeat([metric == "STS" or name.startswith("STS12") for name in NAMES], lengths)
    known = np.unique(units[about])
    assert len(values) == len(known)
    assert values.mean() == pytest.approx(get_measure(metric).compute_overall(scores, grades, lengths, NAMES), abs=1e-9)
    left = np.array([without_a_unit(scores, grades, lengths, units, unit, metric) for unit in known])
    jackknife = -(len(known) - 1) * (left - left.mean())
    assert values.var() == pytest.approx(jackknife.var(), rel=0.05)
    assert np.corrcoef(values, jackknife)[0, 1] > 0.999
    alone = get_measure(metric).compute_values(scores, grades, lengths, NAMES)
    assert values.var() / len(values) > 1.1 * alone.var() / len(alone)


def test_numbers_of_pairs_that_differ_change_nothing_but_their_order() -> None:
    scores, grades = pairs()
    order = np.random.default_rng(1).permutation(86)
    found = get_measure("STS").compute_values(scores, grades, LENGTHS, NAMES, 7 * order)
    np.testing.assert_allclose(
        found[order], get_measure("STS").compute_values(scores, grades, LENGTHS, NAMES), rtol=1e-12
    )


def test_constant_scores_and_degenerate_pairs() -> None:
    grades = pairs()[1]
    assert get_measure("STS").compute_overall(np.ones(86), grades, LENGTHS, NAMES) == 0.0
    assert not get_measure("STS").compute_values(np.ones(86), grades, LENGTHS, NAMES).any()
    alone = np.arange(86) == 40
    assert np.isfinite(get_measure("STS").compute_values(alone.astype(float), grades, LENGTHS, NAMES)).all()
    grades = np.where(np.repeat(LENGTHS, LENGTHS) == 9, 3.0, grades)
    with pytest.raises(ValueError, match="STS13: all grades are equal"):
        get_measure("STS").compute_values(pairs()[0], grades, LENGTHS, NAMES)
    scores = pairs()[0]
    scores[0] = np.nan
    with pytest.raises(ValueError, match="SICK-R: expected two pairs or more and no NaN"):
        get_measure("STS").compute_overall(scores, grades, LENGTHS, NAMES)
    assert np.isfinite(get_measure("STS/STS-B").compute_overall(scores, grades, LENGTHS, NAMES))


def test_the_names_of_the_sets_are_needed() -> None:
    with pytest.raises(ValueError, match="STS needs the name of each query"):
        get_measure("STS").compute_overall(*pairs(), LENGTHS)
    with pytest.raises(ValueError, match="no pairs of STS16"):
        get_measure("STS/STS16").compute_values(*pairs(), LENGTHS, NAMES)
    for name in ("STS/", "STS//", "STS/STS12/", "STS STS12", "sts"):
        with pytest.raises(ValueError, match=r"is not a metric; expected .*Spearman, STS, STS/<set>"):
            get_measure(name)
