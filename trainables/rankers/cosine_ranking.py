"""Ranks by the cosine of query and document, which the model before training encodes separately.

The model is the one in the folder, with all its layers, as sentence-transformers runs it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_tokens import make_input_rules
from trainables.data.tasks import get_task
from trainables.models.model_json import read_json_object, read_modules
from trainables.models.pretrained import report_unloadable
from trainables.specs.environment import check_environment
from trainables.specs.trial import TrialSpec
from trainables.training.process import prepare_process
from trainables.utils.arrays import Floats, Ints
from trainables.utils.base_settings import require
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from sentence_transformers import SentenceTransformer

_PAIRS_PER_BLOCK = 10_000
"""Number of pairs with vectors in memory at once."""


def compute_cosines(trial: TrialSpec, prepared: RankingDataset, candidates: "pd.DataFrame") -> Floats:
    """Return the cosine of query and document of each candidate, rows of the prepared ones, shape (candidates,).

    The texts are those that the ranker reads, with the utterances of a dialogue joined by blanks. The precision is that
    of training, also on test: in fp32 this would take as long as a small study.
    """
    specification = trial.specification
    environment, training = require(specification.environment), require(specification.training)
    check_environment(environment)
    prepare_process(training.threads)
    model = load_sentence_encoder(require(trial.model_path), environment.device_type)
    rules = make_input_rules(prepared.settings)
    rules = rules.model_copy(update={"joined_tokens": get_task(prepared.settings.name).added_tokens})
    sides = list[tuple[Ints, Floats]]()
    for table, name, prepare, encode in (
        (prepared.read_queries(), "query_id", rules.prepare_query, model.encode_query),
        (prepared.read_documents(), "document_id", rules.prepare_document, model.encode_document),
    ):
        codes, ids = candidates[name].factorize()
        texts = [prepare(text) for text in table.set_index(name)["text"].reindex(ids)]
        with torch.autocast(environment.device_type, torch.bfloat16, training.precision == "bf16"):
            vectors = encode(texts, show_progress_bar=False).astype(np.float64)
        sides.append((codes, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))
    blocks = [slice(start, start + _PAIRS_PER_BLOCK) for start in range(0, len(candidates), _PAIRS_PER_BLOCK)]
    pairs = ([vectors[codes[block]] for codes, vectors in sides] for block in blocks)
    return np.concatenate([(queries * documents).sum(axis=1) for queries, documents in pairs])


def load_sentence_encoder(path: Path, device: str) -> "SentenceTransformer":
    """Return the sentence encoder in a folder. Any other model becomes one that takes the mean over the tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    options = {"dtype": torch.float32, "use_safetensors": True, "local_files_only": True}
    with report_unloadable(path):
        if _is_sentence_encoder(path):
            return SentenceTransformer(str(path), device=device, local_files_only=True, model_kwargs=options)
        encoder = Transformer(str(path), model_kwargs=options)
        pooling = Pooling(encoder.get_embedding_dimension(), "mean")
        return SentenceTransformer(modules=[encoder, pooling], device=device)


def _is_sentence_encoder(path: Path) -> bool:
    try:
        modules = read_modules(path, "model.name")
    except UserError:  # modules with code, which is not executed
        return False
    settings = read_json_object(path / "config_sentence_transformers.json", missing={})
    return bool(modules) and settings.get("model_type", "SentenceTransformer") == "SentenceTransformer"
