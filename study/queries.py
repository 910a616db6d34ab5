"""What is known of the queries that a study evaluates: turns, domain, difficulty. The report groups them by it."""

import pandas as pd

from analysis.queries import FILE
from study.configuration import Resolved
from study.settings import Study
from trainables.curriculum_settings import CurriculumSettings
from trainables.data import task
from trainables.data.prepared import Prepared
from trainables.difficulty import kept
from trainables.files import whole_file

_EVALUATED = ("dev", "test")


def write(study: Study, resolved: Resolved, scorer: str) -> None:
    """Writes `split, query_id` and, as far as the task has them, `turns`, `domain` and `difficulty/<score>` (low is
    easy) for each score of the study's curricula. A difficulty whose table is gone from the cache stays as it was.

    Args:
        study: its task without paths.
        resolved: its data, and what its scores are made with.
        scorer: id of the run that BERT_pred and BERT_loss are made with.
    """
    made = table(study, resolved, scorer)
    path = study.folder / FILE
    if path.is_file():
        before = pd.read_parquet(path).set_index("query_id")
        for name in before.columns.difference(made.columns):
            made[name] = before[name].reindex(made["query_id"]).to_numpy()
    if len(made.columns) > 2 and not (path.is_file() and made.equals(pd.read_parquet(path))):
        with whole_file(path) as draft:
            made.to_parquet(draft, index=False)


def table(study: Study, resolved: Resolved, scorer: str) -> pd.DataFrame:
    """What `write` writes, from what is in the cache."""
    folder = study.cache / "prepared" / resolved.fingerprint
    prepared = Prepared(resolved.fingerprint, folder, study.task, resolved.domains)
    candidates = prepared.candidates()[["split", "query_id"]].drop_duplicates()
    made = candidates[candidates["split"].isin(_EVALUATED)].reset_index(drop=True)
    texts = prepared.queries().set_index("query_id").loc[made["query_id"]]
    kind = task(study.task.name)
    if kind.dialogue:
        made["turns"] = [len(kind.utterances(text)) for text in texts["text"]]
    domains = prepared.query_domains()
    if domains is not None:
        made["domain"] = domains.reindex(made["query_id"]).to_numpy()
    for score in study.curriculum.score if study.curriculum.variants else ():
        order = CurriculumSettings(score=score, vectors=resolved.vectors, scorer=scorer)
        found = kept.read(prepared.folder, order, resolved.model_digest)
        if found is not None:
            values = made[["split", "query_id"]].merge(found, how="left")["difficulty"]
            if values.notna().all():  # else the scorer was not tested
                made[f"difficulty/{score}"] = values
    return made
