"""The tables of difficulties: every score of texts by its name, split by split."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from trainables.data import SPLITS, task
from trainables.data.prepared import Prepared
from trainables.data.samplers import Floats
from trainables.difficulty import SCORES, ScoreName
from trainables.difficulty.instances import Instances, instances
from trainables.difficulty.lengths import turns, words_context, words_responses
from trainables.difficulty.spread import sigma_bm25, sigma_sm
from trainables.difficulty.vectors import WordVectors
from trainables.errors import UserError

DECIMALS = 9
_LENGTHS: dict[str, Callable[[Instances], Floats]] = {
    "turns": turns,
    "words_context": words_context,
    "words_responses": words_responses,
}


def of_text(score: ScoreName, prepared: Prepared, vectors: WordVectors | None) -> pd.DataFrame:
    """See `trainables.difficulty.of_text`."""
    if score == "turns" and not task(prepared.settings.name).dialogue:
        raise UserError("curriculum.score", "turns", f"another score: the task {prepared.settings.name} is no dialogue")
    parts = []
    for split in SPLITS:
        split_instances = instances(prepared, split)
        if score in _LENGTHS:
            values = _LENGTHS[score](split_instances)
        elif score == "sigma_BM25":
            values = sigma_bm25(split_instances, prepared.settings.sampler_of(split))
        elif score == "sigma_SM" and vectors is not None:
            values = sigma_sm(split_instances, vectors)
        else:
            raise ValueError(f"{score!r} needs {SCORES[score].needs}")
        parts.append(table(split, split_instances.query_ids, np.round(values, DECIMALS)))
    return pd.concat(parts, ignore_index=True)


def table(split: str, query_ids: Sequence[str], values: Floats) -> pd.DataFrame:
    """split, query_id, difficulty: a row a query."""
    return pd.DataFrame({"split": split, "query_id": query_ids, "difficulty": values})
