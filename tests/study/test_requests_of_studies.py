"""Requests of whole studies to an object store: how they grow, and what is listed."""

from collections import Counter

import pytest

from tests.study.requests_of_studies import Driven, make_study
from tests.trainables.storage.counting import clear


@pytest.mark.parametrize("max_size", ["1TB", pytest.param("100KB", marks=pytest.mark.long)])
def test_a_larger_study_takes_no_more_requests_a_trial(tmp_path, max_size):
    each = []
    for seeds in (1, 2):
        clear()
        driven = Driven(make_study(tmp_path / str(seeds), seeds, max_size))
        each.append(sum(driven.requests.values(), Counter[str]()).total() / driven.n_trials)
    clear()
    assert driven.n_trials > 150
    assert each[1] < 1.1 * each[0] < 50


def test_the_copy_is_listed_once_and_the_eviction_asks_for_each_new_checkpoint_and_each_trial(tmp_path):
    """And the eviction lists everything at the first trial and at the end."""
    clear()
    study = make_study(tmp_path, 1)
    driven = Driven(study)
    assert driven.requests["start"]["list"] + driven.requests["end"]["list"] == 1
    assert driven.requests["copy"].keys() == {"put"}
    assert set(driven.requests["evict"]) == {"list"}
    assert driven.requests["evict"]["list"] <= driven.n_saved + driven.n_trials + 2
    again = Driven(study)
    clear()
    assert again.n_trials == 0
    assert again.requests["start"]["list"] + again.requests["end"]["list"] == 1
    assert sum(again.requests.values(), Counter[str]()).total() < 10
