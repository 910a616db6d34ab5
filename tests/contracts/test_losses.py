"""Every loss, with every smoothing that it can have, is what its formula says."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.cross_encoder import CrossEncoder, losses
from torch import Tensor

from trainables.losses import LOSSES, Loss, has_temperature, listwise
from trainables.losses.objective import Objective, Supervision
from trainables.losses.variants import can_smooth
from trainables.smoothing import DISTRIBUTIONS

CELLS = [(loss, name) for loss in LOSSES for name in DISTRIBUTIONS if can_smooth(loss, name)]
LABELLED = [name for name in LOSSES if not LOSSES[name].is_distillation]
TEMPERATURE = 2.0


def supervision(queries: int = 5, candidates: int = 4, seed: int = 0, noisy: bool = False) -> Supervision:
    """One relevant document a query, or with noise any number of them."""
    generator = np.random.default_rng(seed)
    labels = np.zeros((queries, candidates))
    labels[:, 0] = 1
    if noisy:
        labels = generator.integers(0, 2, labels.shape).astype(float)
    weak = np.where(labels == 1, np.nan, generator.random(labels.shape))
    return Supervision(labels, weak, 10 * generator.random(labels.shape))


def logits(loss: str, shape: tuple[int, ...], seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, LOSSES[loss].outputs, dtype=torch.float64, generator=generator, requires_grad=True)


def make(loss: str, distribution: str) -> Objective:
    return Objective(loss, distribution, TEMPERATURE)


def softmax(values: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def relaxed(p: Tensor, epsilon: float) -> Tensor:
    """Lienen and Hüllermeier (2021), with p the probability of the target."""
    if p >= 1 - epsilon:
        return p * 0
    rest = epsilon * torch.log(epsilon / (1 - p)) if epsilon else p * 0
    return (1 - epsilon) * torch.log((1 - epsilon) / p) + rest


def binary(p: Tensor, target: float) -> Tensor:
    return -(target * torch.log(p) + (1 - target) * torch.log(1 - p))


def pair_loss(loss: str, name: str, z: Tensor, label: float, weak: float, epsilon: float) -> Tensor:
    p = torch.softmax(z, 0)[1] if len(z) == 2 else torch.sigmoid(z[0])
    if name == "relaxation" and epsilon:
        return relaxed(p if label else 1 - p, epsilon)
    smooth = {"none": label, "uniform": 0.5, "weak_supervision": 0.5 if label else weak}.get(name, label)
    return binary(p, (1 - epsilon) * label + epsilon * smooth)


def query_loss(loss: str, name: str, z: Tensor, labels: list[float], scores: list[float], epsilon: float) -> Tensor:
    """Loss of a query's logits, shape (candidates,), by explicit loops."""
    weak = [0.0 if name == "uniform" else score / TEMPERATURE for score in scores]
    teacher = [score / TEMPERATURE for score in scores]
    total = (z * 0).sum()
    if loss in ("lce", "kl"):
        if not any(labels):
            return total
        hard = softmax(teacher) if loss == "kl" else [label / sum(labels) for label in labels]
        if name == "relaxation" and epsilon:
            return relaxed(sum((torch.softmax(z, 0)[i] for i, label in enumerate(labels) if label), z[0] * 0), epsilon)
        soft = hard if name in ("none", "relaxation") else softmax(weak)
        for i, (a, b) in enumerate(zip(hard, soft, strict=True)):
            target = (1 - epsilon) * a + epsilon * b
            total = total - target * torch.log_softmax(z, 0)[i]
            total = total + (target * math.log(target) if loss == "kl" else 0)
        return total
    for i, relevant in enumerate(labels):
        for j, other in enumerate(labels):
            if not relevant > other:
                continue
            difference = z[i] - z[j]
            if loss == "margin_mse":
                hard_margin = teacher[i] - teacher[j]
                soft_margin = hard_margin if name == "none" else weak[i] - weak[j]
                total = total + (difference - (1 - epsilon) * hard_margin - epsilon * soft_margin) ** 2
            elif name == "relaxation" and epsilon:
                total = total + relaxed(torch.sigmoid(difference), epsilon)
            else:
                better = 1.0 if name in ("none", "relaxation") else 1 / (1 + math.exp(weak[j] - weak[i]))
                total = total + binary(torch.sigmoid(difference), (1 - epsilon) + epsilon * better)
    return total


@pytest.mark.parametrize("noisy", [False, True], ids=["one relevant", "any labels"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize(("loss", "distribution"), CELLS)
def test_value_and_gradient_are_those_of_a_plain_loop(
    loss: str, distribution: str, epsilon: float, noisy: bool
) -> None:
    given_ = supervision(noisy=noisy)
    z = logits(loss, given_.labels.shape)
    ours = make(loss, distribution).compute_sum(z, given_, epsilon)
    (gradient,) = torch.autograd.grad(ours, z)

    plain = z.detach().clone().requires_grad_()
    total = plain.sum() * 0
    for q, labels in enumerate(given_.labels.tolist()):
        if LOSSES[loss].is_per_query:
            total = total + query_loss(loss, distribution, plain[q, :, 0], labels, given_.scores[q].tolist(), epsilon)
        else:
            for i, label in enumerate(labels):
                total = total + pair_loss(loss, distribution, plain[q, i], label, given_.weak_labels[q, i], epsilon)
    (expected,) = torch.autograd.grad(total, plain)
    torch.testing.assert_close(ours, total, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("loss", "distribution"), CELLS)
def test_epsilon_zero_is_the_unsmoothed_loss_to_the_bit(loss: str, distribution: str) -> None:
    unknown = supervision()._replace(weak_labels=np.full((5, 4), np.nan))
    if not LOSSES[loss].is_distillation:
        unknown = unknown._replace(scores=np.full((5, 4), np.nan))
    for kind in (torch.float32, torch.float64):
        z = logits(loss, (5, 4)).detach().to(kind).requires_grad_()
        found = [make(loss, name).compute_sum(z, unknown, 0.0) for name in ("none", distribution)]
        gradients = [torch.autograd.grad(value, z)[0] for value in found]
        assert found[0].item() == found[1].item()
        assert torch.equal(*gradients)


class StandIn(CrossEncoder):
    """In place of sentence-transformers' model: the logits of pairs (query, document), both given by number."""

    num_labels = property(lambda self: self.z.shape[-1])
    device = property(lambda self: torch.device("cpu"))

    def __init__(self, z: Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.z = z

    def preprocess(self, pairs: list[tuple[str, str]], **_: object) -> dict[str, Tensor]:
        return {"pairs": torch.tensor([[int(query), int(document)] for query, document in pairs])}

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        query, document = features["pairs"].unbind(dim=1)
        chosen = self.z[query, document]
        return {"scores": chosen.squeeze(-1) if self.num_labels == 1 else chosen}


def theirs_by_name(name: str, z: Tensor, given_: Supervision) -> Tensor:
    """The loss of sentence-transformers, averaged as it does."""
    model = StandIn(z)
    queries, candidates = given_.labels.shape
    anchors, numbers = [str(q) for q in range(queries)], [str(i) for i in range(candidates)]
    pairs = [[q for q in anchors for _ in numbers], numbers * queries]
    flat = torch.from_numpy(given_.labels).reshape(-1)
    labels, scores = (list(torch.from_numpy(values)) for values in (given_.labels, given_.scores))
    match name:
        case "cross_entropy":
            return losses.CrossEntropyLoss(model)(pairs, flat.long())
        case "binary_cross_entropy":
            return losses.BinaryCrossEntropyLoss(model)(pairs, flat)
        case "ranknet":
            return losses.RankNetLoss(model, reduction_log="natural")([anchors, [numbers] * queries], labels)
        case "margin_mse":
            columns = [[number] * queries for number in numbers]
            return losses.MarginMSELoss(model)([anchors, *columns], torch.from_numpy(given_.scores))
        case _:
            divergence = losses.ListNetLoss(model)([anchors, [numbers] * queries], scores)
            teacher = torch.from_numpy(given_.scores).softmax(dim=1)
            return divergence + torch.xlogy(teacher, teacher).sum(dim=1).mean()  # theirs lacks the entropy


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "lce"])
def test_losses_of_the_same_name_in_sentence_transformers_agree(name: str) -> None:
    given_ = supervision(queries=3, candidates=4)
    z = logits(name, (3, 4)).detach().float().requires_grad_()
    objective = Objective(name)
    ours = objective.compute_sum(z, given_, 0.0) / objective.count_terms(given_.labels)
    both = ours, theirs_by_name(name, z, given_)
    torch.testing.assert_close(*(value.float() for value in both), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*(torch.autograd.grad(value, z)[0] for value in both), rtol=1e-4, atol=1e-6)


@given(epsilon=st.floats(0, 1), seed=st.integers(0, 100))
def test_lce_with_uniform_smoothing_is_torchs_label_smoothing(epsilon: float, seed: int) -> None:
    given_, z = supervision(seed=seed), logits("lce", (5, 4), seed)
    first = torch.zeros(5, dtype=torch.long)
    oracle = torch.nn.functional.cross_entropy(z[..., 0], first, label_smoothing=epsilon, reduction="sum")
    torch.testing.assert_close(make("lce", "uniform").compute_sum(z, given_, epsilon), oracle)


@pytest.mark.parametrize(("loss", "distribution"), CELLS)
@given(seed=st.integers(0, 50))
@settings(max_examples=10)
def test_parts_of_a_batch_add_up_to_it(loss: str, distribution: str, seed: int) -> None:
    given_, z = supervision(seed=seed, noisy=True), logits(loss, (5, 4), seed)
    objective = make(loss, distribution)
    parts = [slice(0, 2), slice(2, 3), slice(3, 5)]
    total = sum(
        objective.compute_sum(z[part], Supervision(*(values[part] for values in given_[:3])), 0.2) for part in parts
    )
    torch.testing.assert_close(objective.compute_sum(z, given_, 0.2), total)


@pytest.mark.parametrize("loss", LABELLED)
@given(seed=st.integers(0, 50), epsilon=st.floats(0.05, 0.95))
def test_relaxed_losses_are_below_the_unsmoothed_and_zero_near_the_label(loss: str, seed: int, epsilon: float) -> None:
    given_, z = supervision(queries=1, seed=seed), logits(loss, (1, 4), seed)
    objective = make(loss, "relaxation")
    hard, soft = (objective.compute_sum(z, given_, strength) for strength in (0.0, epsilon))
    assert 0 <= soft.item() <= hard.item()
    signs = torch.from_numpy(2 * given_.labels - 1)[..., None] * torch.tensor([-1.0, 1.0][-LOSSES[loss].outputs :])
    sure = (30 * signs).requires_grad_()
    nothing = objective.compute_sum(sure, given_, epsilon)
    assert nothing.item() == 0
    assert not torch.autograd.grad(nothing, sure)[0].any()


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_relaxation_takes_relevant_candidates_together(noise: float) -> None:
    given_ = Supervision(np.array([[1.0, 1.0, 0.0, 0.0]]), np.zeros((1, 4)), np.zeros((1, 4)))
    z = torch.tensor([[[30.0 + noise], [30.0], [-30.0], [-30.0]]], requires_grad=True)
    value = make("lce", "relaxation").compute_sum(z, given_, 0.1)
    assert value.item() == 0
    assert not torch.autograd.grad(value, z)[0].any()


def test_relaxation_by_everything_leaves_nothing_to_learn() -> None:
    z = logits("lce", (5, 4))
    assert make("lce", "relaxation").compute_sum(z, supervision(), 1.0).item() == 0


@pytest.mark.parametrize("loss", [name for name in LOSSES if LOSSES[name].is_per_query])
def test_missing_scores_are_an_error_not_a_number(loss: str) -> None:
    given_ = supervision()
    given_.scores[2, 1] = np.nan
    name = "none" if LOSSES[loss].is_distillation else "weak_supervision"
    with pytest.raises(ValueError, match="1 "):
        make(loss, name).compute_sum(logits(loss, (5, 4)), given_, 0.2)


@pytest.mark.parametrize("loss", ["margin_mse", "kl"])
def test_a_distillation_learns_its_teacher(loss: str) -> None:
    given_, z = supervision(), logits(loss, (5, 4))
    taught = given_._replace(scores=np.full((5, 4), np.nan), teacher=given_.scores)
    assert make(loss, "uniform").compute_sum(z, taught, 0.2) == make(loss, "uniform").compute_sum(z, given_, 0.2)
    perfect = torch.from_numpy(given_.scores / TEMPERATURE)[..., None]
    assert make(loss, "none").compute_sum(perfect, taught, 0.0).item() == pytest.approx(0, abs=1e-12)


def test_a_query_without_a_relevant_document_has_no_term() -> None:
    nothing = Supervision(np.zeros((2, 3)), np.zeros((2, 3)), np.ones((2, 3)))
    for loss in (name for name in LOSSES if LOSSES[name].is_per_query):
        z = logits(loss, (2, 3))
        objective = make(loss, "uniform")
        value = objective.compute_sum(z, nothing, 0.2)
        assert (value.item(), objective.count_terms(nothing.labels)) == (0, 1)
        assert not torch.autograd.grad(value, z)[0].any()


def test_temperatures_are_asked_for_where_they_matter() -> None:
    for loss, name in CELLS:
        given_, z = supervision(), logits(loss, (5, 4))
        values = {Objective(loss, name, own).compute_sum(z, given_, 0.2).item() for own in (2.0, 2.5)}
        assert (len(values) > 1) == has_temperature(loss, name)


@pytest.mark.parametrize(("reduced", "shape"), [(Tensor.mean, r"\(\)"), (lambda terms: terms[:-1], r"\(4,\)")])
def test_a_loss_that_does_not_return_a_number_per_term_is_an_error(
    monkeypatch: pytest.MonkeyPatch, reduced: Callable[[Tensor], Tensor], shape: str
) -> None:
    monkeypatch.setattr(listwise, "softmax_cross_entropy", lambda logits, targets: reduced(logits.sum(dim=1)))
    objective = Objective("lce")
    with pytest.raises(ValueError, match=rf"lce returned the shape {shape}; expected \(5,\)"):
        objective.compute_sum(logits("lce", (5, 4)), supervision(), 0.0)


def test_probabilities_follow_from_likelihoods_of_single_pairs() -> None:
    assert [name for name in LOSSES if LOSSES[name].has_probabilities] == ["cross_entropy", "binary_cross_entropy"]
    assert not Loss("X", "x:y", "pointwise", is_likelihood=False).has_probabilities
