"""The settings of a curriculum, as a run's specification has them."""

from typing import Annotated

from pydantic import AfterValidator, Field

from trainables.curriculum.pacing import canonicalize_pacing
from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.utils.settings import Settings


class CurriculumSettings(Settings):
    """The order of the training data: easy queries first, at a pace. Penha and Hauff (2020), section 3."""

    pacing: Annotated[str, AfterValidator(canonicalize_pacing)] = "root_2"
    """A key of `trainables.curriculum.pacing.PACING`."""
    score: DifficultyScoreName = "BERT_loss"
    """What makes a query difficult."""
    delta: Annotated[float, Field(gt=0, le=1)] = 0.33
    """Share of the training queries at the beginning."""
    duration: Annotated[float, Field(gt=0, le=1)] = 0.9
    """T, the step from which on all queries are sampled, as share of the training's steps."""
    vectors: str | None = None
    """Digest of the word vectors of sigma_SM ("sha256:..."); none: the input embeddings of the model."""
    scorer: str | None = None
    """Id of the run whose weights BERT_pred and BERT_loss are made with."""

    def canonicalize(self) -> "CurriculumSettings | None":
        """The one name of this behaviour: all data from the beginning is no curriculum, and what the score or the
        pacing does not look at stands at its default."""
        unmoved = self.delta == 1 and self.pacing != "step"
        if self.pacing == "standard" or unmoved:
            return None
        idle = {"vectors"} if self.score != "sigma_SM" else set()
        idle |= {"scorer"} if DIFFICULTY_SCORES[self.score].needs != "scorer" else set()
        idle |= {"delta"} if self.pacing == "step" else set()
        return CurriculumSettings(**self.model_dump(exclude=idle))
