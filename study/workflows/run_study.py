"""Run of a whole study, from its settings to the printed report."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

from study.config.loader import Study
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.utils.live_view import LiveView
from study.workflows.open_study import open_study
from study.workflows.session import StudySession, run_trials

if TYPE_CHECKING:
    from analysis.report import Report


def run_study(study: Study, start_time: float) -> "Report":
    """Run everything in the study that is not finished, then analyse the records and write the report.

    Args:
        study: the study as the command line describes it.
        start_time: `time.monotonic()` at the start of the command.

    Returns:
        The report, after it has been written and printed.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
        IncompleteError: a system has no complete test result.
    """
    session = StudySession(open_study(study), start_time)
    with closing(session.wandb_logger), LiveView() as view:
        session.upload_earlier_records()
        run_trials([session.trials], session.opened.cluster, view)
        report = session.publish_results(view)
        session.finish(view)
    missing, causes = session.find_missing_results()
    if missing:  # a missing result is an error, not a finding
        raise IncompleteError(f"no complete test result of {', '.join(missing)}", causes)
    seconds, mode = time.monotonic() - start_time, study.tracking.mode
    print_line(f"{seconds:.0f} s in total; W&B {mode}, project {study.project}")
    return report
