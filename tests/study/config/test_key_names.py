"""A setting with two names: a user may write either, and is answered in the words that he wrote."""

from pathlib import Path

import pytest

from study.config.key_names import _KEYS, get_study_file_key
from study.config.loader import load_study
from study.config.study_class import get_study_class
from study.plan.analysis_plan import build_plan
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

VALUES = {
    "search.trials": "{LS=1}",
    "search.parallel": "5",
    "output.records": "copy",
    "cache.stages": "states",
    "cache.interval": "3.5",
    "cache.budget": "7GB",
    "model.layers": "6",
    "model.fresh_layers": "2",
    "task.sampler.authors": "true",
    "task.evaluation_sampler.authors": "true",
}
OF_ENCODERS = {"model.fresh_layers"}
SMALL = 'name = "small"\n[training]\ninstances = 64\nbatch_size = 32\nnegatives = 1\n'


def base(field: str) -> str:
    return "gs-infonce" if field in OF_ENCODERS else "quick"


def message(path: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_study(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("field", _KEYS)
def test_both_names_give_the_same_study_and_plan(field: str) -> None:
    name, value = base(field), VALUES[field]
    changed, old, new = (load_study(name, given) for given in ([], [f"{field}={value}"], [f"{_KEYS[field]}={value}"]))
    assert old == new != changed
    assert hash_json(build_plan(old, "sha256:0")) == hash_json(build_plan(new, "sha256:0"))
    found: object = new
    for part in field.replace("cache.", "caching.").split("."):
        found = getattr(found, part)  # the name of the field, as plans and ids have it
    assert _KEYS[field].rpartition(".")[2] not in str(new.model_dump())


def test_a_file_may_have_either_name(tmp_path: Path) -> None:
    texts = (
        "[search]\nparallel = 4\n[search.trials]\nLS = 1\n[task.sampler]\nauthors = true\n[cache]\nbudget = '1GB'\n",
        "[search]\nround_size = 4\nn_configurations.LS = 1\n[task.sampler]\npaper_code = true\n[cache]\n"
        "max_size = '1GB'\n",
    )
    studies = []
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.toml").write_text(SMALL + text)
        studies.append(load_study(str(tmp_path / f"{number}.toml")))
    assert studies[0] == studies[1]
    assert (studies[0].search.parallel, studies[0].search.trials) == (4, {"LS": 1})


@pytest.mark.parametrize("field", _KEYS)
def test_one_setting_by_both_names_is_refused_in_one_line(field: str) -> None:
    key, value = _KEYS[field], VALUES[field]
    inner = {"search.trials": ".LS"}.get(field, "")
    expected = f"command line: {key}{inner}: given twice, also as {field}{inner}; expected only one of them"
    assert message(base(field), f"{field}={value}", f"{key}={value}") == expected


def test_both_names_in_a_file_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SMALL + "[search.trials]\nLS = 1\n[search.n_configurations]\nT-LS = 1\n")
    conflict = f"{file}: search.n_configurations: given twice, also as search.trials; expected only one of them"
    assert message(str(file)) == conflict
    assert message(str(file), "search.trials.LS=2") == conflict
    one = "search={parallel=2, round_size=2}"
    assert message("quick", one).startswith("command line: search.round_size: given twice, also as search.parallel; ")


@pytest.mark.parametrize(("written", "overriding"), [(0, 1), (1, 0), (0, 0), (1, 1)])
def test_an_override_by_either_name_replaces_the_value_of_the_file(
    tmp_path: Path, written: int, overriding: int
) -> None:
    trials, parallel = (("trials", "n_configurations"), ("parallel", "round_size"))
    file = tmp_path / "study.toml"
    file.write_text(SMALL + f"[search]\n{parallel[written]} = 4\n[search.{trials[written]}]\nLS = 1\nT-LS = 2\n")
    study = load_study(str(file), [f"search.{parallel[overriding]}=3", f"search.{trials[overriding]}.LS=4"])
    assert (study.search.parallel, study.search.trials) == (3, {"LS": 4, "T-LS": 2})
    for name, place in ((trials[overriding], "command line"), (trials[written], str(file))):
        number, system = (9, "LS") if place == "command line" else (2, "T-LS")
        given = [f"search.{name}.LS=9"] if place == "command line" else ["search.epsilon=[0.1]", "search.switch=[0.5]"]
        found = message(str(file), *given)
        assert f"search.{name}.{system}: {number}; expected at most" in found


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.parallel=0", "search.parallel: 0; "),
        ("search.round_size=0", "search.round_size: 0; "),
        ("search.trials=3", "search.trials: 3; expected a table"),
        ("search.n_configurations=3", "search.n_configurations: 3; expected a table"),
        ("search.trials.LS=9", "search.trials.LS: 9; expected at most 4"),
        ("cache.budget=20", "cache.budget: 20; "),
        ("cache.max_size=20", "cache.max_size: 20; "),
        ("cache.stages=nowhere://x", "cache.stages: 'nowhere://x'; "),
        ("output.remote=nowhere://x", "output.remote: 'nowhere://x'; "),
        ("model.num_layers=x", "model.num_layers: 'x'; "),
        ("task.sampler.paper_code=1", "task.sampler.paper_code: 1; "),
        ("search.epsilon=[0.2]", "search.n_configurations.LS: 2; expected at most 1"),
        ("model={frozen_layers=5, layers=5}", "model.frozen_layers: 5; expected fewer than model.num_layers = 5"),
    ],
)
def test_a_mistake_is_told_under_the_name_that_was_written(override: str, told: str) -> None:
    assert message("quick", override).startswith(f"command line: {told}")


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("search.n_configuration.LS=2", "did you mean search.n_configurations?"),
        ("search.trial.LS=2", "did you mean search.n_configurations?"),
        ("search.roundsize=2", "did you mean search.round_size?"),
        ("parallel=2", "did you mean search.round_size?"),
        ("num_layers=2", "did you mean model.num_layers?"),
        ("records=x", "did you mean output.remote?"),
        ("model.reinit_layers=2", "did you mean model.frozen_layers?"),  # a key of sentence encoders
        ("search.trials.BM25=2", "there are search.n_configurations.BERT, search.n_configurations.LS"),
    ],
)
def test_an_unknown_key_is_answered_with_the_key_of_study_files(override: str, hint: str) -> None:
    line = message("quick", override)
    assert line.startswith(f"command line: {override.partition('=')[0].removesuffix('.LS')}: ")
    assert hint in line


def test_every_name_is_one_of_a_field() -> None:
    """Else a setting that was renamed or removed would leave a name behind that means nothing."""
    for field, key in _KEYS.items():
        kinds = get_study_class("sentence-encoder" if field in OF_ENCODERS else "cross-encoder").model_fields
        *tables, name = field.replace("cache.", "caching.").split(".")
        for table in tables:
            kinds = kinds[table].annotation.model_fields  # type: ignore[union-attr]
        assert name in kinds
        assert key.rpartition(".")[2] not in kinds
        assert get_study_file_key(f"{field}.X") == f"{key}.X"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('"search.seeds" = [7]\n', "search.seeds"),
        ('"training.learning_rate" = 1e-4\n', "training.learning_rate"),
        ('"output.remote" = "x"\n', "output.remote"),
        ('[training]\n"x.learning_rate" = 7.0\n', "training.x.learning_rate"),
        ('[search.n_configurations]\n"a.LS" = 9\n', "search.n_configurations.a.LS"),
    ],
)
def test_a_dotted_name_in_quotes_is_no_key(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(f'name = "small"\n{text}')
    assert f"{file}: {key}: " in message(str(file))
    assert "in quotes; expected a key without a dot in it" in message(str(file))


def test_a_name_that_the_user_chooses_may_have_a_dot(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SMALL + '[resources.custom]\n"node.large" = 1.0\n')
    assert load_study(str(file)).resources.custom == {"node.large": 1.0}
