"""A damaged cache changes no number: what a process opens is as it was written, or is named and made again."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.damages import DAMAGES, flip
from tests.trainables.small import FROZEN, LS, T_LS, World, finish, job
from trainables.rankers.ranker_run import RankerData
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training import frozen_features
from trainables.training.frozen_features import FrozenFeatures
from trainables.utils import checksums
from trainables.utils.checksums import (
    DamagedError,
    is_intact,
    verify_file,
    verify_folder,
    write_folder_with_checksums,
    write_with_checksum,
)
from trainables.worker.actor import RunTrainable

KINDS = (
    "features/*/part-*.npy",
    "features/*/part-*.npy.sha256",
    "tokens/*/ids.npy",
    "tokens/*/offsets.npy",
    "tokens/*/starts.npy",
    "tokens/*/meta.json",
    "tokens/*/SHA256SUMS",
    "stages/*/stage.json",
    "stages/*/state.safetensors",
)


class Keeper(RunTrainable):
    """Keeps the outcome."""

    def make_report(self, outcome: TrialResult) -> dict[str, Any]:
        self.outcome = outcome
        return {}


def carried_out(job: TrialSpec) -> TrialResult:
    worker = Keeper(config={"trial": job.model_dump_json()})
    while not worker.step()["done"]:
        pass
    return worker.outcome


@pytest.fixture(scope="module")
def reference(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrialResult]:
    """A cache in which LS was trained, and how T-LS, which starts from one of its states, ends from there."""
    cache, copy = (tmp_path_factory.mktemp("reference") / name for name in ("cache", "copy"))
    shutil.copytree(world.cache / "prepared", cache / "prepared")
    finish(job(world, cache, LS, FROZEN))
    shutil.copytree(cache, copy)
    return cache, carried_out(job(world, copy, T_LS, FROZEN))


def contents(cache: Path, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(cache)): path.read_bytes() for path in sorted(cache.glob(pattern))}


CASES = [(kind, damage) for kind in KINDS for damage in DAMAGES]
FAST = [*zip(KINDS, itertools.cycle(DAMAGES), strict=False)]
"""Each kind of file with one damage, and each damage with a kind."""


@pytest.mark.parametrize(
    ("kind", "damage"), [pytest.param(*case, marks=[] if case in FAST else pytest.mark.long) for case in CASES]
)
def test_a_run_over_a_damaged_cache_ends_with_the_same_bits_and_makes_the_file_again(
    world: World, reference: tuple[Path, TrialResult], tmp_path: Path, kind: str, damage: str
) -> None:
    cache, expected = reference
    shutil.copytree(cache, tmp_path / "cache")
    made, written = job(world, tmp_path / "cache", T_LS, FROZEN), contents(cache, kind)
    assert written
    for name in written:
        DAMAGES[damage](tmp_path / "cache" / name)
    checksums._verified.clear()  # as in another process
    found = carried_out(made)
    assert found.weights_hash == expected.weights_hash
    np.testing.assert_array_equal(found.scores, expected.scores)
    if kind.startswith("stages"):  # other states than the one that is needed are nobody's to open
        assert found.instances_reused < expected.instances_reused
    else:
        assert contents(tmp_path / "cache", kind) == written
        assert found.damaged or damage == "missing" or kind.endswith(".sha256")


def test_a_file_that_is_damaged_after_it_was_checked_is_checked_again(tmp_path: Path) -> None:
    with write_with_checksum(tmp_path / "a") as draft:
        draft.write_bytes(b"1234")
    assert verify_file(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").write_bytes(b"1235")
    with pytest.raises(DamagedError, match="does not match its checksum"):
        verify_file(tmp_path / "a")


def test_a_file_is_digested_once_by_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_with_checksum(tmp_path / "a") as draft:
        draft.write_bytes(b"1234")
    asked: list[Path] = []
    digest = checksums.hash_file
    monkeypatch.setattr(checksums, "hash_file", lambda path: (asked.append(path), digest(path))[1])
    for _ in range(3):
        verify_file(tmp_path / "a")
    assert asked == [tmp_path / "a"]


def test_the_lists_are_those_of_sha256sum(tmp_path: Path) -> None:
    """Its program checks them."""
    if shutil.which("sha256sum") is None:
        pytest.skip("no sha256sum on this system")
    with write_folder_with_checksums(tmp_path / "folder") as draft:
        (draft / "one").write_bytes(b"1")
        (draft / "two").write_bytes(b"2")
    with write_with_checksum(tmp_path / "three") as draft:
        draft.write_bytes(b"3")
    for folder, name in ((tmp_path / "folder", "SHA256SUMS"), (tmp_path, "three.sha256")):
        subprocess.run(["sha256sum", "--check", "--strict", name], cwd=folder, check=True, capture_output=True)


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    """It may be another user's, and whole."""
    with write_with_checksum(tmp_path / "a") as draft:
        draft.write_bytes(b"1")
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        verify_file(tmp_path / "a")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["one", "two", "SHA256SUMS"])
def test_a_folder_with_any_damaged_file_is_removed_and_made_again(tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "folder"

    def make() -> None:
        with write_folder_with_checksums(folder) as draft:
            (draft / "one").write_bytes(b"1234")
            (draft / "two").write_bytes(b"5678")

    make()
    assert is_intact(folder)
    DAMAGES[damage](folder / name)
    checksums._verified.clear()
    assert not is_intact(folder)
    assert folder.is_dir()
    assert not is_intact(folder, remove_damaged=True)
    assert not folder.exists()
    make()
    assert (verify_folder(folder) / "one").read_bytes() == b"1234"


def test_features_of_any_number_of_texts_take_few_file_descriptors(tmp_path, monkeypatch):
    """A process usually has 1,024."""
    monkeypatch.setattr(frozen_features, "TEXTS_PER_PART", 5)

    class Texts:
        offsets = np.arange(5 * 1500 + 1)
        lengths = np.ones(5 * 1500, dtype=np.int64)
        starts = np.ones(5 * 1500, dtype=np.int64)

        def __len__(self) -> int:
            return 5 * 1500

    features = FrozenFeatures(tmp_path, Texts(), 5 * 1500)
    for part in range(features.n_parts):
        with write_with_checksum(features.get_part_path(part)) as draft, draft.open("wb") as stream:
            np.save(stream, np.full((5, 1), part, dtype=np.float32))
    before = len(os.listdir("/proc/self/fd"))
    checked = list[Path]()

    def check(file: Path, **settings: Any) -> Path:
        checked.append(file)
        return verify_file(file, **settings)

    monkeypatch.setattr(frozen_features, "verify_file", check)
    for seed in (0, 1):
        rows = np.random.default_rng(seed).permutation(5 * 1500)
        found = features.read(rows).inputs.numpy()[:, 0]
        np.testing.assert_array_equal(found, rows // 5)
    assert len(checked) == features.n_parts  # each is checked once
    assert len(os.listdir("/proc/self/fd")) - before <= 5


def test_a_damaged_table_of_the_prepared_data_ends_a_trial_and_not_with_a_number(
    world: World, reference: tuple[Path, TrialResult], tmp_path: Path
) -> None:
    """Only a machine that has the sources can make it again."""
    shutil.copytree(reference[0], tmp_path / "cache")
    made = job(world, tmp_path / "cache", T_LS, FROZEN)
    table = RankerData(made).prepared.folder / "candidates.parquet"
    flip(table)
    with pytest.raises(DamagedError, match=r"prepared/\w+/candidates.parquet does not match its checksum"):
        carried_out(made)
    assert table.is_file()
