"""Settings of a curriculum, as part of the specification of a run."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.curriculum.pacing import PACING
from trainables.utils.base_settings import Settings

DifficultyWords = Literal["plain", "blanks"]
"""Words of the difficulty scores that read words."""


class CurriculumSettings(Settings):
    """Settings of a curriculum: easy queries first, paced. Penha and Hauff (2020), section 3."""

    pacing: Annotated[str, BeforeValidator(PACING.check_name)] = "root_2"
    """Name of the pacing function, a key of `trainables.curriculum.pacing.PACING`."""
    score: DifficultyScoreName = "BERT_loss"
    """Name of the difficulty score."""
    delta: Annotated[float, Field(gt=0, le=1)] = 0.33
    """Share of the training queries that the first batch may contain."""
    duration: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Step T from which on all queries are sampled, as a share of all training steps."""
    vectors: str | None = None
    """Hash of the word vectors of sigma_SM ("sha256:..."). If None, the input embeddings of the model."""
    scorer: str | None = None
    """Id of the scoring run; its model computes BERT_pred and BERT_loss."""
    words: DifficultyWords = "plain"
    """Words of sigma_SM, sigma_BM25 and AP_BM25. plain: those of BM25. blanks: split at blanks, as in the code of Penha
    and Hauff (2020)."""

    def canonicalize(self) -> "CurriculumSettings | None":
        """Return the canonical settings of this behaviour, so that equal behaviour has an equal hash.

        Settings that the difficulty score or the pacing function does not use get their defaults.

        Returns:
            The settings, or None if all data may be sampled from the beginning, which is no curriculum.
        """
        is_constant = self.delta == 1 and self.pacing != "step"
        if self.pacing == "standard" or is_constant:
            return None
        unused = {"vectors"} if self.score != "sigma_SM" else set()
        unused |= {"scorer"} if DIFFICULTY_SCORES[self.score].needs != "scorer" else set()
        unused |= {"words"} if DIFFICULTY_SCORES[self.score].needs not in ("bm25", "vectors") else set()
        unused |= {"delta"} if self.pacing == "step" else set()
        return CurriculumSettings(**self.model_dump(exclude=unused))
