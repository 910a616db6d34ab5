"""The settings of the data: a ranking task with its whole collection."""

from typing import TYPE_CHECKING, ClassVar, Literal

from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.utils.base_settings import AtLeastTwo

if TYPE_CHECKING:
    from trainables.metrics import FirstStage


class CollectionTask(RankerTaskSettings):
    """A ranking task with its whole collection. BM25, or another first stage, is a reference of the same depth."""

    keeps_collection: ClassVar[bool] = True

    depth: AtLeastTwo = 100
    """Documents that each system retrieves for a dev or test query."""
    # Training reads relevant documents alone, so the sampled ones are few and cheap.
    candidates: Literal[2] = 2
    sampler: SamplerSettings = SamplerSettings(name="random")
    label_noise: Literal[0] = 0
    teacher: None = None
    truncation: Literal["plain"] = "plain"
    separators: Literal[False] = False

    def get_first_stage(self) -> "FirstStage":
        """Describe the documents of the scores, which differ between systems."""
        from trainables.metrics import FirstStage  # imported here, since it loads numpy

        return FirstStage(f"the first {self.depth} documents that each system finds in the collection", self.depth)
