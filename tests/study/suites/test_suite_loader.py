"""Settings of a suite file and its studies; a mistake is one line."""

from pathlib import Path

import pytest

from records.suite_plan import PublishedScore
from study.config.loader import load_study
from study.suites.suite_loader import is_suite, load_suite
from tests.study.test_mistakes import check, read_mistakes
from trainables.utils.errors import UserError

SUITE = """
name = "small"
base = "quick"

[study]
seeds = [1, 2]
training.epochs = 2

[axes.sampler.BM25]
[axes.sampler.random]
task.sampler = { name = "random", weak_label = "bm25" }

[axes.task.short]
task.document_words = 30
training.instances = 128
[axes.task.long]
task.document_words = 60
"""


def written(folder: Path, text: str = SUITE) -> str:
    path = folder / "suite.toml"
    path.write_text(text)
    return str(path)


def test_there_is_a_study_for_each_combination_in_the_order_of_the_axes(tmp_path):
    suite = load_suite(written(tmp_path))
    assert [each.key for each in suite.studies] == ["bm25-short", "bm25-long", "random-short", "random-long"]
    assert suite.studies[2].labels == {"sampler": "random", "task": "short"}
    assert [each.study.task.sampler.name for each in suite.studies] == ["bm25", "bm25", "random", "random"]
    assert [each.study.task.document_words for each in suite.studies] == [30, 60, 30, 60]
    assert (suite.columns, suite.planned) == ("task", suite.studies)


def test_a_study_of_a_suite_is_the_study_with_these_settings(tmp_path):
    """Apart from its name and its places it is the one that the same overrides make."""
    study = load_suite(written(tmp_path)).studies[1].study
    alone = load_study("quick", ["seeds=[1, 2]", "training.epochs=2", "task.document_words=60"])
    own = {"name", "output", "tracking", "expected"}
    assert study.model_dump(exclude=own) == alone.model_dump(exclude=own)
    assert study.name == "small-bm25-long"
    assert study.folder == Path("results/small/bm25-long").absolute()
    assert (study.tracking.project, study.tracking.group) == ("small", "bm25-long")


def test_a_later_place_replaces_an_alternative_of_an_earlier_one(tmp_path):
    """Epochs of the suite, instances of an axis, epochs of the command line."""
    source = written(tmp_path)
    assert [each.study.training.epochs for each in load_suite(source).studies] == [None, 2, None, 2]
    assert {each.study.training.epochs for each in load_suite(source, ["training.epochs=3"]).studies} == {3}


PLACES = {
    "command line": ("", ["output.folder=/tmp/place", "output.remote=/tmp/copy"]),
    "quoted": ("", ["output.folder='/tmp/place'", 'output.remote="/tmp/copy"']),
    "a table": ("", ["output={folder = '/tmp/place', remote = '/tmp/copy'}"]),
    "variables": ("", ["output.folder=${PLACE}/place", "output.remote=${PLACE}/copy"]),
    "file": ('output = { folder = "${PLACE}/place", remote = "/tmp/copy/" }\n', []),
    "both": ('output = { folder = "/tmp/elsewhere", remote = "/tmp/copy" }\n', ["output.folder=/tmp/place"]),
}


@pytest.mark.parametrize("how", PLACES)
def test_overrides_hold_for_all_studies_and_places_are_those_of_the_suite(tmp_path, how, monkeypatch):
    monkeypatch.setenv("PLACE", "/tmp")
    line, given = PLACES[how]
    source = written(tmp_path, SUITE.replace("[study]\n", f"[study]\n{line}"))
    suite = load_suite(source, ["name=other", "seeds=[7]", *given])
    assert (suite.name, suite.folder) == ("other", Path("/tmp/place"))
    for each in suite.studies:
        assert each.study.seeds == (7,)
        assert each.study.name == f"other-{each.key}"
        assert each.study.folder == Path("/tmp/place", each.key)
        assert each.study.records_url == f"/tmp/copy/{each.key}"
        assert each.study.project == "other"


def test_some_studies_can_be_selected_and_the_data_of_others_may_be_absent(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_DATA", raising=False)
    source = written(tmp_path, SUITE.replace("task.document_words = 60", 'task.libraries = ["${NO_SUCH_DATA}"]'))
    suite = load_suite(source, selected=["*short"])
    assert [each.key for each in suite.studies] == ["bm25-short", "random-short"]
    assert [each.key for each in suite.planned] == ["bm25-short", "bm25-long", "random-short", "random-long"]
    with pytest.raises(UserError, match=r"axes\.task\.long.*NO_SUCH_DATA to be set"):
        load_suite(source)
    with pytest.raises(UserError, match="one of bm25-short, bm25-long, random-short, random-long"):
        load_suite(source, selected=["x"])


def test_combinations_can_be_skipped(tmp_path):
    source = written(tmp_path, SUITE.replace("[study]", 'skip = [{ sampler = "random", task = "long" }]\n[study]', 1))
    assert [each.key for each in load_suite(source).studies] == ["bm25-short", "bm25-long", "random-short"]


def test_a_base_is_found_next_to_the_suite(tmp_path):
    (tmp_path / "base.toml").write_text(
        'name = "base"\nvariants = ["BERT"]\nmodel.name = "a/b"\ntraining.negatives = 1'
    )
    suite = load_suite(written(tmp_path, SUITE.replace('"quick"', '"base.toml"')))
    assert {each.study.variants for each in suite.studies} == {("BERT",)}


def test_studies_that_may_have_the_same_runs_have_projects_of_their_own(tmp_path):
    for setting in ('variants = ["BERT", "LS"]', "training.learning_rate = 1e-4", 'model.name = "a/b"'):
        text = SUITE[: SUITE.index("[axes")] + f"[axes.part.first]\n{setting}\n[axes.part.second]\n"
        studies = load_suite(written(tmp_path, text)).studies
        assert [each.study.project for each in studies] == ["small-first", "small-second"]
        (alone,) = load_suite(written(tmp_path, text), ["tracking.project=ours"], ["first"]).studies
        assert alone.study.project == "ours-first"


def test_studies_of_two_metrics_have_two_margins(tmp_path):
    axis = '[axes.metric.top]\n[axes.metric.mean]\nanalysis = { metric = "position", margin = 0.05 }\n'
    suite = load_suite(written(tmp_path, SUITE + axis))
    assert {(each.study.analysis.metric, each.study.analysis.margin) for each in suite.studies} == {
        ("R10@1", 0.02),
        ("position", 0.05),
    }


def test_what_is_the_bases_own_is_not_the_suites(tmp_path):
    base = 'name = "base"\noutput = { folder = "x", remote = "y" }\ntracking = { project = "p", entity = "e" }\n'
    (tmp_path / "base.toml").write_text(base + 'model.name = "a/b"\ntraining.negatives = 1')
    for each in load_suite(written(tmp_path, SUITE.replace('"quick"', '"base.toml"'))).studies:
        assert (each.study.project, each.study.tracking.entity, each.study.records_url) == ("small", "e", None)
        assert each.study.folder == Path(f"results/small/{each.key}").absolute()


def test_the_message_about_a_suite_with_misspelt_axes_names_them(tmp_path):
    source = written(tmp_path, SUITE.replace("[axes", "[axis"))
    assert is_suite(source)
    with pytest.raises(UserError, match=r"axes: missing.*\n?.*axis: .*expected one of name, base, study, axes"):
        load_suite(source)


def test_a_command_for_one_study_refuses_a_suite(tmp_path):
    source = written(tmp_path)
    assert is_suite(source)
    assert not is_suite("quick")
    assert not is_suite(None)
    assert not is_suite(str(tmp_path / "absent.toml"))
    with pytest.raises(UserError, match="a suite of studies"):
        load_study(source)


@pytest.mark.parametrize(("given", "said"), read_mistakes("suite").items())
def test_a_mistake_is_one_line(tmp_path, given, said):
    old, new = given.replace("\\n", "\n").split(" => ")
    with pytest.raises(UserError) as error:
        load_suite(written(tmp_path, SUITE.replace(old, new, 1)))
    check(str(error.value), said)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["name=a", "name=b"], "name: given twice"),
        (["output.folder=3"], r"command line: output\.folder: 3; expected text"),
        (["output={x = 1}"], r"command line: output: .*expected a table of folder"),
        (["name=3"], "name: 3; expected lower-case"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(tmp_path, overrides, told):
    with pytest.raises(UserError, match=told) as error:
        load_suite(written(tmp_path), overrides)
    assert "\n" not in str(error.value)


def test_published_results_may_be_next_to_the_suite(tmp_path):
    table = '[best]\nsource = "me"\nmetric = "R10@1"\n[best.scores.BM25]\nshort = {BERT = 0.5}\n'
    (tmp_path / "mine.toml").write_text(table)
    source = written(tmp_path, SUITE.replace("[study]", "published = 'mine.best'\n[study]", 1))
    suite = load_suite(source)
    assert suite.published.scores == {"BM25/short": {"BERT": PublishedScore(mean=0.5)}}
    for wrong in ("{BERT = {}}", "{BERT = {sd = 0.1}}", "{BERT = 'x'}"):
        (tmp_path / "mine.toml").write_text(table.replace("{BERT = 0.5}", wrong))
        with pytest.raises(UserError, match=r"published: mine\.best"):
            load_suite(source)
