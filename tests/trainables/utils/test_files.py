"""Files are there whole or not at all; what a killed writer left is removed, and nothing that somebody still writes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from trainables.storage.local import LocalStorage
from trainables.utils.errors import UserError
from trainables.utils.files import (
    check_outputs,
    has_json_form,
    make_temporary_path,
    read_json,
    remove_stale_files,
    write_atomically,
    write_folder_atomically,
    write_json,
)
from trainables.utils.system import get_machine_id, has_exited


@pytest.fixture(scope="module")
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def temporary(path: Path, where: str, process: int, hours: float = 0) -> Path:
    found = path.with_name(f".{path.name}.{where}-{process}-01234567")
    found.mkdir()
    (found / "half").write_text("x")
    os.utime(found, (time.time() - hours * 3600,) * 2)
    return found


def test_a_damaged_checksum_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"a": 1}, with_checksum=True)
    content = path.read_bytes()
    assert read_json(path) == {"a": 1}
    for place in range(content.index(b"sha256"), content.index(b",")):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"JSON|checksum"):
            read_json(path)


def test_new_folders_of_a_durable_file_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut could take a folder with a file in it that was synced."""
    synced = list[Path]()
    monkeypatch.setattr("trainables.utils.files.fsync_path", lambda path: synced.append(path))
    with write_atomically(tmp_path / "runs" / "a" / "record.json") as temporary:
        temporary.touch()
    assert {tmp_path, tmp_path / "runs", tmp_path / "runs" / "a"} <= {*synced}
    synced.clear()
    with write_atomically(tmp_path / "cache" / "a", durable=False) as temporary:
        temporary.touch()
    assert synced == []


def test_temporaries_of_processes_that_ended_are_removed_and_no_others(tmp_path: Path, ended: int) -> None:
    key = tmp_path / "key"
    dead = [temporary(key, get_machine_id(), ended), temporary(key, "0123abcd", 1, hours=25)]
    living = [temporary(key, get_machine_id(), os.getpid()), temporary(key, "0123abcd", 2, hours=23)]
    for name in (
        "key",
        ".cache",
        ".plan.json.0123",
        f".key.{get_machine_id()}-{ended}",
        f"key.{get_machine_id()}-{ended}-01234567",
    ):
        (tmp_path / name).mkdir()
        living.append(tmp_path / name)
    remove_stale_files(tmp_path)
    assert not any(path.exists() for path in dead)
    assert all(path.exists() for path in living)


@pytest.mark.parametrize("deep", [False, True])
def test_folders_below_are_swept_when_asked_for(tmp_path: Path, ended: int, deep: bool) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    below = tmp_path / "a" / "b" / f".file.{get_machine_id()}-{ended}-01234567"
    below.write_text("x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    linked = elsewhere / below.name
    linked.write_text("x")
    (tmp_path / "a" / "link").symlink_to(elsewhere)
    remove_stale_files(tmp_path / "a", deep)
    assert below.exists() != deep
    assert linked.exists()
    remove_stale_files(tmp_path / "nowhere", deep)


def test_what_a_writer_uses_is_not_swept_while_it_lives_and_then_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from trainables.utils.files import write_atomically, write_folder_atomically\n"
        "place = Path(sys.argv[1])\n"
        "with write_atomically(place / 'file') as one, write_folder_atomically(place / 'folder') as other:\n"
        "    one.write_text('half'); (other / 'state').write_text('half'); print(flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], **pipes)
    writer.stdout.readline()
    remove_stale_files(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    writer.kill()
    while not has_exited(get_machine_id(), writer.pid):
        time.sleep(0.01)
    remove_stale_files(tmp_path)
    assert list(tmp_path.iterdir()) == []
    writer.communicate()


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    for whole in (write_atomically, write_folder_atomically):
        with pytest.raises(ZeroDivisionError), whole(tmp_path / "name"):
            _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_names_its_process_but_not_its_machine() -> None:
    assert os.uname().nodename not in make_temporary_path(Path("state")).name
    assert f"{get_machine_id()}-{os.getpid()}-" in make_temporary_path(Path("state")).name


def test_an_output_replaces_only_what_the_command_wrote(tmp_path: Path) -> None:
    own, mine, free = (tmp_path / name for name in ("own", "mine", "free"))
    own.write_text("own")
    mine.write_text("mine")
    (tmp_path / "link").symlink_to(own)
    (tmp_path / "dangling").symlink_to(free)
    os.link(own, tmp_path / "twin")
    os.mkfifo(tmp_path / "pipe")
    check_outputs("--out", [own, free], lambda path: path.read_text() == "own", [mine, tmp_path / "none"])
    for path, reason in [
        (mine, "exists and this command did not write it"),
        (tmp_path / "twin", "is an input of this command"),
        *((tmp_path / name, "exists and is no regular file") for name in ("dangling", "pipe", ".")),
        (Path(os.devnull), "exists and is no regular file"),
    ]:
        with pytest.raises(UserError, match=f"--out: {path} {reason}; expected"):
            check_outputs("--out", [free, path], lambda path: path.read_text() == "own", [own])
    with pytest.raises(UserError, match="link exists and is no regular file"):
        check_outputs("--out", [tmp_path / "link"], lambda _: True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"system": "A", "p": 1, "verdict": "", "own": 1}]', True),
        ('[{"system": "A"}]', False),
        ("[]", False),
        ("system,p,verdict", False),
        ("[" * 100_000, False),
        ('{"system": "A", "p": 1, "verdict": ""}', True),
    ],
)
def test_json_of_the_same_form_shares_most_keys(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "file").write_text(text)
    assert has_json_form(tmp_path / "file", [{"system": "B", "p": 0, "verdict": "better"}, {}]) is expected
    assert has_json_form(tmp_path / "file", []) is (text == "[]")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_whom_the_umask_lets_read_can_read_every_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with write_folder_atomically(tmp_path / "folder") as draft:
            (draft / "seed-1").mkdir()
            save_file({"weights": np.zeros(2)}, draft / "seed-1" / "model.safetensors")
        write_json(tmp_path / "folder" / "record.json", {})
        LocalStorage(tmp_path / "folder").create_marker("key.claim", "owner")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in files] == [mode] * 3


def test_no_permission_is_changed_without_need_or_outside_the_folder_and_a_refusal_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(path: Path, mode: int) -> None:
        asked.append(path.name)
        raise PermissionError(1, "Operation not permitted", str(path))

    (tmp_path / "mine").touch(0o600)
    monkeypatch.setattr(Path, "chmod", refuse)
    with write_folder_atomically(tmp_path / "folder") as draft:
        (draft / "open").touch()
        (draft / "closed").touch(0o600)
        (draft / "link").symlink_to(tmp_path / "mine")
    assert asked == ["closed"]
    assert len([*(tmp_path / "folder").iterdir()]) == 3
