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
        mean: mean of the metric over those seeds.
        reported: value that was reported to the sampler.
        untuned: True for the default of the system: the published settings, which need no search.
    """

    number: int
    configuration_id: str
    values: dict[str, ParamValue]
    state: ProposalState
    seeds: tuple[int, ...] = ()
    mean: float | None = None
    reported: float | None = None
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
    untuned: str | None = None

    def get_proposals(self, state: ProposalState) -> list[Proposal]:
        """Return the proposals in one state, in their order."""
        return [proposal for proposal in self.proposals if proposal.state == state]


class SearchLog(_LogModel):
    """The searches of a study, by system."""

    systems: dict[str, SystemSearchLog]
