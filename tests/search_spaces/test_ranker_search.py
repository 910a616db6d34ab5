"""Impossible settings of a ranker's study are an error in a line."""

import pytest

from study.config.loader import load_study
from trainables.utils.errors import UserError

POINTWISE = 'variants=["BERT", "LS"]'
SINGLE = "model.ranking_score=relevant_logit"


def test_a_single_logit_has_no_metric_of_probabilities() -> None:
    load_study("quick", [POINTWISE, "training.checkpoint=NLL"])
    with pytest.raises(UserError) as caught:
        load_study("quick", [POINTWISE, SINGLE, "training.checkpoint=NLL"])
    expected = 'a metric of rankings while model.ranking_score = "relevant_logit"'
    assert f"training.checkpoint: 'NLL'; expected {expected}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_logit_ranks() -> None:
    changes = ["training.checkpoint=MAP", SINGLE]
    assert load_study("quick", changes).model.model_dump()["ranking_score"] == "relevant_logit"
