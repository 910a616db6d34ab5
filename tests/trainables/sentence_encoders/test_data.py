"""Data of sentence encoders that no study can be run on is an error before anything is trained."""

from pathlib import Path

import pytest

from study.config.loader import load_study
from study.config.schema import Study
from tests.sts import write_settings
from tests.study.command import merged
from tests.trainables.encoders import Encoders
from trainables.data.sentence_dataset import SentenceDataset, prepare_data
from trainables.models import pretrained as weights
from trainables.sentence_encoders.encoder_data import check_data, describe_data, summarize_data
from trainables.utils.errors import UserError

SMALL = ("training.instances=128", "training.batch_size=64", "training.epochs=none", "training.evaluations=2")


def made(encoders: Encoders, place: Path, *overrides: str) -> tuple[Study, SentenceDataset]:
    settings = write_settings(place)
    own = (f"model.name={encoders.bert}", f"cache.folder={place / 'cache'}")
    study = load_study("gs-infonce", merged(*SMALL, *own, *overrides))
    return study, prepare_data(settings, place / "cache")


def test_what_can_be_run_is_let_through_and_counted(encoders: Encoders, tmp_path: Path) -> None:
    study, prepared = made(encoders, tmp_path, "model.max_length=8")
    check_data(study, prepared)
    lines = list(summarize_data(study, prepared))
    assert lines[0].endswith("200 sentences")
    assert any(line.split()[:2] == ["SICK-R", "8"] for line in lines)
    assert lines[-1].startswith("tokens of a sentence: ")
    assert lines[-1].endswith("lose text, in training to model.max_length = 8")


def test_training_sentences_that_are_evaluated_too_are_counted_and_refused_where_a_study_says_so(
    encoders: Encoders, tmp_path: Path
) -> None:
    study, prepared = made(encoders, tmp_path)
    pairs, known = prepared.read_pairs("test"), {text.lower() for text in prepared.read_sentences()}
    tested = {*pairs["first"], *pairs["second"]}
    shared = sum(text.lower() in known for text in tested)
    said = f"{shared} of {len(tested)} test sentences ({100 * shared / len(tested):.2g} %) are training sentences too"
    assert shared
    assert said in list(summarize_data(study, prepared))
    assert ["test", "train", shared] in [
        [row[key] for key in ("split", "other", "texts")] for row in prepared.find_overlaps()
    ]
    assert describe_data(prepared)["overlaps"] == prepared.find_overlaps()
    strict = study.model_copy(update={"task": study.task.model_copy(update={"allowed_overlap": 0.05})})
    with pytest.raises(UserError, match=r"task\.allowed_overlap: 0\.05, but .* sentences too"):
        check_data(strict, prepared)
    assert (
        prepare_data(write_settings(tmp_path, allowed_overlap=0.05), tmp_path / "other").fingerprint
        == prepared.fingerprint
    )


def test_a_batch_is_no_larger_than_an_epoch(encoders: Encoders, tmp_path: Path) -> None:
    study, prepared = made(encoders, tmp_path, "training.batch_size=256", "training.instances=512")
    with pytest.raises(UserError, match=r"training\.batch_size: 256; expected at most 200"):
        check_data(study, prepared)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_similarities_that_are_all_alike_tell_nothing(encoders: Encoders, tmp_path: Path, split: str) -> None:
    settings = write_settings(tmp_path)
    file = tmp_path / "STS" / "STSBenchmark" / f"sts-{split}.csv"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join("\t".join([*row[:4], "3.0", *row[5:]]) + "\n" for row in rows), encoding="utf-8")
    study = load_study("gs-infonce", [*SMALL, f"model.name={encoders.bert}"])
    with pytest.raises(UserError, match=rf"all 8 {split} pairs of STS-B have the same similarity"):
        check_data(study, prepare_data(settings, tmp_path / "cache"))


def test_fresh_layers_are_among_those_that_are_trained(encoders: Encoders, tmp_path: Path) -> None:
    study, prepared = made(encoders, tmp_path, "model.frozen_layers=1", "model.reinit_layers=3")
    with pytest.raises(UserError, match=r"model\.reinit_layers: 3; expected at most 2"):
        check_data(study, prepared)


def test_a_model_without_a_tokenizer_is_an_error(encoders: Encoders, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(encoders.bert / name)
    with pytest.raises(UserError, match="no tokenizer in"):
        weights.check_model_settings(tmp_path, load_study("gs-infonce").model)
