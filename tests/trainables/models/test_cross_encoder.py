"""The model is transformers' own, whether it is split, packed or pooled in another way."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from tests.trainables.small import FROZEN, Fresh, World, finish, fresh_model, ids_batch, job, padded
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.models.pretrained import check_model_settings
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.specs.ranker import RankerModelSettings
from trainables.training.frozen_features import make_token_batch
from trainables.training.trainer import hash_weights
from trainables.utils.errors import UserError


def vocabulary(model: CrossEncoder) -> int:
    assert model.embeddings is not None
    size: int = model.embeddings.word_embeddings.num_embeddings  # type: ignore[union-attr, assignment]
    return size


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_feature_cache_changes_no_logit(world: World, fresh: Fresh, family: str, pooling: str) -> None:
    path = world.bert if family == "bert" else world.roberta
    settings = {"pooling": pooling, "max_length": 32}
    split, whole = fresh_model(path, {**settings, "frozen_layers": 1}), fresh_model(path, settings)
    split_job = job(world, fresh(), model={**settings, "frozen_layers": 1}, path=path)
    data = RankerData(split_job)
    rows = np.array([3, 0, 77, 251, 598, 12, 402])
    with torch.inference_mode():
        found = split(data.read(rows))
        expected = whole(make_token_batch(data.tokens, rows))
    assert found.shape == (len(rows), 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_the_frozen_part_stays(world: World, fresh: Fresh) -> None:
    run = RankerRun(job(world, fresh(), model=FROZEN))
    model = run.trainer.model
    assert model.lower is not None
    lower, upper = dict(model.lower.named_parameters()), dict(model.upper.named_parameters())
    before = hash_weights(lower), hash_weights(upper)
    finish(run)
    assert hash_weights(lower) == before[0]
    assert hash_weights(upper) != before[1]
    assert not any(name.startswith("lower") for name in model.trainable_parameters())


def hidden_states(path: Path, pairs: PackedBatch) -> tuple[list[np.ndarray], np.ndarray]:
    """The oracle: transformers' own forward pass; the last hidden states of each pair and the pooler's output."""
    inputs = padded(pairs)
    with torch.inference_mode():
        base = AutoModel.from_pretrained(path).eval()
        if base.config.type_vocab_size == 1:
            inputs["token_type_ids"] = torch.zeros_like(inputs["token_type_ids"])
        inputs["input_ids"][inputs["attention_mask"] == 0] = base.config.pad_token_id
        output = base(**inputs)
    rows = output.last_hidden_state.double().numpy()
    return [row[:length] for row, length in zip(rows, pairs.lengths, strict=True)], output.pooler_output.numpy()


LENGTHS, STARTS = [9, 14, 11, 30, 14, 64, 3, 9], [4, 6, 3, 20, 5, 2, 2, 8]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_packed_logits_are_those_of_transformers(world: World, family: str, pooling: str) -> None:
    path = world.bert if family == "bert" else world.roberta
    model = fresh_model(path, {"pooling": pooling})
    pairs = ids_batch(LENGTHS, STARTS)
    pairs = pairs._replace(inputs=pairs.inputs % (vocabulary(model) - 5) + 5)
    hidden, pooled = hidden_states(path, pairs)
    seen = pooled if pooling == "cls" else np.stack([row.mean(0) for row in hidden])
    with torch.inference_mode():
        found = model(pairs).numpy()
    head = model.head.weight.detach().numpy()
    np.testing.assert_allclose(found, seen @ head.T, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("pooling", "inputs"), [("cls", 32), ("mean", 32), ("cosine", 1)])
def test_poolings(world: World, pooling: str, inputs: int) -> None:
    model = fresh_model(world.bert, {"pooling": pooling})
    assert model.head.in_features == inputs
    assert model(ids_batch([9, 14, 11], [4, 6, 3])).shape == (3, 2)
    assert (model.pooler is not None) == (pooling == "cls")


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
def test_a_score_depends_on_both_texts(world: World, pooling: str) -> None:
    model = fresh_model(world.bert, {"pooling": pooling})
    pairs = ids_batch([12] * 3, [5] * 3)
    ids = pairs.inputs[:12].repeat(3, 1)
    ids[1, 2], ids[2, 8] = 2222, 2222  # another word in the query; in the document
    with torch.inference_mode():
        logits = model(pairs._replace(inputs=ids.reshape(-1)))
    assert (logits[0] - logits[1]).abs().max() > 1e-6
    assert (logits[0] - logits[2]).abs().max() > 1e-6


def cosines(path: Path, pairs: PackedBatch) -> np.ndarray:
    """The oracle, then numpy."""
    found = []
    for row, start in zip(hidden_states(path, pairs)[0], pairs.starts, strict=True):
        query, document = row[:start].mean(0), row[start:].mean(0)
        found.append(query @ document / np.linalg.norm(query) / np.linalg.norm(document))
    return np.array(found)


def test_cosine_pooling_is_the_cosine_of_the_two_means(world: World) -> None:
    model = fresh_model(world.bert, {"pooling": "cosine"})
    pairs = ids_batch(LENGTHS, STARTS)
    with torch.inference_mode():
        logits = model(pairs).numpy()
    expected = cosines(world.bert, pairs)[:, None] * model.head.weight.detach().numpy()[:, 0]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)


def test_a_calibrated_cosine_is_in_units_of_its_spread(world: World) -> None:
    model = fresh_model(world.bert, {"pooling": "cosine"})
    pairs = ids_batch([12] * 20, [5] * 20)
    model.standardize_cosine(pairs)
    raw = cosines(world.bert, pairs)
    expected = (raw - raw.mean()) / raw.std(ddof=1)
    with torch.inference_mode():
        found = model(pairs) / model.head.weight[:, 0]
    np.testing.assert_allclose(found.numpy(), np.stack([expected, expected], 1), rtol=0, atol=1e-3)


def test_an_untrained_cosine_head_ranks_by_cosine(world: World) -> None:
    model, pairs = fresh_model(world.bert, {"pooling": "cosine"}), ids_batch([12] * 20, [5] * 20)
    with torch.inference_mode():
        logits = model(pairs)
    assert (logits[:, 1] - logits[:, 0]).argsort().tolist() == cosines(world.bert, pairs).argsort().tolist()


@pytest.mark.parametrize("pooling", ["cls", "mean", "cosine"])
def test_company_does_not_change_a_score(world: World, pooling: str) -> None:
    model, pairs = fresh_model(world.bert, {"pooling": pooling}), ids_batch(LENGTHS, STARTS)
    ids = torch.split(pairs.inputs, LENGTHS)
    with torch.inference_mode():
        together = model(pairs)
        alone = [model(PackedBatch(ids[i], pairs.lengths[i : i + 1], pairs.starts[i : i + 1])) for i in range(len(ids))]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)


def test_the_head_is_the_seeds_own(world: World) -> None:
    heads = [fresh_model(world.bert, seed=seed).head.weight for seed in (1, 1, 2)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_longest_pair_that_the_check_allows_fits(world: World, family: str) -> None:
    path = world.bert if family == "bert" else world.roberta

    def allowed(length: int) -> bool:
        try:
            check_model_settings(path, RankerModelSettings(max_length=length))
        except UserError:
            return False
        return True

    longest = max(filter(allowed, range(8, 80)))
    assert longest == 64
    logits = fresh_model(path)(PackedBatch(torch.full((longest,), 7), np.array([longest]), np.array([5])))
    assert torch.isfinite(logits).all()
