"""The model before training, as a sentence encoder: the cosines that sentence-transformers itself computes."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from sentence_transformers.util import pairwise_cos_sim

from tests.trainables.exchange.test_export import export, make_ranker
from tests.trainables.small import Fresh, World, finish, job
from trainables.rankers.ranker_export import _read_texts


def write_model(world: World, kind: str, place: Path) -> tuple[Path, SentenceTransformer]:
    """A model, and what the library makes of it: an own pooling, or the mean."""
    if kind == "plain":
        return world.bert, SentenceTransformer(str(world.bert), device="cpu")
    if kind in ("mean", "cls"):  # saved rankers: of modules, and of a model for sequence classification
        path = export(make_ranker(world.bert, pooling=kind), world.bert, place)
        return path, SentenceTransformer(modules=[Transformer(str(path)), Pooling(32, "mean")], device="cpu")
    layers = [Pooling(32, "max"), Dense(32, 8, activation_function=None), Normalize()]
    oracle = SentenceTransformer(modules=[Transformer(str(world.bert), max_seq_length=9), *layers], device="cpu")
    oracle.save(str(place))
    return place, oracle


@pytest.mark.parametrize("kind", ["plain", "sentence encoder", "mean", "cls"])
def test_scores_are_those_of_the_library(world: World, fresh: Fresh, tmp_path: Path, kind: str) -> None:
    path, oracle = write_model(world, kind, tmp_path / "model")
    trained = job(world, fresh(), path=path, instances=0, precision="fp32")
    specification = trained.specification.model_copy(update={"system": "cosine", "seed": None})
    for action, split in (("train", "dev"), ("test", "test")):
        found = finish(trained.model_copy(update={"specification": specification, "action": action}))
        queries, documents = zip(*_read_texts(world.prepared, world.prepared.read_candidates(split)), strict=True)
        encoded = (oracle.encode(list(texts), convert_to_tensor=True) for texts in (queries, documents))
        np.testing.assert_allclose(found.scores, pairwise_cos_sim(*encoded), rtol=0, atol=1e-5)
        assert found.scores.std() > 1e-4
        assert (found.split, found.weights_hash, found.history) == (split, None, [])
