"""The contract of a storage, the same on every kind of file system."""

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.trainables.storages import KINDS, place
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST, Storage


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(place(request.param, tmp_path))


def put(kept: Storage, name: str, **files: str) -> None:
    with kept.write_folder(name) as folder:
        for file, text in {"state": "bits", MANIFEST: "sealed", **files}.items():
            (folder / file).write_text(text, encoding="utf-8")


class TestEveryStorage:
    def test_a_folder_comes_back_as_it_was_written(self, kept: Storage) -> None:
        put(kept, "key", state="\0\n\r\n")
        with kept.read_folder("key") as folder:
            assert (folder / "state").read_bytes() == b"\0\n\r\n"
            assert {path.name for path in folder.iterdir()} == {"state", MANIFEST}
        assert kept.exists("key")
        assert kept.list_folders() == ["key"]

    def test_nothing_is_there_before_it_is_written(self, kept: Storage) -> None:
        assert not kept.exists("key")
        assert kept.list_folders() == list(kept.list_files()) == []
        with pytest.raises(FileNotFoundError), kept.read_folder("key") as folder:
            (folder / MANIFEST).read_text()
        kept.remove("key")

    def test_a_folder_being_written_is_not_seen_and_one_given_up_never_is(self, kept: Storage) -> None:
        with suppress(ZeroDivisionError), kept.write_folder("key") as folder:
            (folder / MANIFEST).write_text("sealed")
            assert not kept.exists("key")
            assert kept.list_folders() == list(kept.list_files()) == []
            _ = 1 / 0
        assert not kept.exists("key")
        put(kept, "key")
        assert kept.exists("key")

    def test_a_second_writer_is_harmless(self, kept: Storage) -> None:
        with kept.write_folder("key") as first:
            (first / MANIFEST).write_text("sealed")
            put(kept, "key")
        assert kept.exists("key")
        assert kept.list_folders() == ["key"]

    def test_a_storage_within_is_a_folder_of_its_own(self, kept: Storage) -> None:
        put(kept.subfolder("resume").subfolder("run"), "008")
        put(kept.subfolder("resume").subfolder("run"), "016")
        assert kept.subfolder("resume").subfolder("run").list_folders() == ["008", "016"]
        kept.subfolder("resume").remove("run")
        assert kept.subfolder("resume").subfolder("run").list_folders() == list(kept.list_files()) == []

    def test_what_is_removed_is_gone_and_the_rest_stays(self, kept: Storage) -> None:
        put(kept, "one")
        put(kept, "two")
        kept.remove("one")
        kept.remove("one")
        assert kept.list_folders() == ["two"]
        assert {file.path for file in kept.list_files()} == {"two/state", f"two/{MANIFEST}"}

    def test_files_tell_sizes_and_when_a_folder_was_last_used(self, kept: Storage) -> None:
        def used(name: str) -> float:
            return max(file.modified_at for file in kept.list_files() if file.path.startswith(name))

        put(kept, "one", state="123")
        put(kept, "two")
        assert {file.path: file.size for file in kept.list_files() if file.path.startswith("one")} == {
            "one/state": 3,
            f"one/{MANIFEST}": 6,
        }
        assert used("one") <= used("two")
        while used("one") <= used("two"):  # a disk's clock has its own grain
            kept.mark_used("one")
        with kept.read_folder("one") as folder:
            assert (folder / "state").read_text() == "123"

    def test_the_size_of_a_folder_is_that_of_its_files(self, kept: Storage) -> None:
        put(kept, "one", state="123")
        put(kept.subfolder("resume").subfolder("run"), "008", state="12345")
        put(kept.subfolder("resume").subfolder("run2"), "008", state="1234567")
        names = ("one", "resume/run", "resume/run/008", "two", "on")
        found = {name: sum(file.size for file in kept.list_files(name)) for name in names}
        assert found == {"one": 9, "resume/run": 11, "resume/run/008": 11, "two": 0, "on": 0}

    def test_a_file_comes_back_as_it_was_put_and_is_replaced_by_the_next(self, kept: Storage, tmp_path: Path) -> None:
        assert list(kept.list_files()) == []
        for content in (b"\0\n\r\n", b"", b"longer than before"):
            (tmp_path / "source").write_bytes(content)
            kept.put_file("runs/abc/record.json", tmp_path / "source")
            kept.put_file("plan.json", tmp_path / "source")
            kept.get_file("runs/abc/record.json", tmp_path / "new" / "target")
            assert (tmp_path / "new" / "target").read_bytes() == content
        assert sorted(file.path for file in kept.list_files()) == ["plan.json", "runs/abc/record.json"]

    def test_a_file_that_is_not_there_leaves_what_was_here(self, kept: Storage, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"mine")
        for name in ("missing", "runs/missing"):
            with pytest.raises(FileNotFoundError):
                kept.get_file(name, tmp_path / "target")
        assert [path.name for path in tmp_path.iterdir()] == ["target"]
        assert (tmp_path / "target").read_bytes() == b"mine"

    def test_a_note_is_created_once(self, kept: Storage) -> None:
        assert kept.read_marker("key.claim") is None
        assert kept.create_marker("key.claim", "mine")
        assert not kept.create_marker("key.claim", "theirs")
        found = kept.read_marker("key.claim")
        assert found.text == "mine"
        assert kept.list_folders() == []

    def test_only_one_of_many_creates_a_note(self, kept: Storage) -> None:
        start, won = threading.Barrier(8), []

        def race(number: int) -> None:
            start.wait()
            if kept.create_marker("key.claim", str(number)):
                won.append(str(number))

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = kept.read_marker("key.claim")
        assert won == [found.text]

    def test_a_sign_of_life_changes_the_stamp_of_ones_own_note_only(self, kept: Storage) -> None:
        kept.create_marker("key.claim", "mine")
        before = kept.read_marker("key.claim")
        kept.refresh_marker("key.claim", "theirs")
        assert kept.read_marker("key.claim") == before
        while (after := kept.read_marker("key.claim")) == before:
            kept.refresh_marker("key.claim", "mine")
        assert after.text == before.text

    def test_only_ones_own_note_is_dropped(self, kept: Storage) -> None:
        kept.delete_marker("key.claim", "mine")
        kept.create_marker("key.claim", "mine")
        kept.delete_marker("key.claim", "theirs")
        assert kept.read_marker("key.claim") is not None
        kept.delete_marker("key.claim", "mine")
        assert kept.read_marker("key.claim") is None
        kept.refresh_marker("key.claim", "mine")
        assert kept.read_marker("key.claim") is None


def test_elsewhere_than_on_a_disk_a_folder_without_its_seal_does_not_count(tmp_path: Path) -> None:
    """A writer killed between two files."""
    kept = open_storage(place("memory", tmp_path))
    with kept.write_folder("key") as folder:
        (folder / "state").write_text("bits")
    assert not kept.exists("key")
    assert kept.list_folders() == []
    assert [file.path for file in kept.list_files()] == ["key/state"]
    put(kept, "key")
    assert kept.exists("key")


def test_a_file_system_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        open_storage("nowhere://bucket")


def test_elsewhere_than_on_a_disk_the_seal_is_uploaded_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, names = open_storage(place("memory", tmp_path)), list[str]()
    monkeypatch.setattr(kept, "put_file", lambda name, source: names.append(name))
    put(kept, "key")
    assert names == ["key/state", f"key/{MANIFEST}"]
