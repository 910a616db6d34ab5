"""What the searches of a study asked for and were told, as the study wrote it down in search.json."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

ProposalState = Literal["complete", "dropped", "incomplete", "unknown"]
ParamValue = int | float | str


class _LogModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Proposal(_LogModel):
    """One configuration that a search asked for.

    Attributes:
        number: its place in the order of proposal.
        values: every hyperparameter asked for, by name; those that its schedule does not have are absent.
        state: complete; dropped, where the race gave it no more seeds; incomplete, where a seed failed; unknown, where
            its runs have not ended.
        seeds: those that finished.
        objectives: means over those seeds, by name.
        told: what the sampler was told.
        untuned: whether these are the published settings, which nobody had to search for.
    """

    number: int
    configuration_id: str
    values: dict[str, ParamValue]
    state: ProposalState
    seeds: tuple[int, ...] = ()
    objectives: dict[str, float] | None = None
    told: tuple[float, ...] | None = None
    untuned: bool = False


class SystemSearchLog(_LogModel):
    """The search of one system.

    Attributes:
        size: distinct configurations of its space.
        wanted: how many were to be proposed.
        proposed: how many were.
        stopped: the setting whose budget was spent before that, if one was.
        grid: hyperparameters with more than one value, and those values.
        winner: the configuration chosen, by id.
        front: the Pareto front of several objectives; of one objective, the winner.
        untuned: the system's untuned default, whether or not it was proposed.
    """

    sampler: str
    size: int
    wanted: int
    proposed: int
    stopped: str | None = None
    grid: dict[str, tuple[ParamValue, ...]] = {}
    proposals: tuple[Proposal, ...] = ()
    winner: str | None = None
    front: tuple[str, ...] = ()
    untuned: str | None = None

    def get_proposals(self, state: ProposalState) -> list[Proposal]:
        """The proposals of one state, in their order."""
        return [proposal for proposal in self.proposals if proposal.state == state]

    def get_complete(self, objectives: tuple[str, ...]) -> list[Proposal]:
        """The complete proposals that have all these objectives, in their order."""
        found = self.get_proposals("complete")
        return [p for p in found if p.objectives is not None and all(name in p.objectives for name in objectives)]


class SearchLog(_LogModel):
    """The searches of a study, by system."""

    systems: dict[str, SystemSearchLog]
