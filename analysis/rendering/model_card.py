"""Model card of a trained model: what the study shows of its system, and how the model is used."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from analysis.data.configurations import format_score
from analysis.rendering.conclusion import answer_study, list_warnings
from analysis.rendering.escaping import Raw, render_template
from analysis.rendering.notes import list_data_notes, list_search_notes
from analysis.rendering.sections import describe_plan
from analysis.tables.main import ReportData

_MAX_CHARACTERS = 300
"""Most characters of a text in the example."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model that are not among the study's results.

    Attributes:
        seeds: seeds of the models: one, or those of an ensemble.
        folders: folders of the models of an ensemble; empty for one model.
        library_class: class that loads it: CrossEncoder or SentenceTransformer of sentence-transformers, or PeftModel.
        transformers_class: class of transformers that loads it.
        is_whole: True if that class loads the whole model, not its encoder alone.
        needs_code: True if the folder contains code that a user must trust.
        has_probabilities: True if the sigmoid of a score is the probability of relevance.
        notes: what a user must do to a text, and where the libraries differ from the study.
        sources: papers and collections that the data and the method come from.
        example: some pairs of texts of the test split.
        check: how far its scores are from those of the study.
        base_id: its id on the hub; None if it has none.
        licence: licence of the pretrained model; None if its files do not say.
        settings: settings of the run in words, by name.
        versions: versions of the libraries of the run, by name.
    """

    system: str
    seeds: Sequence[int]
    folders: Sequence[str]
    task: str
    tags: Sequence[str]
    library_class: str
    transformers_class: str
    is_whole: bool
    needs_code: bool
    has_probabilities: bool
    notes: Sequence[str]
    sources: Sequence[str]
    example: Sequence[tuple[str, str]]
    check: str
    fingerprint: str
    base: str
    base_id: str | None
    licence: str | None
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    command: str


def render_model_card(analysis: ReportData, facts: ModelFacts) -> str:
    """Render the card as Markdown with the metadata that the Hugging Face hub reads."""
    import yaml

    table, score = analysis.table, _get_own_score(analysis, facts)
    row = next(row for row in table.rows if row.system == facts.system)
    plan = analysis.results.plan
    undecided = [f"{c.system} over {c.baseline} ({c.metric})" for c in analysis.comparisons if c.verdict == "undecided"]
    return render_template(
        "model_card.md.j2",
        metadata=yaml.safe_dump(_build_metadata(analysis, facts, score), sort_keys=False, allow_unicode=True).strip(),
        facts=facts,
        plan=plan,
        plan_hash=analysis.results.plan_hash,
        answer=answer_study(analysis),
        details=describe_plan(analysis),
        scores=[(plan.search_split, format_score(row.dev)), (plan.test_split, format_score(row.test))],
        undecided=undecided,
        cautions=[*list_warnings(analysis), *list_search_notes(analysis), *list_data_notes(analysis.results)],
        configuration=row.configuration,
        seeds=table.seeds,
        own_score=None if score is None else f"{score:.4f}",
        example=[tuple(map(_format_text, pair)) for pair in facts.example],
        version=version("ranker-studies"),
    )


def _get_own_score(analysis: ReportData, facts: ModelFacts) -> float | None:
    """Return the test score of the model itself: that of its seed, or of the ensemble. None if the study has none."""
    if facts.folders:
        return next((row.value for row in analysis.ensembles if row.system == facts.system), None)
    configuration, plan = analysis.chosen[facts.system], analysis.results.plan
    assert configuration is not None
    values = configuration.runs[facts.seeds[0]].evaluate_queries(plan.get_split("test"), plan.metric)
    return float(values.to_numpy().mean())


def _format_text(text: str) -> str:
    """Return a text as a literal of Python that does not end a block of code; a long one loses its end."""
    shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} ..."
    return Raw(json.dumps(shown.replace("`", "'"), ensure_ascii=False))


def _build_metadata(analysis: ReportData, facts: ModelFacts, score: float | None) -> dict[str, object]:
    """Return the metadata of the card. The hub defines its keys.

    Its result is that of this model. The mean over the seeds, and what it is compared with, are in the text.
    """
    plan = analysis.results.plan
    dataset = re.sub(r"[^\w.-]+", "-", plan.task)
    result = {
        "task": {"type": facts.task},
        "dataset": {"type": dataset, "name": plan.task, "split": plan.get_split("test")},
        "metrics": [{"type": plan.metric, "value": score}],
    }
    return {
        "library_name": "peft" if facts.library_class == "PeftModel" else "sentence-transformers",
        "pipeline_tag": facts.task,
        "tags": list(facts.tags),
        **({"base_model": facts.base_id} if facts.base_id else {}),
        **({"license": facts.licence} if facts.licence else {}),
        "datasets": [dataset],
        "metrics": [plan.metric],
        **({"model-index": [{"name": facts.system, "results": [result]}]} if score is not None else {}),
    }
