"""Settings of the curricula of a study: the systems that get one, and the values that are searched."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from search_spaces.curriculum_params import DEFAULTS, PARAM_NAMES, check_pacing
from search_spaces.search_settings import Shares, check_distinct, check_increasing, expect
from trainables.curriculum.curriculum_settings import DifficultyWords
from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.curriculum.pacing import PACING
from trainables.specs.run_spec import Epochs
from trainables.utils.base_settings import Settings
from trainables.utils.registry import PLUGINS_HINT


class CurriculumSearch(Settings):
    """Settings of curriculum learning (Penha and Hauff 2020): easy training queries come first.

    Each of `variants` with a curriculum is a separate system, in addition to the variants of the study. Its search
    covers pacing x score x delta x duration. If `compare` names one of these, there is one system for each value of it.
    """

    variants: Annotated[tuple[str, ...], expect("a list of distinct names out of variants, or []")] = ()
    """Variants that are also trained with a curriculum. If empty, there is none."""
    compare: Literal["score", "pacing"] | None = None
    """Hyperparameter with one system for each value, such as CL-turns or CL-root_2. If None, there is one, CL."""
    pacing: Annotated[
        tuple[Annotated[str, AfterValidator(check_pacing)], ...],
        AfterValidator(check_distinct),
        expect(
            "a list of distinct names out of ",
            lambda _: (
                f"{', '.join(name for name in PACING if name != 'standard')}, or root_n for any n; standard is "
                "the baseline, which every study has" + PLUGINS_HINT
            ),
        ),
    ] = (DEFAULTS["pacing"],)
    """How fast difficult queries are added to the training."""
    score: Annotated[
        tuple[DifficultyScoreName, ...],
        AfterValidator(check_distinct),
        expect("a list of distinct names out of ", lambda _: ", ".join(DIFFICULTY_SCORES) + PLUGINS_HINT),
    ] = (DEFAULTS["score"],)
    """Criteria by which a query counts as difficult."""
    delta: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers, each above 0 and below 1, e.g. [0.25, 0.33]"),
    ] = (DEFAULTS["delta"],)
    """Share of the training queries that is available at the first step."""
    duration: Shares = (DEFAULTS["duration"],)
    """Share of the training steps after which all queries are sampled."""
    scorer_epochs: Epochs | None = None
    """Epochs of the scoring run, which computes BERT_pred and BERT_loss. If None, as long as a run of the study."""
    vectors: Annotated[str, Field(min_length=1)] | None = None
    """File of word vectors for sigma_SM, as text of fastText or word2vec. If None, the model's input embeddings."""
    words: DifficultyWords = "plain"
    """Words of sigma_SM, sigma_BM25 and AP_BM25. plain: those of BM25. blanks: split at blanks, as in the code of Penha
    and Hauff (2020)."""

    @property
    def grid(self) -> dict[str, tuple[object, ...]]:
        """Values of every hyperparameter of a curriculum, by name."""
        return {name: getattr(self, name) for name in PARAM_NAMES}
