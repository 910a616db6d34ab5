"""A full disk, a read-only folder and a changed study: one line, nothing lost, and the same command goes on.

The disks are real, a small tmpfs in a mount namespace of its own; where the system allows none, this is skipped.
"""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.study.command import command, copy_cache, environment, proposals, report

ALLOWED = shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not ALLOWED, reason="this system gives nobody a mount namespace of his own"),
]

ATTEMPT = """
set -e
folder=$1; kept=$2; shift 2
mkdir -p "$folder"
attempt() {
    set +e
    "$@" > "$kept/$name.out" 2> "$kept/$name.err"
    echo $? > "$kept/$name.status"
    set -e
    grep -l '"state": "finished"' "$folder"/runs/*/*.json | xargs -r stat -c '%y %n' > "$kept/$name.records"
}
"""
RESULTS = """
mount -t tmpfs -o size=256k tmpfs "$folder"
name=full; attempt "$@"
mount -o remount,size=256m "$folder"
name=room; attempt "$@"
cp -r "$folder/report" "$folder/search.json" "$kept"
mount -o remount,ro "$folder"
name=locked; attempt "$@"
mount -o remount,rw "$folder"
name=changed; attempt "$@" training.learning_rate=0.0003
"""


CACHE = """
mount -t tmpfs -o size=$(($(du -sk "$kept/cache" | cut -f 1) + 60000))k tmpfs "$kept/../cache"
cp -r "$kept/cache/." "$kept/../cache"
name=full; attempt "$@"
mount -o remount,size=1g "$kept/../cache"
name=room; attempt "$@"
"""


class Attempt(NamedTuple):
    """One start of the study."""

    status: int
    out: str
    err: str
    records: list[str]
    """When each was written, and its name."""


@pytest.fixture(scope="module")
def attempts(finished_study, tmp_path_factory):
    """A study on a disk that is too small, then large enough, then read-only, and at last another study."""
    place = tmp_path_factory.mktemp("disk")
    copy_cache(finished_study[0], place, stages=True)
    kept = place / "kept"
    kept.mkdir()
    (place / "script.sh").write_text(ATTEMPT + RESULTS)
    study = command(place, "tracking.mode=disabled")
    inside = ["unshare", "-rm", "bash", str(place / "script.sh"), str(place / "study"), str(kept), *study]
    subprocess.run(inside, env=environment(), timeout=1000, check=True)
    shutil.copytree(kept / "report", place / "study" / "report")
    shutil.copy(kept / "search.json", place / "study")
    assert report(place) == report(finished_study[0])
    assert proposals(place) == proposals(finished_study[0])
    return {name: attempt(kept, name) for name in ("full", "room", "locked", "changed")}


def attempt(kept: Path, name: str) -> Attempt:
    """Reads what a script kept of one attempt."""
    out, err, status, records = (
        (kept / f"{name}.{kind}").read_text("utf-8") for kind in ("out", "err", "status", "records")
    )
    return Attempt(int(status), out, err, records.splitlines())


def test_on_a_full_disk_a_study_ends_in_one_line_that_says_how_to_go_on(attempts):
    full = attempts["full"]
    assert full.status == 1
    (line,) = full.err.splitlines()
    assert line.startswith("study.run: no space left on device")
    finished = sum("record.json" in name for name in full.records)
    assert f"{finished} finished run{'s' * (finished != 1)} kept in " in line
    assert line.endswith("free some space and rerun the same command")


def test_nothing_is_lost_and_with_room_the_table_is_the_undisturbed_one(attempts):
    """The table is compared where the study ran: its folder is gone afterwards."""
    full, room = attempts["full"], attempts["room"]
    assert room.status == 0, room.out + room.err
    assert full.records
    assert set(full.records) < set(room.records)


def test_a_cache_that_is_full_stops_a_study_and_leaves_no_trace(finished_study, tmp_path):
    """States of training need what room there is; no run has failed, and no search is told so."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "cache").mkdir()
    copy_cache(finished_study[0], kept)
    (tmp_path / "script.sh").write_text(ATTEMPT + CACHE)
    study = command(tmp_path, "tracking.mode=disabled")
    inside = ["unshare", "-rm", "bash", str(tmp_path / "script.sh"), str(tmp_path / "study"), str(kept), *study]
    subprocess.run(inside, env=environment(), timeout=1000, check=True)
    full, room = attempt(kept, "full"), attempt(kept, "room")
    assert full.status == 1
    (line,) = full.err.splitlines()
    assert line.startswith("study.run: no space left on device")
    assert line.endswith("free some space and rerun the same command")
    assert "FAILED" not in full.out + room.out
    assert room.status == 0, room.out + room.err
    assert report(tmp_path) == report(finished_study[0])
    assert proposals(tmp_path) == proposals(finished_study[0])


def test_a_folder_that_takes_nothing_is_an_error_at_once(attempts):
    locked, room = attempts["locked"], attempts["room"]
    assert locked.status == 1
    (line,) = locked.err.splitlines()
    assert line.startswith("study.run: read-only file system in ")
    assert line.endswith("make it writable and rerun the same command")
    assert locked.out == ""
    assert locked.records == room.records


def test_a_changed_study_with_test_scores_is_told_what_changed_and_how_to_go_on(attempts):
    changed, room = attempts["changed"], attempts["room"]
    assert changed.status == 2
    (line,) = changed.err.splitlines()
    assert "training.learning_rate 0.0005 -> 0.0003" in line
    assert line.endswith("expected the earlier values, or another output.folder for the changed study")
    assert changed.records == room.records
