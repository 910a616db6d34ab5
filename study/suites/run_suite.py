"""Run of a suite: the trials of all its studies on the same machines, then each study's report and the joint one."""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from study.suites.joint_plan import check_suite_folder, register_suite_plan
from study.suites.suite_loader import Suite, name_study
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.utils.live_view import LiveView
from study.workflows.cleanup import clean_up_suite
from study.workflows.open_study import open_study
from study.workflows.prepare_data import prepare_study_data
from study.workflows.session import StudySession, run_trials

if TYPE_CHECKING:
    from analysis.suites.suite_report import SuiteReport


def prepare_suite_data(suite: Suite) -> None:
    """Prepare the data of every study and print a description of it.

    Raises:
        UserError: a task or a model is not what a study says.
    """
    for each in suite.studies:
        print_line(f"study {each.study.name}")
        with name_study(each):
            prepare_study_data(each.study)


def run_suite(suite: Suite, start_time: float) -> "SuiteReport":
    """Run everything in the suite that is not finished, then write the report of each study and the joint report.

    A study's report is written as soon as its last trial has ended.

    Returns:
        The joint report, after it has been written and printed.

    Raises:
        UserError: a model, a task or a folder is not what a study says.
        IncompleteError: a system of a study has no complete test result.
    """
    check_suite_folder(suite)
    clean_up_suite(suite.folder)
    opened = []
    for each in suite.studies:
        with name_study(each):
            opened.append(open_study(each.study))
    plan, plan_hash = register_suite_plan(suite)
    print_line(f"suite {suite.name}, plan {plan_hash} version {plan['version']}, results in {suite.folder}")
    sessions = [StudySession(each, start_time) for each in opened]
    with ExitStack() as stack, LiveView() as view:
        for session in sessions:
            stack.enter_context(closing(session.wandb_logger))
            session.upload_earlier_records()
        _run_sessions(sessions, view)
        with view.show_activity("joint report"):
            report = _write_joint_report(suite)
    _check_complete(sessions)
    print_line(f"{time.monotonic() - start_time:.0f} s in total for {len(sessions)} studies")
    return report


def _run_sessions(sessions: Sequence[StudySession], view: LiveView) -> None:
    """Run the trials of all studies, and publish each study when its last trial has ended.

    Raises:
        Exception: the report of a study could not be written. It is raised after the other studies have ended.
    """
    published, errors = list[StudySession](), list[Exception]()

    def publish(session: StudySession) -> None:
        published.append(session)
        print_line(f"{session.opened.study.name}: all trials have ended")
        try:
            session.publish_results(view, is_brief=True)
        except Exception as error:  # otherwise each start would fail here, and the other studies would never run
            print_line(f"{session.opened.study.name}: no report ({type(error).__name__}); the other studies go on")
            errors.append(error)
        for earlier in published[:-1]:  # end processes that have nothing left to write
            if not earlier.wandb_logger.pending:
                earlier.wandb_logger.close()

    def handle_trial_end(session: StudySession) -> None:
        session.trials.on_trial_end()
        if session.scheduler.is_finished:
            publish(session)

    for session in sessions:
        if session.scheduler.is_finished:
            publish(session)
    remaining = [
        replace(session.trials, on_trial_end=partial(handle_trial_end, session))
        for session in sessions
        if session not in published
    ]
    run_trials(remaining, sessions[0].opened.cluster, view)
    for session in sessions:
        session.finish(view)
    if errors:
        raise errors[0]


def _write_joint_report(suite: Suite) -> "SuiteReport":
    from analysis.export.report_folder import PAGE
    from analysis.suites.suite_report import write_suite_report
    from analysis.suites.suite_results import read_suite_folder

    report = write_suite_report(read_suite_folder(suite.folder), suite.folder / "report")
    print_line(report.text)
    print_line(f"report: {report.folder / PAGE}")
    return report


def _check_complete(sessions: Sequence[StudySession]) -> None:
    """Check that every system of every study has a complete test result."""
    incomplete, all_causes = list[str](), dict[str, None]()
    for session in sessions:
        missing, causes = session.find_missing_results()
        incomplete += (f"{name} in {session.opened.study.name}" for name in missing)
        all_causes |= dict.fromkeys(causes)
    if incomplete:
        raise IncompleteError(f"no complete test result of {', '.join(incomplete)}", list(all_causes))
