"""Proposals are a function of the seed and of earlier results."""

import optuna
import pytest

from search_spaces.replicates import Search
from search_spaces.smoothing import size, smoothing
from trainables.smoothing import VARIANTS
from trainables.specification import VariantSettings

EPSILONS, SWITCHES = (0.1, 0.2, 0.3, 0.4), (0.25, 0.5, 0.75)
SEARCHED = [name for name in VARIANTS if name != "BERT"]


def score(settings: VariantSettings) -> float:
    return -abs(settings.epsilon - 0.3) - abs((settings.switch or 0.75) - 0.75)


def run(variant: str, proposals: int = 8, parallel: int = 2, seed: int = 0) -> list[VariantSettings]:
    search, made = Search(variant, proposals, parallel, seed, EPSILONS, SWITCHES), []
    while batch := search.round():
        assert len(batch) <= parallel
        made += [proposal.settings for proposal in batch]
        search.tell([score(proposal.settings) for proposal in batch])
    return made


@pytest.mark.parametrize("variant", SEARCHED)
def test_all_proposals_are_distinct_and_the_default_comes_first(variant):
    made = run(variant, proposals=100)
    assert len(made) == len(set(made)) == size(variant, EPSILONS, SWITCHES)
    assert made[0].epsilon == 0.2
    assert made[0].switch == (0.5 if VARIANTS[variant].schedule == "two_stage" else None)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("parts", [3, 6, 7, 11])
def test_every_point_of_an_evenly_spaced_grid_can_be_proposed(parts):
    grid = [part / parts for part in range(1, parts)]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found = {smoothing(study.ask(), "T-LS", EPSILONS, grid).switch for _ in range(40 * parts)}
    assert found == set(grid)


@pytest.mark.parametrize("variant", SEARCHED)
def test_the_same_seed_proposes_the_same(variant):
    assert run(variant) == run(variant)


def test_another_seed_proposes_otherwise():
    assert len({tuple(run("T-LS", seed=seed)) for seed in range(5)}) > 1


def test_results_steer_the_proposals():
    search = Search("T-LS", 8, 2, 0, EPSILONS, SWITCHES)
    made = []
    while batch := search.round():
        made += [proposal.settings for proposal in batch]
        search.tell([-score(proposal.settings) for proposal in batch])
    assert made != run("T-LS")
    assert made[:2] == run("T-LS")[:2]


def test_a_failed_configuration_does_not_stop_the_search():
    search = Search("T-WSLS", 5, 2, 0, EPSILONS, SWITCHES)
    count = 0
    while batch := search.round():
        count += len(batch)
        search.tell([None] * len(batch))
    assert count == 5
