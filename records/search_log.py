"""Log of the searches of a study, search.json: the proposals, their order, their states and their results.

The report shows this log. With it, a later start does not have to ask a sampler again for its earlier proposals.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from records.json_files import read_intact_object
from trainables.utils.files import write_json

SEARCH_LOG_FILE = "search.json"
"""Name of the file in the study's folder."""
ProposalState = Literal["complete", "dropped", "incomplete", "unknown"]
ParamValue = int | float | str


class Proposal(BaseModel, frozen=True, extra="allow"):
    """One configuration that a search has proposed.

    Attributes:
        number: its place in the order of proposals.
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


class SystemSearchLog(BaseModel, frozen=True, extra="allow"):
    """The search of one system.

    Attributes:
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


class SearchLog(BaseModel, frozen=True, extra="allow"):
    """The searches of a study, by system."""

    systems: dict[str, SystemSearchLog]


def read_searches(folder: Path) -> dict[str, Any]:
    """Return the logs of the searches by system, as `SystemSearchLog` describes them.

    They are empty if the file is missing or damaged, because the study can compute them again.
    """
    systems = read_intact_object(folder / SEARCH_LOG_FILE).get("systems")
    return systems if isinstance(systems, dict) else {}


def write_search_log(folder: Path, log: dict[str, Any]) -> bool:
    """Write the log of `StudyScheduler.build_search_log` if the stored one differs; return whether it was written."""
    if log["systems"] == read_searches(folder):
        return False
    write_json(folder / SEARCH_LOG_FILE, log, with_checksum=True)
    return True
