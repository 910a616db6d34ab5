"""Model card of a trained model: what the study shows of its system, and how the model is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from analysis.data.configurations import format_score
from analysis.rendering.escaping import render_template
from analysis.rendering.notes import collect_notes
from analysis.rendering.summary import answer_questions
from analysis.tables.main import ReportData


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model that are not among the study's results.

    Attributes:
        system: name of the system.
        seeds: seeds of the models: one, or those of an ensemble.
        folders: folders of the models of an ensemble; empty for one model.
        task: task by its name on the hub.
        tags: tags for the hub.
        library_class: class of sentence-transformers that loads it: CrossEncoder or SentenceTransformer.
        transformers_class: class of transformers that loads it.
        is_whole: True if that class loads the whole model, not its encoder alone.
        needs_code: True if the folder contains code that a user must trust.
        has_probabilities: True if the sigmoid of a score is the probability of relevance.
        notes: what a user must do to a text, and where the libraries differ from the study.
        check: how far its scores are from those of the study.
        fingerprint: fingerprint of the data.
        base: name of the pretrained model.
        base_id: its id on the hub; None if it has none.
        licence: licence of the pretrained model; None if its files do not say.
        settings: settings of the run in words, by name.
        versions: versions of the libraries of the run, by name.
        command: command that wrote the model.
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
    check: str
    fingerprint: str
    base: str
    base_id: str | None
    licence: str | None
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    command: str


def render_model_card(analysis: ReportData, facts: ModelFacts) -> str:
    """Render the card as Markdown with the metadata that the Hugging Face hub reads.

    Args:
        analysis: the study's results.
        facts: what they do not contain.
    """
    table = analysis.table
    row = next(row for row in table.rows if row.system == facts.system)
    plan = analysis.results.plan
    undecided = [f"{c.system} over {c.baseline} ({c.metric})" for c in analysis.comparisons if c.verdict == "undecided"]
    return render_template(
        "model_card.md.j2",
        metadata=yaml.safe_dump(_build_metadata(analysis, facts), sort_keys=False, allow_unicode=True).strip(),
        facts=facts,
        plan=plan,
        plan_hash=analysis.results.plan_hash,
        answers=answer_questions(analysis),
        scores=[(split, format_score(score)) for split, score in zip(table.splits, (row.dev, row.test), strict=True)],
        undecided=undecided,
        cautions=collect_notes(analysis),
        configuration=row.configuration,
        seeds=table.seeds,
    )


def _build_metadata(analysis: ReportData, facts: ModelFacts) -> dict[str, object]:
    return {
        "library_name": "sentence-transformers",
        "pipeline_tag": facts.task,
        "tags": list(facts.tags),
        **({"base_model": facts.base_id} if facts.base_id else {}),
        **({"license": facts.licence} if facts.licence else {}),
        "metrics": [analysis.results.plan.metric],
    }
