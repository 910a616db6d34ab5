"""Settings of curricula in a study file: the plan that it makes, its sweeps, and what a user may get wrong."""

import re

import pytest
import yaml

from study.config import trial_params as hyperparameters
from study.config.loader import load_study
from study.config.spaces import count_proposals, make_system_space
from study.config.systems import get_systems
from study.plan.analysis_plan import build_plan
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from study.wandb_sweeps import sweep_export as sweep_files
from tests.study.command import call, command
from trainables.utils.errors import UserError

SHIPPED = ("curriculum-scoring", "curriculum-pacing")


def test_the_plan_declares_every_curriculum_against_both_baselines():
    made = load_study("curriculum-scoring", ["variants=[\"BERT\", \"T-WSLS\"]", "task.sampler.weak_label=bm25",
                                       'curriculum.variants=["BERT", "T-WSLS"]'])  # fmt: skip
    plan = build_plan(made, "sha256:0")
    pairs = plan["families"][0]["comparisons"]
    scores = ["random", "turns", "words_context", "words_responses", "sigma_SM", "sigma_BM25", "BERT_pred", "BERT_loss"]
    names = [f"CL-{score}" for score in scores]
    assert plan["systems"] == ["BERT", "T-WSLS", *names, *(f"T-WSLS-{name}" for name in names)]
    assert [pair for pair in pairs if pair[1] == "CL-random"] == [[name, "CL-random"] for name in names[1:]]
    paced = [[f"T-WSLS-{name}", "T-WSLS-CL-random"] for name in names[1:]]
    assert [pair for pair in pairs if pair[1] == "T-WSLS-CL-random"] == paced
    assert [f"T-WSLS-{name}" for name in names] == [pair[0] for pair in pairs if pair[1] == "T-WSLS"]
    assert plan["scorer_seed"] == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_studies_have_what_the_paper_compares(name):
    made = load_study(name)
    found = get_systems(made)
    assert all(len(make_system_space(made, system).points) == 1 for system in found)
    assert count_proposals(made) == {system: 1 for system in found if system != "BERT"}
    first = make_system_space(made, list(found)[1]).points[0].values
    assert (first["delta"] if first["pacing"] != "step" else 0.33, first["duration"]) == (0.33, 0.9)
    settings = made.training
    assert (settings.batch_size, settings.learning_rate, settings.decay, settings.epochs) == (32, 2e-5, "linear", 3)
    assert (settings.negatives, settings.checkpoint, made.model.max_length) == (1, "MAP", 128)


def test_bounds_of_a_study_of_curricula_are_exact_where_nothing_is_shared():
    made = load_study("curriculum-scoring", ["training.epochs=none", "training.instances=320"])
    assert bound_instances_with_sharing(made) == bound_instances_without_sharing(made) == ((9 * 5 + 1) * 320,) * 2
    only = load_study(
        "curriculum-scoring", ["training.epochs=none", "training.instances=320", 'curriculum.score=["turns"]']
    )
    assert bound_instances_with_sharing(only) == bound_instances_without_sharing(only) == (2 * 5 * 320,) * 2


def test_the_seed_of_the_scorer_is_that_of_no_other_run():
    """Otherwise a run would compute the scores of its own curriculum."""
    assert load_study("curriculum-scoring").scorer_seed == 0
    assert load_study("curriculum-scoring", ["seeds=[0, 1, 3]", "confirm.seeds=[2, 9]"]).scorer_seed == 4


def test_a_sweep_names_a_curriculum_by_its_values(tmp_path):
    changes = [
        "curriculum.compare=none",
        'curriculum.score=["turns", "random"]',
        'curriculum.pacing=["linear", "step"]',
        "curriculum.delta=[0.2, 0.33]",
    ]
    made = load_study("curriculum-scoring", changes)
    given = {"variant": "CL", "pacing": "linear", "score": "turns", "delta": "0.2"}
    named = hyperparameters.parse_trial_params(made, given)
    assert named.params.values == {"pacing": "linear", "score": "turns", "delta": 0.2, "duration": 0.9}
    stepped = hyperparameters.parse_trial_params(
        made, {"variant": "CL", "pacing": "step", "score": "turns", "delta": "0.2"}
    )
    assert (stepped.ignored, "delta" in stepped.params.values) == (("delta",), False)
    beyond = hyperparameters.parse_trial_params(made, {**given, "pacing": "root_9", "delta": "0.4", "duration": "0.5"})
    assert beyond.params.values == {"pacing": "root_9", "score": "turns", "delta": 0.4, "duration": 0.5}
    for wrong, line in (
        ({**given, "pacing": "standard"}, "--sweep pacing"),
        ({**given, "pacing": "bla"}, "--sweep pacing: 'bla'; expected one of standard, "),
        ({**given, "delta": "1"}, "--sweep delta"),
        ({**given, "score": "BERT_pred"}, "--sweep score: BERT_pred; expected a score of the study's curriculum.score"),
        ({"variant": "CL", "score": "turns", "delta": "0.2"}, "--sweep pacing: missing"),
        ({**given, "variant": "CL-turns"}, "--sweep variant: CL-turns; expected one of the study's variants: BERT, CL"),
    ):
        with pytest.raises(UserError, match=re.escape(line)):
            hyperparameters.parse_trial_params(made, wrong)
    apart = load_study("curriculum-scoring")
    with pytest.raises(UserError, match="--sweep score: turns; expected random, the only value of CL-random"):
        hyperparameters.parse_trial_params(apart, {"variant": "CL-random", "score": "turns"})
    written = sweep_files.export_sweeps(made, sweep_files.StudyReference("curriculum-scoring", changes), tmp_path)
    content = yaml.safe_load(written[0].read_text(encoding="utf-8"))
    assert content["parameters"]["pacing"] == {"values": ["linear", "step"]}
    assert "step takes no delta" in written[0].read_text(encoding="utf-8")
    grid = load_study("curriculum-scoring", [*changes, "search.sampler=grid"])
    files = sweep_files.export_sweeps(
        grid, sweep_files.StudyReference("curriculum-scoring", changes), tmp_path / "grid"
    )
    assert sorted(path.name for path in files) == ["cl-gradual.yaml", "cl-step.yaml"]


def test_word_vectors_are_read_before_anything_is_spent(tmp_path):
    path = tmp_path / "broken.vec"
    path.write_text("not a header\nthe 1 2 3\n", encoding="utf-8")
    settings = ['variants=["BERT"]', 'curriculum.variants=["BERT"]', 'curriculum.score=["sigma_SM"]']
    settings += ["training.sampling=uniform", "search.n_configurations={}", f"curriculum.vectors={path}"]
    result = call("study.run", tmp_path, *command(tmp_path, *settings)[3:])
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("study.run: curriculum.vectors: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "study" / "runs").exists()
