"""Export of sentence encoders: implements `trainables.specs.plugin.ExportBackend`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer
from torch import Tensor

from trainables.exchange.saved_models import save_sentence_encoder
from trainables.models.dense_layers import merge_adapters
from trainables.models.pretrained import load_tokenizer, read_max_tokens
from trainables.sentence_encoders.encoder_run import EncoderData
from trainables.specs.plugin import ExportedModel, ExportForm
from trainables.specs.sentence_encoder import as_encoder_spec
from trainables.specs.trial import TrialSpec
from trainables.training.checkpoints import load_weights_into
from trainables.utils.base_settings import require
from trainables.utils.errors import UserError


def export_model(
    trial: TrialSpec, weights: Mapping[str, Tensor], folder: Path, form: ExportForm | None = None
) -> ExportedModel:
    """Write the sentence encoder as a model of sentence-transformers, without the layer that only training uses.

    Raises:
        UserError: the user asks for another form than modules.
    """
    if form not in (None, "modules"):
        raise UserError("--form", form, "modules, the only form of a sentence encoder")
    specification, path, data = as_encoder_spec(trial.specification), require(trial.model_path), EncoderData(trial)
    model = data.load_model(require(specification.seed)).cpu().eval()
    load_weights_into(model.trainable_parameters(), weights)
    with merge_adapters(model.upper):
        save_sentence_encoder(model, path, load_tokenizer(path), read_max_tokens(path), folder)
    notes = (f"It was trained on sentences of at most {require(specification.model).max_length} tokens.",)
    return ExportedModel(
        task="sentence-similarity",
        tags=("sentence-transformers", "feature-extraction"),
        library_class="SentenceTransformer",
        transformers_class="AutoModel",
        is_whole=False,
        needs_code=False,
        has_probabilities=False,
        notes=notes,
        sources=(),
        example=tuple(data.prepared.read_pairs("test")[["first", "second"]].head(2).itertuples(index=False, name=None)),
    )


def score_with_export(trial: TrialSpec, folder: Path, split: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the cosines of some pairs of sentences as a user of the exported folder does."""
    pairs = EncoderData(trial).prepared.read_pairs(split).iloc[:limit]
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    first, second = (model.encode(pairs[name].tolist(), normalize_embeddings=True) for name in ("first", "second"))
    return np.arange(len(pairs)), (first.astype(float) * second).sum(axis=1)
