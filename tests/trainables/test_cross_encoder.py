"""The model is transformers' own, whether it is split, padded or pooled in another way."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from tests.trainables.small import (
    FROZEN,
    Fresh,
    World,
    finish,
    fresh_model,
    ids_batch,
    job,
)
from trainables.cross_encoder import Batch
from trainables.errors import UserError
from trainables.features import token_batch
from trainables.run import Data, Run
from trainables.specification import ModelSettings
from trainables.training import weights_hash
from trainables.weights import check


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_feature_cache_changes_no_logit(world: World, fresh: Fresh, family: str, pooling: str) -> None:
    path = world.bert if family == "bert" else world.roberta
    settings = {"pooling": pooling, "max_length": 32}
    split, whole = fresh_model(path, {**settings, "frozen_layers": 1}).eval(), fresh_model(path, settings).eval()
    split_job = job(world, fresh(), model={**settings, "frozen_layers": 1}, path=path)
    data = Data(split_job)
    rows = np.array([3, 0, 77, 251, 598, 12, 402])
    with torch.inference_mode():
        found = split(data.read(rows))
        expected = whole(token_batch(data.tokens, rows, whole.padding))
    assert found.shape == (len(rows), 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_the_frozen_part_stays(world: World, fresh: Fresh) -> None:
    run = Run(job(world, fresh(), model=FROZEN))
    model = run.trainer.model
    assert model.lower is not None
    lower, upper = dict(model.lower.named_parameters()), dict(model.upper.named_parameters())
    before = weights_hash(lower), weights_hash(upper)
    finish(run)
    assert weights_hash(lower) == before[0]
    assert weights_hash(upper) != before[1]
    assert not any(name.startswith("lower") for name in model.trained())
    assert model.train().lower.training is False  # type: ignore[union-attr]


@pytest.mark.parametrize(("pooling", "inputs"), [("cls", 32), ("mean", 32), ("cosine", 1)])
def test_poolings(world: World, pooling: str, inputs: int) -> None:
    model = fresh_model(world.bert, {"pooling": pooling}).eval()
    pairs = ids_batch([9, 14, 11], [4, 6, 3])
    assert model.head.in_features == inputs
    assert model(pairs).shape == (3, 2)
    assert (model.pooler is not None) == (pooling == "cls")


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
def test_a_score_depends_on_both_texts(world: World, pooling: str) -> None:
    model = fresh_model(world.bert, {"pooling": pooling}).eval()
    pairs = ids_batch([12] * 3, [5] * 3)
    ids = pairs.inputs[:1].repeat(3, 1)
    ids[1, 2], ids[2, 8] = 2222, 2222  # another word in the query; in the document
    with torch.inference_mode():
        logits = model(pairs._replace(inputs=ids))
    assert (logits[0] - logits[1]).abs().max() > 1e-6
    assert (logits[0] - logits[2]).abs().max() > 1e-6


def cosines(path: Path, pairs: Batch) -> np.ndarray:
    """The oracle: transformers' own forward pass, then numpy."""
    types = (torch.arange(pairs.inputs.shape[1]) >= pairs.starts[:, None]).long()
    with torch.inference_mode():
        output = AutoModel.from_pretrained(path).eval()(input_ids=pairs.inputs, token_type_ids=types)
    found = []
    for row, start in zip(output.last_hidden_state.double().numpy(), pairs.starts.tolist(), strict=True):
        query, document = row[:start].mean(0), row[start:].mean(0)
        found.append(query @ document / np.linalg.norm(query) / np.linalg.norm(document))
    return np.array(found)


def test_cosine_pooling_is_the_cosine_of_the_two_means(world: World) -> None:
    model = fresh_model(world.bert, {"pooling": "cosine"}).eval()
    pairs = ids_batch([12, 12, 12], [5, 7, 3])
    with torch.inference_mode():
        logits = model(pairs).numpy()
    expected = cosines(world.bert, pairs)[:, None] * model.head.weight.detach().numpy()[:, 0]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)


def test_a_calibrated_cosine_is_in_units_of_its_spread(world: World) -> None:
    model = fresh_model(world.bert, {"pooling": "cosine"})
    pairs = ids_batch([12] * 20, [5] * 20)
    model.calibrate(pairs)
    raw = cosines(world.bert, pairs)
    expected = (raw - raw.mean()) / raw.std(ddof=1)
    with torch.inference_mode():
        found = model.eval()(pairs) / model.head.weight[:, 0]
    np.testing.assert_allclose(found.numpy(), np.stack([expected, expected], 1), rtol=0, atol=1e-3)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_calibration_is_of_cosines_only(world: World, pooling: str) -> None:
    model, pairs = fresh_model(world.bert, {"pooling": pooling}).eval(), ids_batch([12] * 3, [5] * 3)
    before = model(pairs)
    model.calibrate(pairs)
    assert torch.equal(model(pairs), before)


def test_an_untrained_cosine_head_ranks_by_cosine(world: World) -> None:
    model, pairs = fresh_model(world.bert, {"pooling": "cosine"}).eval(), ids_batch([12] * 20, [5] * 20)
    with torch.inference_mode():
        logits = model(pairs)
    assert (logits[:, 1] - logits[:, 0]).argsort().tolist() == cosines(world.bert, pairs).argsort().tolist()


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_padding_does_not_change_a_score(world: World, family: str, pooling: str) -> None:
    model = fresh_model(world.bert if family == "bert" else world.roberta, {"pooling": pooling}).eval()
    vocabulary = model.embeddings.word_embeddings.num_embeddings  # type: ignore[union-attr]
    pairs = ids_batch([9, 14, 11], [4, 6, 3])
    ids = pairs.inputs % vocabulary
    ids[ids < 5] = 7
    padded = []
    for width in (14, 20):
        wide = torch.full((3, width), model.padding)
        for row, length in enumerate(pairs.lengths.tolist()):
            wide[row, :length] = ids[row, :length]
        padded.append(pairs._replace(inputs=wide))
    with torch.inference_mode():
        narrow, wide_logits = model(padded[0]), model(padded[1])
        alone = model(Batch(ids[:1, :9], pairs.lengths[:1], pairs.starts[:1]))
    torch.testing.assert_close(narrow, wide_logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(narrow[:1], alone, rtol=0, atol=1e-5)


def test_the_head_is_the_seeds_own(world: World) -> None:
    heads = [fresh_model(world.bert, seed=seed).head.weight for seed in (1, 1, 2)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_longest_pair_that_the_check_allows_fits(world: World, family: str) -> None:
    path = world.bert if family == "bert" else world.roberta

    def allowed(length: int) -> bool:
        try:
            check(path, ModelSettings(max_length=length))
        except UserError:
            return False
        return True

    longest = max(filter(allowed, range(8, 80)))
    assert longest == 64
    ids = torch.full((1, longest), 7)
    logits = fresh_model(path).eval()(Batch(ids, torch.tensor([longest]), torch.tensor([5])))
    assert torch.isfinite(logits).all()
