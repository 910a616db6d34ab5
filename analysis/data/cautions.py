"""Cautions about the scores of a study: how they were computed, and on what machines."""

from collections import Counter

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results
from records.plan import Plan
from trainables.metrics import RERANKING_NOTE, describe_retrieval

_LARGE = 0.1
"""Share of truncated texts from which on the truncation is mentioned."""
_CAPTION = (
    "Scores are of re-ranking candidates that contain the relevant documents, not of retrieval from a collection."
)
_SINGLE_LOGIT = (
    "Candidates are ranked by logit(relevant) alone (model.ranking_score), which is no probability: there is no "
    "calibration error and no reliability diagram."
)

_COMPARING_LOSS = (
    "No probability follows from the scores of {systems}, since {their} loss compares documents, or is no likelihood: "
    "there is no calibration error for {them}."
)


def format_caption(results: Results) -> str:
    """Return the caution for the caption of a table of scores; empty if there is none."""
    parts = _describe_protocol(results.plan, _CAPTION)
    for describe in (_describe_label_noise, _describe_teachers, _describe_ranking_score, _describe_truncation):
        parts += describe(results)
    return " ".join(parts)


def list_cautions(results: Results) -> list[str]:
    """List all cautions at full length, including machines of several kinds."""
    return [
        *_describe_protocol(results.plan, RERANKING_NOTE),
        *_describe_label_noise(results),
        *_describe_teachers(results),
        *_describe_ranking_score(results),
        *_describe_truncation(results),
        *_describe_mixed_machines(results),
    ]


def _describe_protocol(plan: Plan, sampled: str) -> list[str]:
    """Return the caution about candidates that were sampled, or a description of those that were retrieved."""
    if plan.first_stage is None:
        return [sampled] if plan.is_reranking else []
    return [describe_retrieval(plan.first_stage, (plan.data or {}).get("splits", {}))]


def _describe_label_noise(results: Results) -> list[str]:
    """Say which training labels are wrong on purpose, if any are."""
    noise = results.plan.label_noise
    return [f"Trained with label noise: {noise}."] if noise else []


def _describe_teachers(results: Results) -> list[str]:
    """Name the files with the scores that some systems learned, if any did."""
    systems = dict[str, list[str]]()
    for run in results.runs:
        if digest := run.get_settings("variant").get("teacher"):
            systems.setdefault(str(digest), []).append(str(run.config.get("variant")))
    return [
        f"{', '.join(dict.fromkeys(names))} learned the scores of a teacher (task.teacher, a file with a SHA-256 that "
        f"begins with {digest}), not those of the negative sampler."
        for digest, names in systems.items()
    ]


def _describe_ranking_score(results: Results) -> list[str]:
    """Say that no probability follows from some or all scores, if that is so."""
    without = [run for run in results.runs if not run.has_probabilities]
    if any(run.is_single_logit for run in without):
        return [_SINGLE_LOGIT]
    systems = list(dict.fromkeys(str(run.config.get("variant")) for run in without))
    words = {"their": "their", "them": "them"} if len(systems) > 1 else {"their": "its", "them": "it"}
    return [_COMPARING_LOSS.format(systems=", ".join(systems), **words)] if systems else []


def _describe_truncation(results: Results) -> list[str]:
    """Describe the share of texts that the model truncates, if runs recorded it."""
    counts = {
        (run.summary.get("texts_truncated", 0), total, run.get_settings("model").get("max_length"))
        for run in results.runs
        if (total := run.summary.get("texts"))
    }
    return [
        f"{cut:,} of {total:,} texts ({100 * cut / total:.1f} %) lose text to model.max_length = {length}."
        for cut, total, length in sorted(counts)
        if cut >= _LARGE * total
    ]


def count_machines(results: Results) -> dict[int, Counter[str]]:
    """Count the finished runs by version of the arithmetic and kind of machine, as far as they recorded them.

    The precision of a run follows from its settings and the version of the arithmetic, so runs of different versions
    are not compared with each other.
    """
    kinds = dict[int, Counter[str]]()
    for run in results.runs:
        if run.is_finished and (environment := run.get_settings("environment")):
            kinds.setdefault(environment.get("arithmetic", 0), Counter())[_describe_machine(run)] += 1
    return kinds


def _describe_mixed_machines(results: Results) -> list[str]:
    """Describe the machines of the trained systems, if they are of several kinds or versions of the arithmetic."""
    kinds = count_machines(results)
    lines = [_describe_kinds(of_version) for _, of_version in sorted(kinds.items())]
    if len(kinds) < 2:
        return lines if any(len(of_version) > 1 for of_version in kinds.values()) else []
    named = "; ".join(f"version {version} ({_count_runs(kinds[version].total())})" for version in sorted(kinds))
    return [
        f"Runs are from {len(kinds)} versions of the project's arithmetic, and the last digits of scores depend on it: "
        f"{named}.",
        *(f"Version {version}: {line}" for version, line in zip(sorted(kinds), lines, strict=True)),
    ]


def _describe_kinds(kinds: Counter[str]) -> str:
    if len(kinds) == 1:
        return f"The scores are reproducible to the last digit on this kind of machine: {next(iter(kinds))}."
    counts_text = "; ".join(f"{kind} ({_count_runs(count)})" for kind, count in sorted(kinds.items()))
    return (
        f"Runs are from {len(kinds)} kinds of machine, and the last digits of scores depend on the kind: {counts_text}."
    )


def _count_runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _describe_machine(run: Run) -> str:
    """Describe the properties of the machine that the bits of a run depend on."""
    environment, training = (run.get_settings(part) for part in ("environment", "training"))
    threads = training.get("threads")
    parts = [
        environment.get("device"),
        environment.get("instruction_set"),
        f"trained in {training.get('precision')}, scored in {run.scoring_precision}",
        f"{threads} thread{'s' * (threads != 1)} a trial",
        f"torch {environment.get('torch')}",
    ]
    return ", ".join(map(str, parts))
