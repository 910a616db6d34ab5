"""Packing: pairs without padding, in parts, with the gradient of the whole padded batch."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import World, fresh_model, ids_batch
from trainables.models.dropout import Dropout
from trainables.models.packing import AttentionGroup, AttentionGroups, DeviceArrays, PackedBatch, PackedLayout
from trainables.training.batching import split_into_micro_batches


def part_of(batch: PackedBatch, places: np.ndarray) -> PackedBatch:
    ids = torch.split(batch.inputs, batch.lengths.tolist())
    return PackedBatch(torch.cat([ids[place] for place in places]), batch.lengths[places], batch.starts[places])


@pytest.mark.parametrize(("pooling", "tokens"), [("cls", 1), ("mean", 40), ("cosine", 100)])
def test_the_gradients_of_the_parts_add_up_to_that_of_the_batch(world: World, pooling: str, tokens: int) -> None:
    draw = np.random.default_rng(tokens)
    lengths = draw.integers(4, 64, 16)
    whole = ids_batch(lengths.tolist(), (lengths // 2).tolist())
    targets = torch.from_numpy(draw.dirichlet([1, 1], 16))
    gradients = []
    for parts in ([np.arange(16)], split_into_micro_batches(lengths, tokens)):
        model = fresh_model(world.bert, {"pooling": pooling}).double()
        for places in parts:
            logits = model(part_of(whole, places)).double()
            (torch.nn.functional.cross_entropy(logits, targets[places], reduction="sum") / 16).backward()
        gradients.append({name: parameter.grad for name, parameter in model.trainable_parameters().items()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-7, msg=name)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_micro_batches_are_a_sorted_partition_within_the_budget(lengths: list[int], tokens: int) -> None:
    array = np.array(lengths)
    parts = split_into_micro_batches(array, tokens)
    order = np.concatenate(parts)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert (np.diff(array[order]) >= 0).all()
    assert all(len(part) == 1 or array[part].sum() <= tokens for part in parts)
    for part, following in pairwise(parts):
        assert array[part].sum() + array[following[0]] > tokens  # no part could have been longer


@given(st.lists(st.integers(2, 80), min_size=1, max_size=80))
def test_attention_groups_are_consecutive_and_waste_little(lengths: list[int]) -> None:
    batch = ids_batch(lengths, [1] * len(lengths))
    groups = list(PackedLayout(batch).groups)
    assert sum(group.n_pairs for group in groups) == len(lengths)
    assert [group.inside.sum() for group in groups] == [
        sum(part) for part in np.split(lengths, np.cumsum([group.n_pairs for group in groups])[:-1])
    ]
    first = 0
    for group in groups:
        own = [-(-length // 8) * 8 for length in lengths[first : first + group.n_pairs]]
        assert group.n_pairs < 4 or group.n_pairs % 4 == 0
        assert group.max_length == max(own)
        assert group.n_pairs * group.max_length**2 - sum(length**2 for length in own) <= 2000
        first += group.n_pairs


def test_shapes_repeat() -> None:
    """Each new shape costs a kernel; batches of random texts have few of them."""
    draws, groups, rows = np.random.default_rng(0), set(), set()
    for _ in range(1000):
        lengths = np.sort(draws.gamma(4, 8, 32).astype(int).clip(8, 128))
        layout = PackedLayout(ids_batch(lengths.tolist(), [1] * 32))
        groups |= {(group.n_pairs, group.max_length) for group in layout.groups}
        rows.add(int(layout.offsets[-1]) + layout.n_extra)
    assert len(rows) < 15
    assert len(groups) < 100


@given(st.lists(st.integers(1, 80), min_size=1, max_size=40))
def test_extra_rows_make_round_numbers(lengths: list[int]) -> None:
    layout = PackedLayout(ids_batch(lengths, [1] * len(lengths)))
    assert 0 <= layout.n_extra < 64
    assert (sum(lengths) + layout.n_extra) % 64 == 0
    first, more = layout.read_first_rows()[: len(lengths)], layout.read_first_rows()[len(lengths) :]
    assert torch.equal(first, layout.first_tokens)
    assert len(layout.read_first_rows()) % 8 == 0
    assert len(more) < 8
    assert not more.any()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 50))
def test_a_group_masks_what_a_token_does_not_attend_to(lengths: list[int], window: int) -> None:
    array, places = np.array(lengths), np.arange(max(lengths))
    group, inside = AttentionGroup(array, DeviceArrays(torch.device("cpu"))), places < array[:, None]
    assert torch.equal(group.token_mask, torch.from_numpy(inside).long())
    for reach in (None, window):
        found_mask = group.make_mask(reach)
        near = np.abs(places[:, None] - places) < (reach or len(places))
        shape = (len(lengths), len(places), len(places))
        shown = np.zeros(shape) if found_mask is None else np.broadcast_to(found_mask[:, 0].numpy(), shape)
        assert ((shown == 0) == (inside[:, None, :] & near))[inside].all()
        assert (shown == 0).any(axis=2).all()  # softmax over nothing but -inf is not a number


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8), min_size=1, max_size=5),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([1, 8]),
)
def test_groups_pad_and_take_back(lengths: list[list[int]], n_extra: int, multiple: int) -> None:
    flat, arrays = [length for own in lengths for length in own], DeviceArrays(torch.device("cpu"))
    rows = torch.randn(sum(flat) + n_extra, 3, requires_grad=True)
    groups = AttentionGroups([AttentionGroup(np.array(own), arrays, multiple) for own in lengths], arrays, n_extra)
    padded = groups.pad(rows)
    longest = [-(-max(own) // multiple) * multiple for own in lengths]
    assert [array.shape for array in padded] == [(len(own), top, 3) for own, top in zip(lengths, longest, strict=True)]
    texts = [text for array in padded for text in array]
    for own, found, length in zip(torch.split(rows[: sum(flat)], flat), texts, flat, strict=True):
        assert torch.equal(own, found[:length])
    back = groups.unpad(padded)
    assert torch.equal(back[: sum(flat)], rows[: sum(flat)])
    assert back.shape == rows.shape
    assert not back[sum(flat) :].any()
    sum((array * 2).sum() for array in padded).backward()
    assert rows.grad is not None
    expected = torch.full_like(rows, 2.0)
    expected[sum(flat) :] = 0.0
    assert torch.equal(rows.grad, expected)  # none through the padding


@given(st.lists(st.integers(1, 80), min_size=1, max_size=40))
def test_padded_groups_have_little_padding(lengths: list[int]) -> None:
    groups = list(PackedLayout(ids_batch(lengths, [1] * len(lengths))).padded_groups)
    assert sum(group.n_pairs for group in groups) == len(lengths)
    assert sum(group.inside.sum() for group in groups) == sum(lengths)
    assert all((~group.inside).sum() <= 64 for group in groups)


@given(st.lists(st.tuples(st.integers(2, 20), st.integers(1, 19)), min_size=1, max_size=8))
def test_segment_means_are_plain_means(shapes: list[tuple[int, int]]) -> None:
    lengths = [length for length, _ in shapes]
    starts = [min(start, length - 1) for length, start in shapes]
    layout, hidden = PackedLayout(ids_batch(lengths, starts)), torch.randn(sum(lengths), 5, dtype=torch.float32)
    query, document = layout.mean_pool_parts(hidden)
    for place, (row, start) in enumerate(zip(torch.split(hidden, lengths), starts, strict=True)):
        torch.testing.assert_close(query[place], row[:start].mean(0))
        torch.testing.assert_close(document[place], row[start:].mean(0))
        torch.testing.assert_close(layout.mean_pool(hidden)[place], row.mean(0))


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9, 0.99999])
def test_dropout_keeps_the_expectation(rate: float) -> None:
    ones = torch.ones(1000, 401)
    dropped = Dropout(rate, 7)(ones)
    share = (dropped == 0).double().mean().item()
    spread = (rate * (1 - rate) / ones.numel()) ** 0.5
    assert abs(share - rate) < 5 * spread + 1 / 65536
    kept = dropped[dropped != 0]
    assert torch.equal(kept, torch.full_like(kept, Dropout(rate, 7).scale))
    exact = round(rate * 65536) / 65536
    assert Dropout(rate, 7).scale == pytest.approx(1 / (1 - min(exact, 65535 / 65536)))


def test_a_mask_is_named_and_its_elements_are_independent() -> None:
    ones = torch.ones(64, 64, 64)
    one, same, other = (Dropout(0.5, name)(ones) for name in (1, 1, 2))
    assert torch.equal(one, same)
    kept, stranger = (one > 0).double() - 0.5, (other > 0).double() - 0.5
    bound = 5 * 0.25 / ones.numel() ** 0.5
    assert (kept * stranger).mean().abs() < bound
    flat = kept.reshape(-1)
    for lag in (1, 2, 3, 4, 64, 4096):
        assert (flat[lag:] * flat[:-lag]).mean().abs() < bound
    stream = Dropout(0.5, 1)
    assert not torch.equal(stream(ones), stream(ones))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_what_is_kept_is_kept_bit_by_bit_and_so_is_its_gradient(dtype: torch.dtype) -> None:
    values, gradient = torch.randn(2, 37, 50, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    leaf = values.clone().requires_grad_()
    kept = Dropout(0.3, 4).apply_mask(leaf.transpose(0, 1))
    kept.backward(gradient.transpose(0, 1))
    mask = Dropout(0.3, 4).apply_mask(torch.ones_like(values).transpose(0, 1)).transpose(0, 1)
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(kept.transpose(0, 1), values * mask)
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, gradient * mask)
