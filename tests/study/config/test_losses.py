"""Studies of several losses: names, baselines, comparisons, and errors."""

from search_spaces.ranker_search import STUDY_TYPE
from study.config.loader import load_study
from study.config.spaces import count_proposals, make_system_space
from study.config.systems import get_baseline, list_default_comparisons
from study.folder.run_name import format_run_name
from trainables.losses import LOSSES
from trainables.losses.variants import can_smooth, make_variant_name
from trainables.smoothing.schedules import VARIANTS


def variants(*names: str) -> str:
    return f"variants=[{', '.join(repr(name) for name in names)}]"


def test_every_loss_has_every_smoothing_that_it_can_have():
    for loss in LOSSES:
        for name, row in VARIANTS.items():
            made = make_variant_name(loss, name)
            assert (made in STUDY_TYPE.variants) == can_smooth(loss, row.distribution)
            if made in STUDY_TYPE.variants:
                smoothing = STUDY_TYPE.make_smoothing(made, {})
                assert (smoothing.loss, smoothing.distribution, smoothing.schedule) == (loss, *row[:2])
    assert len({(row.distribution, row.schedule, row.loss) for row in STUDY_TYPE.variants.values()}) == len(
        STUDY_TYPE.variants
    )


def test_the_unsmoothed_form_is_the_baseline_of_its_loss():
    study = load_study("quick", [variants("BERT", "T-LS", "T-WSLS", "LCE", "LCE-T-LS", "LCE-T-WSLS")])
    assert get_baseline(study) == "BERT"
    assert list_default_comparisons(study) == [
        ("T-LS", "BERT"),
        ("T-WSLS", "BERT"),
        ("LCE", "BERT"),
        ("LCE-T-LS", "LCE"),
        ("LCE-T-WSLS", "LCE"),
        ("T-WSLS", "T-LS"),
        ("LCE-T-WSLS", "LCE-T-LS"),
    ]


def test_a_study_may_leave_out_the_default_loss():
    study = load_study("quick", [variants("RankNet", "RankNet-LS", "LCE")])
    assert get_baseline(study) == "RankNet"
    assert list_default_comparisons(study) == [("RankNet-LS", "RankNet"), ("LCE", "RankNet")]
    assert count_proposals(study) == {"RankNet-LS": 2, "LCE": 1}
    more = load_study("quick", [variants("RankNet", "RankNet-LS"), "search.n_configurations.RankNet-LS=3"])
    assert count_proposals(more) == {"RankNet-LS": 3}


def test_systems_are_compared_once_and_with_their_own_kind():
    curriculum = ("training.sampling=uniform", 'curriculum.variants=["BERT", "LCE"]')
    study = load_study("quick", [variants("BERT", "LCE", "LCE-LS"), *curriculum])
    pairs = list_default_comparisons(study)
    assert len(set(pairs)) == len(pairs)
    assert {("CL", "BERT"), ("LCE-CL", "LCE"), ("LCE-LS", "LCE")} <= set(pairs)
    temperatures = ("search.compare=temperature", "search.temperature=[1.0, 2.0]")
    compared = load_study("quick", [variants("BERT", "KL", "KL-LS"), *temperatures])
    assert {("KL-LS-1", "KL-1"), ("KL-LS-2", "KL-2")} <= set(list_default_comparisons(compared))


def test_temperatures_are_searched_where_they_matter():
    names = ("BERT", "LCE", "LCE-WSLS", "WSLS", "KL", "KL-LS")
    study = load_study("quick", [variants(*names), "search.temperature=[1.0, 5.0]"])
    asked = {name: set(make_system_space(study, name).points[0].values) for name in names}
    assert asked == {
        "BERT": set(),
        "LCE": set(),
        "LCE-WSLS": {"epsilon", "temperature"},
        "WSLS": {"epsilon"},
        "KL": {"temperature"},
        "KL-LS": {"epsilon", "temperature"},
    }


def test_the_name_of_a_run_says_the_loss_once():
    assert format_run_name({"variant": "LCE-LS", "loss": "lce", "epsilon": 0.2, "seed": 1}) == (
        "LCE-LS epsilon 0.2 seed 1"
    )
    assert format_run_name({"variant": "KL", "loss": "kl", "temperature": 5.0, "seed": 1}) == "KL temperature 5 seed 1"
