"""The plan of a suite: its studies, their comparisons and the published results, fixed before its first test score."""

from pydantic import BaseModel, Field

from trainables.utils.errors import UserError


class PlannedStudy(BaseModel, frozen=True, extra="forbid"):
    """A study of a suite."""

    key: str
    """Name of the study within the suite, also of its folder."""
    study: str
    """Name of the study."""
    project: str
    """W&B project of the study."""
    labels: dict[str, str]
    """Label of the study on each axis of the suite."""
    metric: str
    """Metric of the headline; the comparisons of all studies with this metric are corrected together."""
    comparisons: tuple[tuple[str, str], ...]
    """Comparisons of the headline's family: pairs (system, baseline)."""
    is_late: bool = False
    """True if the study joined the suite when other studies already had test scores."""


class PublishedScore(BaseModel, frozen=True, extra="forbid"):
    """A published score of a system."""

    mean: float
    sd: float | None = None
    """Standard deviation over runs. If None, it was not published."""


class PublishedResults(BaseModel, frozen=True, extra="forbid"):
    """Published results of the studies of a suite."""

    source: str
    metric: str
    split: str
    note: str = ""
    scores: dict[str, dict[str, PublishedScore]]
    """Scores by the labels of a study, joined by a slash, and by system."""

    def get_scores(self, study: PlannedStudy) -> dict[str, PublishedScore]:
        """Return the published scores of a study by system; empty if there are none."""
        return self.scores.get("/".join(study.labels.values()), {})


class SuitePlan(BaseModel, frozen=True, extra="forbid"):
    """The plan of a suite.

    Example:
        >>> studies = [{"key": k, "study": k, "project": "s", "labels": {"task": k}, "metric": "MAP",
        ...             "comparisons": []} for k in "ab"]
        >>> plan = SuitePlan(suite="s", columns="task", axes={"task": ("a", "b")}, alpha=0.05, correction="holm",
        ...                  studies=studies)
        >>> [[study.key for study in group] for group in plan.list_rows()]
        [['a', 'b']]
    """

    suite: str
    version: int = 1
    replaces: str | None = None
    """Hash of the version before."""
    columns: str
    """Axis with the values that are the columns of the tables; averages are over it."""
    axes: dict[str, tuple[str, ...]]
    alpha: float = Field(gt=0, lt=1)
    correction: str
    """Correction of the studies, and over them."""
    studies: tuple[PlannedStudy, ...] = Field(min_length=1)
    published: PublishedResults | None = None

    @property
    def metrics(self) -> list[str]:
        """Metrics of the studies, in their order."""
        return list(dict.fromkeys(study.metric for study in self.studies))

    def list_rows(self) -> list[list[PlannedStudy]]:
        """Return the studies in groups that differ in the column only, each in the order of the columns."""
        groups: dict[tuple[str, ...], list[PlannedStudy]] = {}
        for study in self.studies:
            groups.setdefault(self.get_row_labels(study), []).append(study)
        columns = self.axes[self.columns]
        return [sorted(group, key=lambda study: columns.index(study.labels[self.columns])) for group in groups.values()]

    def get_row_labels(self, study: PlannedStudy) -> tuple[str, ...]:
        """Return the labels of a study on all axes but that of the columns."""
        return tuple(label for axis, label in study.labels.items() if axis != self.columns)

    def get_study(self, key: str) -> PlannedStudy:
        """Return a study by its key.

        Raises:
            UserError: if there is none.
        """
        for study in self.studies:
            if study.key == key:
                return study
        raise UserError("--study", repr(key), f"one of {', '.join(study.key for study in self.studies)}")
