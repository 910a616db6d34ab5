"""A saved cross-encoder in training: at first the scores of its library, later exported with its own head."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as LoadedCrossEncoder
from torch import nn

from tests.trainables.exchange.test_classifier import change, dense, write_classifier, write_cross_encoder
from tests.trainables.exchange.test_export import PAIRS, compute_scores, encode_pairs, export, make_ranker
from tests.trainables.models.architectures import TYPES, name_token_types, write_model
from trainables.exchange.classifier import load_saved_head
from trainables.exchange.head_form import check_model
from trainables.exchange.saved_models import has_classifier, load_cross_encoder
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import Dropout
from trainables.specs.ranker import RankerModelSettings
from trainables.utils.errors import UserError

SETTINGS = RankerModelSettings(pooling="saved", max_length=32)


def write_sequence_classifier(place: Path, kind: str, labels: int = 1, **settings: object) -> Path:
    path = write_classifier(place / "model", kind, labels, **settings)
    name_token_types(path)
    return path


def write_modules(place: Path, pooling: str, labels: int) -> Path:
    layers = [
        dense(32, 8, nn.GELU(), use_residual=True),
        dense(8, 8, nn.Tanh()),
        dense(8, labels, nn.Identity(), "scores"),
    ]
    write_model(place / "base", "bert")
    name_token_types(place / "base")
    write_cross_encoder(place, pooling, layers)
    name_token_types(place / "saved")
    return place / "saved"


def write_cosine(place: Path) -> Path:
    """An exported ranker with the cosine pooling."""
    path = write_model(place / "base", "bert")
    name_token_types(path)
    model = make_ranker(path, pooling="cosine")
    model.cosine_mean, model.cosine_std = 0.9, 0.02
    return export(model, path, place / "saved")


FORMS: dict[str, Callable[[Path], Path]] = {
    **{kind: lambda place, kind=kind: write_sequence_classifier(place, kind) for kind in TYPES},  # type: ignore[misc]
    "two labels": lambda place: write_sequence_classifier(place, "bert", 2),
    "modernbert, mean": lambda place: write_sequence_classifier(place, "modernbert", classifier_pooling="mean"),
    "modules, mean": lambda place: write_modules(place, "mean", 1),
    "modules, two labels": lambda place: write_modules(place, "cls", 2),
    "modules, cosine": write_cosine,
}
FAST = ("bert", "electra", "deberta", *(name for name in FORMS if name not in TYPES))


def predict(folder: Path) -> np.ndarray:
    """The scores that a user of the library gets; of two labels the difference."""
    is_cosine = any(folder.glob("cosine_pooling.py"))
    model = load_cross_encoder(folder) if is_cosine else LoadedCrossEncoder(str(folder), device="cpu")
    scores = np.asarray(model.predict(PAIRS, activation_fn=nn.Identity()), dtype=float)
    return scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]


def load(path: Path, outputs: int = 2) -> CrossEncoder:
    check_model(path, SETTINGS)
    return CrossEncoder(path, SETTINGS, 3, outputs=outputs, saved=load_saved_head(path)).eval()


@pytest.mark.parametrize("form", [pytest.param(name, marks=() if name in FAST else pytest.mark.long) for name in FORMS])
def test_a_saved_ranker_starts_as_it_is_and_is_exported_as_it_becomes(tmp_path: Path, form: str) -> None:
    path = FORMS[form](tmp_path)
    model, expected = load(path), predict(path)
    assert expected.std() > 1e-4
    np.testing.assert_allclose(compute_scores(model, path), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(compute_scores(load(path, outputs=1), path), expected, rtol=0, atol=1e-5)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.trainable_parameters().values():
            parameter += 0.02 * torch.randn_like(parameter)
    changed = compute_scores(model, path)
    assert np.abs(changed - expected).max() > 1e-3
    folder = export(model, path, tmp_path / "exported")
    assert has_classifier(model) == (form in TYPES or form in ("two labels", "modernbert, mean"))
    np.testing.assert_allclose(predict(folder), changed, rtol=0, atol=1e-5)
    np.testing.assert_allclose(compute_scores(load(folder), folder), changed, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["bert", "two labels", "modules, mean", "modules, cosine"])
def test_the_whole_head_is_trained_with_the_dropout_of_the_run(tmp_path: Path, form: str) -> None:
    model = load(FORMS[form](tmp_path))
    batch = encode_pairs(tmp_path / ("saved" if form.startswith("modules") else "model"))
    first, again, other = (model(batch, Dropout(0.5, seed)).detach() for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    model(batch)[:, 1].sum().backward()  # type: ignore[no-untyped-call]
    head = model.head_parameters()
    assert len(head) >= 2
    assert all(parameter.grad is not None for parameter in head.values())
    with torch.no_grad():
        pooled = torch.ones(64, 1 if form == "modules, cosine" else 32)
        with model._dropout.use(Dropout(0.5, 1)):
            assert (model.head(pooled).std() == 0) == (form == "modules, cosine")


def test_what_cannot_be_continued_is_an_error_in_one_line(tmp_path: Path) -> None:
    def refuse(path: Path) -> str:
        with pytest.raises(UserError, match=r"^model\.name: ") as caught:
            load(path)
        return str(caught.value)

    assert "has a BertModel; expected a model for sequence" in refuse(write_model(tmp_path / "encoder", "bert"))
    assert "has 3 labels; expected 1 label" in refuse(write_classifier(tmp_path / "three", "bert", 3))
    headless = write_classifier(tmp_path / "headless", "bert")
    write_model(headless, "bert")
    change(headless / "config.json", architectures=["BertForSequenceClassification"])
    assert "'headless' has no weights of its head" in refuse(headless)
    write_cross_encoder(tmp_path / "max", "max", [dense(32, 1, nn.Identity(), "scores")])
    assert "has the pooling max; expected the pooling cls or mean" in refuse(tmp_path / "max" / "saved")
    write_cross_encoder(tmp_path / "bent", "mean", [dense(32, 2, nn.Tanh(), "scores")])
    assert "has 2 labels with an activation" in refuse(tmp_path / "bent" / "saved")
