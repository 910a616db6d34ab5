"""Settings of a study's curricula: which systems get one, and what of it is searched."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from search_spaces.curriculum import DEFAULTS, PARAM_NAMES, parse_pacing
from search_spaces.settings import Seed, Shares, check_distinct, check_increasing, expect
from trainables.curriculum.pacing import PACING
from trainables.curriculum.scores import DifficultyScoreName
from trainables.utils.settings import Settings


def _normalize_pacing_names(values: tuple[str, ...]) -> tuple[str, ...]:
    return check_distinct(tuple(parse_pacing(name) for name in values))


class CurriculumSearch(Settings):
    """Curriculum learning (Penha and Hauff 2020): systems that see easy training queries first.

    Each of `variants` with a curriculum is a system of its own beside the study's variants, searched over pacing x
    score x delta x duration; where `compare` names one of these, there is a system for each of its values.
    """

    variants: Annotated[
        tuple[str, ...],
        expect("a list of distinct names out of variants, or []"),
    ] = ()
    """Those of the study's variants that are trained with a curriculum as well; none: no curriculum."""
    compare: Literal["score", "pacing"] | None = None
    """score: a system for each score, CL-turns and the like; pacing: one for each pacing function, CL-root_2 and the
    like; none: one, CL."""
    pacing: Annotated[
        tuple[str, ...],
        AfterValidator(_normalize_pacing_names),
        expect(
            f"a list of distinct names out of {', '.join(name for name in PACING if name != 'standard')}, or root_n "
            "for any n; standard is the baseline, which every study has"
        ),
    ] = (DEFAULTS["pacing"],)
    """How fast difficult queries come in."""
    score: Annotated[
        tuple[DifficultyScoreName, ...],
        AfterValidator(check_distinct),
        expect(f"a list of distinct names out of {', '.join(get_args(DifficultyScoreName))}"),
    ] = (DEFAULTS["score"],)
    """What makes a query difficult."""
    delta: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers, each above 0 and below 1, e.g. [0.25, 0.33]"),
    ] = (DEFAULTS["delta"],)
    """Share of the training queries at the beginning."""
    duration: Shares = (DEFAULTS["duration"],)
    """T, the step from which on all queries are sampled, as share of the training's steps."""
    seed: Seed = 0
    """Of the run whose weights BERT_pred and BERT_loss are made with: BERT trained as the study says."""
    vectors: Annotated[str, Field(min_length=1)] | None = None
    """File of word vectors for sigma_SM, fastText or word2vec, text or binary; none: the model's input embeddings."""

    @property
    def grid(self) -> dict[str, tuple[object, ...]]:
        """The values of every hyperparameter, by name."""
        return {name: getattr(self, name) for name in PARAM_NAMES}
