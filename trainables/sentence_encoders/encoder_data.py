"""Data of sentence encoders for studies: implements `trainables.specs.plugin.DataBackend`."""

from collections.abc import Iterator
from typing import Any

from trainables.data.sentence_dataset import SentenceDataset, find_prepared_data, prepare_data
from trainables.data.statistics import load_sentence_statistics as load_statistics
from trainables.models.pretrained import (
    count_layers_to_reinitialize,
    hash_model_files,
    read_max_tokens,
    resolve_model_path,
)
from trainables.text.text_overlap import check_overlaps, describe_overlap
from trainables.utils.errors import UserError

__all__ = [
    "check_data",
    "compute_query_attributes",
    "describe_data",
    "find_prepared_data",
    "load_statistics",
    "prepare_data",
    "summarize_data",
]


def check_data(study: Any, prepared: SentenceDataset) -> None:
    """Raise an error, before anything is trained, if the study cannot use this data.

    Raises:
        UserError: if a batch is larger than an epoch, all gold similarities of a set are equal, more fresh layers are
            asked for than the model trains or its layers share their weights, or the splits share more sentences than
            the study allows.
    """
    model = study.model
    if model.reinit_layers:  # without fresh layers a dry run need not download the model
        layers = count_layers_to_reinitialize(resolve_model_path(model.name), model.reinit_layers)
        n_trained = (model.num_layers or layers) - model.frozen_layers
        if model.reinit_layers > n_trained:
            expected = f"at most {n_trained}, the number of trained layers"
            raise UserError("model.reinit_layers", model.reinit_layers, expected)
    # There is no default limit: training sees no similarities, and published evaluations share sentences.
    if study.task.allowed_overlap is not None:
        check_overlaps(prepared.find_overlaps(), study.task.allowed_overlap)
    sentences = int(prepared.read_metadata()["splits"]["train"]["queries"])
    if study.training.batch_size > sentences:
        expected = f"at most {sentences}, the number of training sentences"
        raise UserError("training.batch_size", study.training.batch_size, expected)
    pairs = prepared.read_pairs()
    for (split, name), pairs_of_set in pairs.groupby(["split", pairs["query_id"].str.partition("/")[0]], sort=False):
        if pairs_of_set["relevant"].nunique() < 2:
            found = f"all {len(pairs_of_set)} {split} pairs of {name} have the same similarity"
            raise UserError("task.evaluation_path", found, "at least two different similarities")


def describe_data(prepared: SentenceDataset) -> dict[str, Any]:
    """Return the data's description for the report: fingerprint, counts and overlaps of the splits."""
    meta, overlaps = prepared.read_metadata(), prepared.find_overlaps()
    description = {key: meta[key] for key in ("fingerprint", "skipped", "splits", "sets")}
    # The key is absent if there are none, so that earlier plans stay valid.
    return description | ({"overlaps": overlaps} if overlaps else {})


def summarize_data(study: Any, prepared: SentenceDataset) -> Iterator[str]:
    """Yield lines of text that describe the data to a person; makes the tokens if needed."""
    from trainables.data.sentence_tokens import tokenize_sentences
    from trainables.models.pretrained import load_tokenizer

    meta = prepared.read_metadata()
    counts = meta["splits"]
    yield f"task {study.task.name}, fingerprint {prepared.fingerprint}, {counts['train']['queries']} sentences"
    for reason, count in meta["skipped"].items():
        yield f"skipped: {count} x {reason}"
    yield from map(describe_overlap, prepared.find_overlaps())
    for split, subsets in meta["sets"].items():
        yield f"{split}: {sum(subsets.values())} pairs, {counts[split]['queries']} of them distinct"
        for name in dict.fromkeys(subset.partition("/")[0] for subset in subsets):
            sizes = {subset: count for subset, count in subsets.items() if subset.partition("/")[0] == name}
            parts = ", ".join(f"{subset.partition('/')[2]} {count}" for subset, count in sizes.items())
            yield f"  {name:6} {sum(sizes.values()):6} pairs{f' ({parts})' if len(sizes) > 1 else ''}"
    path, length = resolve_model_path(study.model.name), study.model.max_length
    longest, digest = read_max_tokens(path), hash_model_files(path)
    tokens = tokenize_sentences(prepared, load_tokenizer(path), digest, length, longest, study.cache_folder)
    yield f"{tokens.describe_lengths('sentence')}, in training to model.max_length = {length}"


def compute_query_attributes(study: Any, resolved: Any, difficulty_model_id: str) -> None:
    """Return None: the only known attribute of a pair is its set, which the report shows anyway."""
