"""Export of rankers: implements `trainables.specs.plugin.ExportBackend`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sentence_transformers import CrossEncoder as LoadedCrossEncoder
from torch import Tensor

from trainables.data.tasks import get_task
from trainables.losses import LOSSES
from trainables.models.export import has_classifier, save_cross_encoder
from trainables.models.tokenizer import load_tokenizer
from trainables.rankers.runner import RankerData, list_standardization_rows
from trainables.specs.plugin import ExportedModel
from trainables.specs.ranker import RankerRunSpec, as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.training.checkpoints import load_weights_into
from trainables.training.frozen_features import InMemoryFeatures


def export_model(trial: TrialSpec, weights: Mapping[str, Tensor], folder: Path) -> ExportedModel:
    """Write the ranker as a cross-encoder of sentence-transformers."""
    specification, path = as_ranker_spec(trial.specification), trial.model_path
    assert specification.model is not None
    assert specification.seed is not None
    assert path is not None
    data = RankerData(trial)
    model = data.load_model(specification.seed).cpu().eval()
    if specification.model.pooling == "cosine":
        rows = list_standardization_rows(data.select_pairs("train"))
        model.standardize_cosine(InMemoryFeatures(data.tokens, rows, model).read(rows))
    load_weights_into(model.trainable_parameters(), weights)
    task = specification.task
    tokenizer = load_tokenizer(path, get_task(task.name).list_added_tokens(task))
    save_cross_encoder(model, path, tokenizer, specification.model.max_length, folder)
    is_whole, loss = has_classifier(model, path), LOSSES[specification.variant.loss]
    return ExportedModel(
        "CrossEncoder",
        "AutoModelForSequenceClassification" if is_whole else "AutoModel",
        is_whole,
        needs_code=specification.model.pooling == "cosine",
        has_probabilities=loss.has_probabilities and specification.model.ranking_score == "difference",
        notes=tuple(_list_notes(specification)),
    )


def _list_notes(specification: RankerRunSpec) -> list[str]:
    task, model, notes = specification.task, specification.model, list[str]()
    assert model is not None
    if task.document_words:
        notes.append(f"The study cut each document after {task.document_words} words; do the same before scoring.")
    if added := get_task(task.name).list_added_tokens(task):
        notes.append(f"A query is a dialogue whose utterances end with {' and '.join(added)} in turn.")
    elif get_task(task.name).is_dialogue:
        notes.append("A query is a dialogue whose utterances are joined by blanks.")
    if task.truncation != "longest_first":
        notes.append(
            f"A pair of more than {model.max_length} tokens loses the end of its longer text here; in the study "
            "each text kept at least a third of the tokens. Only the scores of such pairs differ."
        )
    return notes


def score_with_export(trial: TrialSpec, folder: Path, split: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Score some pairs as a user of the exported folder does."""
    specification, data = as_ranker_spec(trial.specification), RankerData(trial)
    assert specification.model is not None
    prepared, tokens = data.prepared, data.tokens
    rows = np.arange(len(tokens))[tokens.get_rows(split)]
    whole = np.flatnonzero(tokens.lengths[rows] < specification.model.max_length)[:limit]
    frame = prepared.read_candidates(split).iloc[whole]
    queries, documents = (
        table.set_index(name)["text"]
        for table, name in ((prepared.read_queries(), "query_id"), (prepared.read_documents(), "document_id"))
    )
    task = get_task(specification.task.name)
    separators = specification.task.separators
    texts = [queries[name] if separators else " ".join(task.split_utterances(queries[name])) for name in frame.query_id]
    model = LoadedCrossEncoder(
        str(folder), device="cpu", local_files_only=True, trust_remote_code=specification.model.pooling == "cosine"
    )
    pairs = list(zip(texts, documents[frame.document_id], strict=True))
    return whole, np.asarray(model.predict(pairs), dtype=float) if pairs else np.empty(0)
