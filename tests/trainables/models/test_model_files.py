"""Models that cannot be trained are errors from their files alone; a hub that is away is told from a wrong id."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from study.config.loader import load_study
from study.workflows.dry_run import build_preview
from tests.trainables.small import World
from trainables.models.pretrained import (
    SLOW_TOKENIZERS,
    check_model_settings,
    find_local_model,
    load_tokenizer,
    report_unloadable,
    resolve_encoder_path,
    resolve_model_path,
)
from trainables.specs.ranker import RankerModelSettings
from trainables.utils.errors import MachineError, UserError

ALL_TRAINED = ("model.num_layers=none", "model.frozen_layers=0")


@contextmanager
def hub(status: int, code: str) -> Iterator[str]:
    """A server that answers every question with this status."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *about: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what is said of a model of a hub at an endpoint, with an empty cache."""

    def ask(endpoint: str, offline: bool = False) -> str:
        for name, value in {"ENDPOINT": endpoint, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": offline}.items():
            monkeypatch.setattr(constants, name, value)
        with pytest.raises(UserError) as error:
            resolve_model_path("somebody/nowhere")
        assert "\n" not in str(error.value)
        return str(error.value)

    return ask


HUB = {
    (404, "RepoNotFound"): "the hub has no 'somebody/nowhere'; expected a hub id (if private, with HF_TOKEN)",
    (403, "GatedRepo"): "access to 'somebody/nowhere' on the hub is restricted; expected a token with",
    (500, ""): "cannot reach the hub for 'somebody/nowhere' (Server error '500 Internal Server Error'",
}
"""Status and code of the hub's answer -> what is said."""


@pytest.mark.parametrize("answer", HUB, ids=str)
def test_what_the_hub_answers_is_told(home: Callable[..., str], answer: tuple[int, str]) -> None:
    with hub(*answer) as endpoint:
        assert home(endpoint).startswith(f"model.name: {HUB[answer]}")


def test_a_hub_that_is_away_is_not_taken_for_a_model_that_is_not_there(home: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for told, why in (
        (home(f"http://127.0.0.1:{port}"), "Connection refused"),
        (home("http://127.0.0.1:1", offline=True), "HF_HUB_OFFLINE is set"),
    ):
        assert "cannot reach the hub for 'somebody/nowhere'" in told
        assert why in told
        assert "expected a network connection" in told


def test_a_plan_asks_no_hub_and_reads_what_is_at_hand(world: World, tmp_path: Path) -> None:
    assert find_local_model("somebody/nowhere-at-all") is None
    assert find_local_model(str(world.bert)) == resolve_model_path(str(world.bert))
    with pytest.raises(UserError, match="no model at"):
        find_local_model(str(tmp_path))


def altered(world: World, place: Path, file: str, **changes: object) -> Path:
    shutil.copytree(world.bert, place)
    path = place / file
    content = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(content | changes), "utf-8")
    return place


@pytest.mark.parametrize(
    ("file", "changes", "told"),
    [
        ("config.json", {"model_type": "gpt2"}, "a model of type 'gpt2'; expected an encoder"),
        ("config.json", {"max_position_embeddings": 16}, "at most the model's 16"),
        ("config.json", {"tokenizer_class": "BertJapaneseTokenizer", "x": 1}, "expected a model with a fast tokenizer"),
        ("tokenizer_config.json", {"tokenizer_class": "BertweetTokenizer"}, "BertweetTokenizer; expected a model with"),
        ("config.json", None, "config.json in 'model' is not a JSON object"),
        ("model.safetensors", None, "model.safetensors in 'model' is incomplete"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "model.safetensors in 'model' is inc"),
        ("model.safetensors", b"", "model.safetensors in 'model' is incomplete"),
        ("model.safetensors", "remove", "no model.safetensors in 'model'; expected weights as safetensors"),
    ],
)
def test_a_plan_refuses_what_a_run_would(world: World, tmp_path: Path, file: str, changes: object, told: str) -> None:
    place = tmp_path / "model"
    if isinstance(changes, dict):
        altered(world, place, file, **changes)
        if file == "config.json" and "tokenizer_class" in changes:
            (place / "tokenizer_config.json").unlink()
    else:
        shutil.copytree(world.bert, place)
        path = place / file
        if changes == "remove":
            path.unlink()
        else:
            path.write_bytes(changes if isinstance(changes, bytes) else path.read_bytes()[:-2])
    folders = (f"output.folder={tmp_path / 'o'}", f"cache.folder={tmp_path / 'c'}", *ALL_TRAINED)
    study = load_study("quick", [f"model.name={place}", "model.max_length=32", *folders])
    with pytest.raises(UserError, match="model") as caught:
        build_preview(study)
    assert told in str(caught.value)


KERNEL = {"attn_implementation": "owner/kernel"}
FOREIGN = {
    "sentence_bert_config.json": ({"model_args": KERNEL}, "attn_implementation = 'owner/kernel' in sentence_bert_con"),
    "0_Transformer/config.json": (KERNEL, "attn_implementation = 'owner/kernel' in 0_Transformer/config.json of 'enc"),
    "0_Transformer/tokenizer_config.json": ({"auto_map": {"AutoTokenizer": "x.Y"}}, "auto_map in 0_Transformer/token"),
    "1_X/sentence_bert_config.json": ({"config_kwargs": {"quantization_config": {"bits": 4}}}, "quantization_config"),
    "modules.json": ([{"path": "", "type": "antigravity.X"}], "the module 'antigravity.X' in modules.json of 'encode"),
    "modules.json ": ([{"path": "../other", "type": "sentence_transformers.models.Dense"}], "'../other' in modules.js"),
    "modules.json  ": ([{"path": "a/b", "type": "sentence_transformers.models.Dense"}], "'a/b' in modules.json of 'en"),
    "modules.json   ": (["x"], "modules.json in 'encoder' is damaged"),
}
"""File -> its content, and the refusal of a sentence encoder that has it."""


@pytest.mark.parametrize(("file", "content", "told"), [(name.strip(), *row) for name, row in FOREIGN.items()])
def test_no_file_of_an_encoder_names_code_outside_the_libraries(
    tmp_path: Path, file: str, content: object, told: str
) -> None:
    place = tmp_path / "encoder"
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    rows = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    (place / "1_Pooling").mkdir(parents=True)
    for name, ordinary in (
        ("config.json", {"model_type": "bert"}),
        ("sentence_bert_config.json", {"max_seq_length": 256, "model_args": {"attn_implementation": "sdpa"}}),
        ("data_config.json", [{"name": "pairs", "weight": 1}]),
        ("1_Pooling/config.json", {"pooling_mode": "mean"}),
        ("modules.json", rows),
    ):
        (place / name).write_text(json.dumps(ordinary))
    assert resolve_encoder_path(str(place)) == place
    (place / file).parent.mkdir(exist_ok=True)
    (place / file).write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"^task\.sampler\.encoder: ") as caught:
        resolve_encoder_path(str(place))
    assert told in str(caught.value)


NEEDED = "\nReader requires the SentencePiece library but it was not found. See the\ninstallation page of its repo.\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ImportError(NEEDED), "Reader requires the SentencePiece library but it was not fou"),
        (OSError("Cannot read.\nNo file x"), "'bert' cannot be loaded (OSError: No file x); expected a fol"),
        (Exception("no such type"), "'bert' cannot be loaded (Exception: no such type); expected "),
        (AssertionError("a fault of the code"), None),
        (MachineError("a process ended"), None),
    ],
)
def test_what_a_library_says_of_files_is_told_and_other_errors_are_passed_on(
    error: Exception, told: str | None
) -> None:
    with pytest.raises(UserError if told else type(error)) as caught, report_unloadable(Path("models/bert")):
        raise error
    assert (told in str(caught.value)) if told else (caught.value is error)


@pytest.mark.skipif(find_spec("tiktoken") is not None, reason="the library is installed")
def test_a_library_that_a_tokenizer_needs_is_named(tmp_path: Path) -> None:
    """The libraries report it as an error of values."""
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"vocabulary")
    with pytest.raises(UserError, match=r"tiktoken.*; expected that library, installed with pip"):
        load_tokenizer(tmp_path)


def test_a_model_that_can_be_trained_is_planned(world: World, tmp_path: Path) -> None:
    for path in (world.bert, world.roberta):
        check_model_settings(path, RankerModelSettings(max_length=32))
        folders = (f"output.folder={tmp_path / 'o'}", f"cache.folder={tmp_path / 'c'}", *ALL_TRAINED)
        assert build_preview(load_study("quick", [f"model.name={path}", "model.max_length=32", *folders]))["runs"]


def test_the_slow_tokenizers_have_no_fast_one() -> None:
    from transformers import PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    for name in SLOW_TOKENIZERS:
        found = tokenizer_class_from_name(name)
        assert not issubclass(found, PreTrainedTokenizerFast)
