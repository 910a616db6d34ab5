"""Sentences and pairs are prepared once, by one process, under what they depend on."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import hypothesis
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.sts import PAIRS, SHARED, sentence, write_settings
from trainables.data.sentence_dataset import find_prepared_data, prepare_data, to_portable_settings
from trainables.data.tasks import sts
from trainables.specs.sentence_encoder import STS_SETS, EncoderTaskSettings
from trainables.utils.errors import UserError

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"
lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=3)


@pytest.fixture
def settings(tmp_path: Path) -> EncoderTaskSettings:
    return write_settings(tmp_path / "sources")


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def file(settings: EncoderTaskSettings) -> Path:
    return Path(settings.path)


def test_what_is_prepared_is_what_was_written(settings: EncoderTaskSettings, tmp_path: Path) -> None:
    prepared = prepare_data(settings, tmp_path / "cache")
    assert prepared.read_sentences() == [sentence(i) for i in range(200)]
    assert prepared.folder == tmp_path / "cache" / "prepared" / prepared.fingerprint
    assert prepared.domains is None
    pairs = sts.read_pairs(tmp_path / "sources", STS_SETS)
    own = ["split", "query_id", "document_id", "first", "second", "relevant"]
    assert list(prepared.read_pairs()) == [*own, "pair_id"]
    pd.testing.assert_frame_equal(prepared.read_pairs()[own], pd.DataFrame(pairs))
    for split in ("dev", "test"):
        expected = pd.DataFrame([one for one in pairs if one.split == split])
        pd.testing.assert_frame_equal(prepared.read_pairs(split)[own], expected)


def test_the_same_two_sentences_have_one_pair_id_in_either_order_and_any_set(
    settings: EncoderTaskSettings, tmp_path: Path
) -> None:
    prepared = prepare_data(settings, tmp_path / "cache")
    test = prepared.read_pairs("test")
    texts = [frozenset(both) for both in zip(test["first"], test["second"], strict=True)]
    assert len(set(texts)) == test["pair_id"].nunique() == prepared.read_metadata()["splits"]["test"]["queries"]
    assert len(set(zip(texts, test["pair_id"], strict=True))) == len(set(texts))
    own, other = (test[test["query_id"] == name].iloc[:SHARED] for name in ("STS12/MSRpar", "STS-B"))
    assert own["pair_id"].tolist() == other["pair_id"].tolist()
    assert (own["first"].to_numpy() == other["first"].to_numpy()).tolist() == [True, True, False]


def test_meta_says_what_there_is_and_what_was_left_out(settings: EncoderTaskSettings, tmp_path: Path) -> None:
    with file(settings).open("a", encoding="utf-8") as stream:
        stream.write(f"\n  {sentence(3)}\t\n \t \n{sentence(3)}")
    prepared, skipped = prepare_data(settings, tmp_path / "cache"), Counter[str]()
    pairs = sts.read_pairs(tmp_path / "sources", STS_SETS, skipped)
    meta = prepared.read_metadata()
    assert meta["fingerprint"] == prepared.fingerprint
    assert meta["settings"] == to_portable_settings(settings).model_dump(mode="json")
    assert meta["skipped"] == {"blank sentence": 2, "sentence that was there before": 2, **skipped}
    test = [one.query_id for one in pairs if one.split == "test"]
    distinct = len({frozenset(one[3:5]) for one in pairs if one.split == "test"})
    assert distinct <= len(test) - SHARED
    assert meta["splits"] == {"train": {"queries": 200}, "dev": {"queries": PAIRS}, "test": {"queries": distinct}}
    assert meta["sets"] == {"dev": {"STS-B": PAIRS}, "test": Counter(test)}
    assert prepared.read_sentences() == [sentence(i) for i in range(200)]


@given(st.lists(lines, max_size=12))
@hypothesis.settings(max_examples=15)
def test_sentences_are_read_in_their_order_each_once(
    settings: EncoderTaskSettings, tmp_path: Path, written: list[str]
) -> None:
    file(settings).write_text("\n".join([*written, "at least one"]) + "\n", encoding="utf-8", newline="")
    found = prepare_data(settings, tmp_path / "cache").read_sentences()
    assert found == list(dict.fromkeys(text.strip() for text in [*written, "at least one"] if text.strip()))


def test_the_fingerprint_follows_the_text_and_no_path(settings: EncoderTaskSettings, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = prepare_data(settings, cache)
    elsewhere = write_settings(tmp_path / "elsewhere")
    assert prepare_data(elsewhere, cache) == first
    assert "elsewhere" not in (first.folder / "meta.json").read_text()
    others = [prepare_data(settings.model_copy(update={"sets": ("STS12", "SICK-R")}), cache)]
    file(settings).write_text(file(settings).read_text() + "One more.\n")
    assert find_prepared_data(settings, cache) is None
    others.append(prepare_data(settings, cache))
    gold = tmp_path / "sources" / "STS" / "STS15-en-test" / "STS.gs.belief.txt"
    gold.write_text(gold.read_text().replace("1.750", "1.75001"))
    assert find_prepared_data(settings, cache) is None
    others.append(prepare_data(settings, cache))
    assert len({first.fingerprint, *(one.fingerprint for one in others)}) == 4


def test_what_is_prepared_is_found_without_reading(
    settings: EncoderTaskSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    assert find_prepared_data(settings, cache) is None
    prepared = prepare_data(settings, cache)
    written = content(prepared.folder)
    monkeypatch.setattr(sts, "read_pairs", None)
    assert find_prepared_data(settings, cache) == prepare_data(settings, cache) == prepared
    assert find_prepared_data(settings.model_copy(update={"sets": ("STS12",)}), cache) is None
    assert content(prepared.folder) == written
    assert set(written) == {"sentences.parquet", "pairs.parquet", "meta.json", "SHA256SUMS"}


def test_finding_loads_nothing_heavy(settings: EncoderTaskSettings) -> None:
    code = (
        "import sys; from pathlib import Path; from trainables.data.sentence_dataset import find_prepared_data\n"
        "from trainables.specs.sentence_encoder import EncoderTaskSettings\n"
        f"settings = EncoderTaskSettings.model_validate_json({settings.model_dump_json()!r})\n"
        "assert find_prepared_data(settings, Path('nowhere')) is None\n"
        "print([name for name in ('torch', 'scipy', 'pandas', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": None}, "task.path: none; expected a file of sentences, one per line"),
        ({"path": "{folder}/none"}, "task.path: {folder}/none does not exist; expected a file of sentences"),
        ({"path": "{folder}"}, "task.path: {folder} is a folder; expected a file of sentences, one per line"),
        ({"path": "{folder}/blank"}, "{folder}/blank: no sentences; expected one or more, one per line"),
        ({"path": "{folder}/latin"}, "{folder}/latin, line 2: not UTF-8; expected UTF-8 text"),
        ({"evaluation_path": None}, "task.evaluation_path: none; expected a folder with STS and SICK"),
        ({"evaluation_path": "{folder}/none"}, "task.evaluation_path: {folder}/none does not exist; expected a folder"),
        ({"evaluation_path": "{folder}/STS"}, "task.evaluation_path: {folder}/STS has no STS/STSBenchmark/sts-dev.csv"),
    ],
)
def test_what_is_wrong_is_one_line(
    settings: EncoderTaskSettings, tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    folder = tmp_path / "sources"
    (folder / "blank").write_text("\n \n")
    (folder / "latin").write_bytes("one\ncafé\n".encode("latin-1"))
    given = {name: value and value.format(folder=folder) for name, value in changes.items()}
    with pytest.raises(UserError) as error:
        prepare_data(settings.model_copy(update=given), tmp_path / "cache")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(message.format(folder=folder))


def test_the_same_sets_are_written_in_one_way() -> None:
    assert EncoderTaskSettings().sets == STS_SETS
    assert EncoderTaskSettings(sets=("SICK-R", "STS12", "SICK-R")).sets == ("STS12", "SICK-R")
    for sets in ([], ["STS17"]):
        with pytest.raises(ValidationError):
            EncoderTaskSettings.model_validate({"sets": sets})
