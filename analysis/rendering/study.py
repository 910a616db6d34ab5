"""The report of a study as a document."""

from analysis.data.cautions import format_caption
from analysis.rendering.conclusion import write_conclusion
from analysis.rendering.document import Document
from analysis.rendering.notes import collect_notes
from analysis.rendering.sections import list_sections
from analysis.rendering.summary import answer_questions
from analysis.tables.main import ReportData


def build_document(analysis: ReportData) -> Document:
    """Return what the report of a study says."""
    results, plan = analysis.results, analysis.results.plan
    answers = answer_questions(analysis)
    return Document(
        title=f"{plan.study}: {plan.task}",
        conclusions=[write_conclusion(analysis)],
        answers=answers,
        sections=list_sections(analysis),
        plan=plan,
        plan_title=f"Plan {results.plan_hash}, version {plan.version}",
        notes=collect_notes(analysis),
        caution=format_caption(results),
        cost=" ".join(dict(answers)["What did it cost?"]),
        links={run.id: run.url for run in results.runs if run.url},
    )
