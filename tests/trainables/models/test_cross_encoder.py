"""The model is transformers' own, whether it is split, packed or pooled in another way."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from tests.trainables.small import FROZEN, Fresh, World, finish, fresh_model, ids_batch, job, padded
from trainables.models.packing import PackedBatch
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.training.frozen_features import make_token_batch
from trainables.training.trainer import hash_weights


@pytest.mark.parametrize(("family", "pooling"), [("bert", "cls"), ("roberta", "mean"), ("bert", "cosine")])
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


def cosines(path: Path, pairs: PackedBatch) -> np.ndarray:
    """The oracle, then numpy."""
    found = []
    for row, start in zip(hidden_states(path, pairs)[0], pairs.starts, strict=True):
        query, document = row[:start].mean(0), row[start:].mean(0)
        found.append(query @ document / np.linalg.norm(query) / np.linalg.norm(document))
    return np.array(found)


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


def test_the_head_is_the_seeds_own(world: World) -> None:
    heads = [fresh_model(world.bert, seed=seed).head.weight for seed in (1, 1, 2)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
