"""A study from an encoder of every type runs on Ray, and gives the same bytes if it is killed within its runs."""

import json
from inspect import getdoc, getmembers

import networkx
import pytest

from tests.study.command import copy_cache, kill_within_a_run, records, results, run
from tests.trainables.models.architectures import TYPES, write_model

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STUDY = (
    'variants=["BERT", "LS"]',
    "seeds=[1]",
    "model.frozen_layers=0",
    "model.pooling=cls",
    "training.instances=480",
    "cache.checkpoint_interval=0",
)
"""Each of 30 batches is a checkpoint."""


@pytest.mark.parametrize("kind", TYPES)
def test_a_study_of_every_type_of_encoder_that_is_killed_gives_the_same_bytes(tmp_path, kind):
    texts = [text for _, member in getmembers(networkx) if (text := getdoc(member))]
    settings = (*STUDY, f"model.name={write_model(tmp_path / 'model', kind, texts)}")
    reference, place = tmp_path / "reference", tmp_path / "killed"
    undisturbed = run(reference, *settings)
    assert undisturbed.returncode == 0, undisturbed.stdout + undisturbed.stderr
    copy_cache(reference, place)
    kill_within_a_run(place, 160, *settings)
    assert len(records(place)) < len(records(reference)), "it had ended before it was killed"
    last = run(place, *settings)
    assert last.returncode == 0, last.stdout + last.stderr
    assert results(place) == results(reference)
    entries = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    assert max(entry["summary"].get("instances_resumed", 0) for entry in entries) >= 160
