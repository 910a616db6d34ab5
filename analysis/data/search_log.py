"""Log of the searches of a study: proposals and their results, from search.json."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

ProposalState = Literal["complete", "dropped", "incomplete", "unknown"]
ParamValue = int | float | str


class _LogModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Proposal(_LogModel):
    """One configuration that a search has proposed.

    Attributes:
        number: its place in the order of proposals.
        configuration_id: id of the configuration.
        values: every suggested hyperparameter, by name. Those that its schedule does not have are absent.
        state: complete; dropped, if racing pruned it; incomplete, if a seed failed; unknown, if its runs have not
            ended.
        seeds: seeds that finished.
        objectives: means over those seeds, by name.
        told: values that were reported to the sampler.
        untuned: True for the default of the system: the published settings, which need no search.
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
        sampler: name of the sampler.
        size: number of distinct configurations in its space.
        wanted: number of configurations that were to be proposed.
        proposed: number of configurations that were proposed.
        stopped: setting that limited the search before that, if one did.
        grid: hyperparameters with more than one value, and those values.
        proposals: proposals in their order.
        winner: id of the chosen configuration.
        front: Pareto front of several objectives; with one objective, the winner.
        untuned: id of the system's default configuration, whether or not it was proposed.
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
        """Return the proposals in one state, in their order."""
        return [proposal for proposal in self.proposals if proposal.state == state]

    def get_complete(self, objectives: tuple[str, ...]) -> list[Proposal]:
        """Return the complete proposals that have all these objectives, in their order."""
        complete = self.get_proposals("complete")
        return [p for p in complete if p.objectives is not None and all(name in p.objectives for name in objectives)]


class SearchLog(_LogModel):
    """The searches of a study, by system."""

    systems: dict[str, SystemSearchLog]
