"""The analysed data of a suite: the report of each study, and what is compared over all of them."""

from dataclasses import dataclass

from analysis.suites.comparisons import AverageComparison, SuiteComparison, average_over_columns, correct_over_studies
from analysis.suites.results import SuiteResults
from analysis.tables.main import ReportData, build_report_data
from records.suite_plan import SuitePlan


@dataclass(frozen=True)
class SuiteData:
    """Everything that the joint report shows.

    Attributes:
        results: results of the suite.
        reports: report of each study by key.
        comparisons: comparisons of the studies, corrected for all of them.
        averages: averages over the columns.
    """

    results: SuiteResults
    reports: dict[str, ReportData]
    comparisons: list[SuiteComparison]
    averages: list[AverageComparison]

    @property
    def plan(self) -> SuitePlan:
        """Plan of the suite."""
        return self.results.plan


def build_suite_data(results: SuiteResults) -> SuiteData:
    """Analyse every study of a suite, and compare over all of them.

    Raises:
        UserError: if the runs of a study cannot be compared.
    """
    reports = {key: build_report_data(study) for key, study in results.studies.items()}
    comparisons = correct_over_studies(results.plan, reports)
    return SuiteData(results, reports, comparisons, average_over_columns(results.plan, reports))
