"""What cannot be of a ranker's study is refused in a line."""

import pytest

from study.config.loader import load_study
from trainables.utils.errors import UserError

SINGLE = "model.ranking_score=relevant_logit"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (['search.objectives=["R10@1", "ECE"]'], "search.objectives: 'ECE'"),
        (['search.objectives=["R10@1", "MAP", "Brier"]'], "search.objectives: 'Brier'"),
        (["training.checkpoint=NLL"], "training.checkpoint: 'NLL'"),
    ],
)
def test_a_single_logit_has_no_metric_of_probabilities(overrides: list[str], key: str) -> None:
    load_study("quick", overrides)
    with pytest.raises(UserError) as caught:
        load_study("quick", [SINGLE, *overrides])
    assert f'{key}; expected a metric of rankings while model.ranking_score = "relevant_logit"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_logit_ranks() -> None:
    changes = ['search.objectives=["R10@1", "MAP", "Spearman"]', "training.checkpoint=MAP", SINGLE]
    assert load_study("quick", changes).model.model_dump()["ranking_score"] == "relevant_logit"
