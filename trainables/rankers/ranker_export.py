"""Export of rankers: implements `trainables.specs.plugin.ExportBackend`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_tokens import make_input_rules
from trainables.data.tasks import TASKS, get_task
from trainables.exchange.input_rules import write_input_rules
from trainables.exchange.saved_models import (
    ADAPTER_FILE,
    explain_padding,
    has_classifier,
    load_cross_encoder,
    save_adapter,
    save_cross_encoder,
    score_with_adapter,
)
from trainables.losses import LOSSES
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dense_layers import merge_adapters
from trainables.models.pretrained import load_tokenizer
from trainables.rankers.ranker_run import RankerData, list_standardization_rows
from trainables.smoothing import DISTRIBUTIONS, SCHEDULES
from trainables.specs.plugin import ExportedModel, ExportForm
from trainables.specs.ranker import RankerModelSettings, RankerRunSpec, as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.training.checkpoints import load_weights_into
from trainables.training.frozen_features import InMemoryFeatures
from trainables.utils.base_settings import require
from trainables.utils.errors import UserError

_RERANKING = "`study.rerank` makes the inputs as the study did, by the rules in `input_rules.json`."


def export_model(
    trial: TrialSpec, weights: Mapping[str, Tensor], folder: Path, form: ExportForm | None = None
) -> ExportedModel:
    """Write the ranker as a cross-encoder of sentence-transformers: a classifier of transformers, if there is one.

    Raises:
        UserError: it cannot be written in the form that the user asks for.
    """
    specification, path, data = as_ranker_spec(trial.specification), require(trial.model_path), RankerData(trial)
    settings, model = require(specification.model), data.load_model(require(specification.seed)).cpu().eval()
    if settings.pooling == "cosine":
        rows = list_standardization_rows(data.select_pairs("train"))
        model.standardize_cosine(InMemoryFeatures(data.tokens, rows, model).read(rows))
    load_weights_into(model.trainable_parameters(), weights)
    task = specification.task
    tokenizer = load_tokenizer(path, get_task(task.name).list_added_tokens(task))
    is_whole, loss = _choose_classifier(model, form), LOSSES[specification.variant.loss]
    if form == "adapter":
        _check_adapter(model, settings, get_task(task.name).list_added_tokens(task))
        save_adapter(model, settings, path, tokenizer, folder)
    else:
        with merge_adapters(model.upper):
            save_cross_encoder(model, path, tokenizer, settings.max_length, folder, is_whole)
    write_input_rules(folder, make_input_rules(task))
    return ExportedModel(
        task="text-ranking",
        tags=("peft", "lora") if form == "adapter" else ("sentence-transformers", "cross-encoder"),
        library_class="PeftModel" if form == "adapter" else "CrossEncoder",
        transformers_class="AutoModelForSequenceClassification" if is_whole else "AutoModel",
        is_whole=is_whole,
        needs_code=model.pooling == "cosine",
        has_probabilities=loss.has_probabilities and settings.ranking_score == "difference",
        notes=(
            *([] if form == "adapter" else [_RERANKING]),
            *_list_notes(specification),
            *([] if is_whole else [_describe_speed(model)]),
        ),
        sources=tuple(_list_sources(specification)),
        example=tuple(_read_texts(data.prepared, _choose_example(data.prepared))),
    )


def _check_adapter(model: CrossEncoder, settings: RankerModelSettings, added_tokens: Sequence[str]) -> None:
    """Raise an error if an adapter of peft cannot contain what was trained."""
    reason = None
    if settings.lora.rank is None:
        reason = "the ranker was trained without adapters (model.lora.rank)"
    elif not has_classifier(model):
        reason = "transformers has no model for sequence classification like this"
    elif added_tokens:
        reason = f"the adapter would lack the embeddings of {' and '.join(added_tokens)}"
    if reason is not None:
        raise UserError("--form", "adapter", f"classification or modules: {reason}")


def _choose_classifier(model: CrossEncoder, form: ExportForm | None) -> bool:
    """Return whether a ranker is written as a model for sequence classification."""
    if not has_classifier(model):
        if form == "classification":
            raise UserError("--form", form, "modules: transformers has no model for sequence classification like this")
        return False
    if form == "modules" and model.saved:
        raise UserError("--form", form, "classification, the form of the saved head that the study continued")
    if form == "modules" and (reason := explain_padding(model)) is not None:
        expected = "classification, and study.rerank for speed"
        raise UserError("--form", f"{form}, which would still be padded, since {reason}", expected)
    return form != "modules"


def _describe_speed(model: CrossEncoder) -> str:
    if (reason := explain_padding(model)) is not None:
        return f"sentence-transformers pads all pairs of a batch, since {reason}. `study.rerank` pads less."
    options = '{"attn_implementation": "flash_attention_2", "dtype": "bfloat16"}'
    return f"On a GPU, `CrossEncoder(FOLDER, model_kwargs={options})` computes in bf16 and without padding."


def _list_sources(specification: RankerRunSpec) -> dict[str, None]:
    variant = specification.variant
    sources = [TASKS.get_source(specification.task.name), LOSSES.get_source(variant.loss)]
    if variant.epsilon:
        sources += [DISTRIBUTIONS.get_source(variant.distribution), SCHEDULES.get_source(variant.schedule)]
    return dict.fromkeys(sources)


def _choose_example(prepared: RankingDataset) -> pd.DataFrame:
    """Return two candidates of the first test query, a relevant one if there is one."""
    candidates = prepared.read_candidates("test")
    own = candidates[candidates["query_id"] == candidates["query_id"].iloc[0]]
    example: pd.DataFrame = own.sort_values("relevant", ascending=False, kind="stable").head(2)
    return example


def _read_texts(prepared: RankingDataset, candidates: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the texts of query and document of some candidates, as the model reads them."""
    rules = make_input_rules(prepared.settings)
    queries, documents = (
        table.set_index(name)["text"]
        for table, name in ((prepared.read_queries(), "query_id"), (prepared.read_documents(), "document_id"))
    )
    return [
        (rules.prepare_query(queries[query]), rules.prepare_document(documents[document]))
        for query, document in zip(candidates["query_id"], candidates["document_id"], strict=True)
    ]


def _list_notes(specification: RankerRunSpec) -> list[str]:
    task, model = specification.task, require(specification.model)
    notes = list[str]()
    if task.document_words:
        notes.append(f"The study cut each document after {task.document_words} words; do the same before scoring.")
    if added := get_task(task.name).list_added_tokens(task):
        notes.append(f"A query is a dialogue with utterances that end with {' and '.join(added)} in turn.")
    elif get_task(task.name).is_dialogue:
        notes.append("A query is a dialogue with utterances that are joined by blanks.")
    third = model.max_length // 3
    if task.truncation == "longest_first":
        notes.append(
            f"If query and document are both too long for {model.max_length} tokens, the study gave an odd token to "
            "the query, and the library gives it to the longer text. The scores of such pairs differ."
        )
    if task.truncation != "longest_first" and get_task(task.name).is_dialogue:
        notes.append(
            f"A pair of more than {model.max_length} tokens is cut at the end of its longer text here. In the study, "
            f"the response kept {third} tokens or more, and the context lost its "
            f"{'beginning' if task.truncation == 'oldest' else 'end'}. The scores of such pairs differ."
        )
    elif task.truncation != "longest_first":
        notes.append(
            f"A pair of more than {model.max_length} tokens is cut as in the study, at the end of the document, unless "
            f"its query has {third} tokens or more. The scores of such pairs differ."
        )
    return notes


def score_with_export(trial: TrialSpec, folder: Path, split: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Score some pairs as a user of the exported folder does."""
    specification, data = as_ranker_spec(trial.specification), RankerData(trial)
    prepared, tokens, max_length = data.prepared, data.tokens, require(specification.model).max_length
    rows = np.arange(len(tokens))[tokens.get_rows(split)]
    is_equal = tokens.lengths[rows] < max_length
    n_query_tokens = tokens.starts[rows] - tokens.specials[0] - tokens.specials[1]
    if not get_task(specification.task.name).is_dialogue:
        is_equal |= n_query_tokens < max_length // 3
    if specification.task.truncation == "longest_first":
        room = max_length - sum(tokens.specials)
        is_equal[:] = (room % 2 == 0) | is_equal | (n_query_tokens != room // 2 + 1)
    positions = np.flatnonzero(is_equal)[:limit]
    pairs = _read_texts(prepared, prepared.read_candidates(split).iloc[positions])
    if not pairs:
        return positions, np.empty(0)
    if (folder / ADAPTER_FILE).is_file():
        return positions, score_with_adapter(folder, require(trial.model_path), pairs)
    return positions, np.asarray(load_cross_encoder(folder).predict(pairs), dtype=float)
