"""Prepared data of a ranking task: queries, documents and their candidates, as tables on disk.

The files are `<cache>/prepared/<fingerprint>/{queries,documents,candidates}.parquet` and `meta.json`, and with
retrieved candidates also `qrels.parquet`. `trainables.data.ranking_preparation` writes them. No run depends on the
domains of the queries, so they are in a file of their own, in the same folder: `domains-<digest>.parquet`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.data.store import PreparedDataset
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_overlap import SplitTexts
from trainables.text.words import compose_text
from trainables.utils.checksums import is_intact

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RankingDataset(PreparedDataset):
    """Prepared data of a ranking task.

    The metadata contain these counts: documents, skipped (reason -> count), and by split: queries, pool, and the rows
    that are back_filled (drawn at random), relevant and relevant_left_out. A split with retrieved candidates also has
    candidates (rows), relevant_missed (relevant documents that are no candidates), queries_missed (queries without a
    relevant candidate), queries_absent (those of them without any candidate), queries_without_relevant (those of them
    without any relevant document, if there are any), recall (mean share of a query's relevant documents that are
    candidates) and judged (share of the rows with a qrel).
    """

    settings: RankerTaskSettings
    """Settings without paths, see `to_portable_settings`."""
    domains: str | None = None
    """Digest of the domains of the queries. None if no query has a domain, or if they were not read."""
    repeated: int | None = None
    """Number of source entries that repeat an earlier query and were merged with it. None if not counted."""

    @property
    def domains_path(self) -> Path:
        """File of the domains of the queries, which must have some."""
        return self.folder / f"domains-{self.domains}.parquet"

    def is_complete(self) -> bool:
        """Return whether all files exist and are undamaged, that of the domains included."""
        return super().is_complete() and (self.domains is None or is_intact(self.domains_path))

    def read_queries(self) -> "pd.DataFrame":
        """Return the queries, with columns query_id and text."""
        return self._read_table("queries")

    def read_documents(self) -> "pd.DataFrame":
        """Return the candidates, or all documents if `settings.keeps_collection`, with columns document_id and text."""
        return self._read_table("documents")

    def read_candidates(self, split: str | None = None, columns: list[str] | None = None) -> "pd.DataFrame":
        """Return the candidates of one split, or of all splits with train first.

        A training query has all its relevant documents and `settings.n_train_negatives` sampled ones. A dev or test
        query with sampled candidates has `settings.candidates` rows. Relevant documents come first, then sampled ones,
        nearest first, then those drawn at random because the sampler found too few. A query with retrieved candidates
        has the first documents of the first stage, `settings.retrieval_depth` at most, maybe none.

        Args:
            split: Name of the split. If None, all splits are returned.
            columns: Columns to read, which is faster. If None, all columns are read.

        Returns:
            Table with columns split, query_id, document_id, relevant, grade, score, weak_label and bm25. `grade` is 0
            for a sampled candidate without a qrel, and -1 for a retrieved one. `score` is the score of the sampler,
            null if it has none, or of the first stage, or 0 if that has none. `weak_label` is 0 for a
            document drawn at random. It is null for a relevant document and if the sampler has no score to derive it
            from. `bm25` is null in the training split unless the settings need it there, and for retrieved candidates
            of another first stage.
        """
        if split is None:
            return self._read_table("candidates", columns)
        table = self._read_table("candidates", columns and ["split", *columns])
        return table[table["split"] == split].reset_index(drop=True)

    def read_qrels(self, split: str) -> "pd.DataFrame":
        """Return the qrels of the queries of a split with retrieved candidates, in the order of the queries."""
        table = self._read_table("qrels")
        return table[table["split"] == split].drop(columns="split").reset_index(drop=True)

    def read_query_ids(self, split: str) -> list[str]:
        """Return the ids of the queries of a split in the order of their candidates.

        Queries for which a first stage retrieved nothing are among them.
        """
        is_retrieved = self.settings.is_retrieved(split)
        table = self.read_qrels(split) if is_retrieved else self.read_candidates(split, ["query_id"])
        return table["query_id"].drop_duplicates().tolist()

    def read_evaluated(self, split: str) -> "pd.DataFrame":
        """Return the documents that a metric is computed from: the candidates of a split, then what was missed.

        The documents that a first stage missed are those with a positive grade that are no candidates, and all judged
        ones of a query without candidates, so that the query is there. No ranking has them, so their score is -inf.

        Returns:
            Table with columns query_id, document_id and relevant; with retrieved candidates also grade, -1 without a
            qrel.
        """
        columns = ["query_id", "document_id", "relevant"]
        if not self.settings.is_retrieved(split):
            return self.read_candidates(split, columns)[columns]
        return self.judge_retrieved(split, self.read_candidates(split, columns[:2])[columns[:2]])

    def judge_retrieved(self, split: str, retrieved: "pd.DataFrame") -> "pd.DataFrame":
        """Return retrieved documents with their qrels, then those that were missed, as `read_evaluated` does.

        Args:
            split: Name of a split with retrieved candidates.
            retrieved: Table with columns query_id and document_id.
        """
        import pandas as pd

        from trainables.data.first_stage import join_qrels

        keys, qrels = ["query_id", "document_id"], self.read_qrels(split)
        judged = join_qrels(retrieved, qrels)
        known = pd.MultiIndex.from_frame(judged[keys])
        is_counted = (qrels["grade"] > 0) | ~qrels["query_id"].isin(judged["query_id"])
        is_missed = ~pd.MultiIndex.from_frame(qrels[keys]).isin(known) & is_counted.to_numpy()
        return pd.concat([judged, qrels[is_missed]], ignore_index=True)

    def find_own_documents(self, split: str) -> "pd.DataFrame":
        """Return the documents that a search must not return: the query itself (`is_own_document`), without a qrel.

        Args:
            split: Name of a split with retrieved candidates.

        Returns:
            Table with columns query_id and document_id.
        """
        import pandas as pd

        keys, qrels = ["query_id", "document_id"], self.read_qrels(split)
        queries, documents = self.read_queries(), self.read_documents()
        queries = queries[queries["query_id"].isin(qrels["query_id"])].assign(text=queries["text"].map(compose_text))
        documents = documents.assign(text=documents["text"].map(compose_text))
        same_text = queries.merge(documents, on="text")
        same_id = queries.merge(documents, left_on="query_id", right_on="document_id")
        is_inside = [query in document for query, document in zip(same_id["text_x"], same_id["text_y"], strict=True)]
        own = pd.concat([same_text[keys], same_id.loc[is_inside, keys]]).drop_duplicates(ignore_index=True)
        is_free = ~pd.MultiIndex.from_frame(own).isin(pd.MultiIndex.from_frame(qrels[keys]))
        return own[is_free & (not self.settings.sampler.protocol.keep_query_text)]

    def _group_texts(self) -> dict[str, SplitTexts]:
        texts, groups = self.read_queries().set_index("query_id")["text"], {}
        for split in self.settings.splits:
            names = self.read_query_ids(split)
            groups[split] = SplitTexts(texts.loc[names].tolist(), names)
        return groups

    def read_query_domains(self) -> "pd.Series | None":
        """Return the domains by query_id, for the queries that have one. None if no query has a domain."""
        if self.domains is None:
            return None
        return self._read_table(self.domains_path.stem).set_index("query_id")["domain"]
