"""A preparation that is killed goes on from its finished parts, and leaves neither processes nor half files.

What was damaged meanwhile is made again.
"""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.damages import flip
from tests.study.command import environment
from trainables.data.ranking_preparation import prepare_data
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.system import count_cores, get_machine_id, has_exited

WORDS = "red green blue small large old new fast slow warm cold dry wet loud calm"
PREPARE = """
import sys
from pathlib import Path
from trainables.data import ranking_sampling
from trainables.data.ranking_preparation import prepare_data
from trainables.specs.ranking_task import RankerTaskSettings

if __name__ == "__main__":
    ranking_sampling.QUERIES_PER_PART = 40
    prepare_data(RankerTaskSettings.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
"""


def pairs(folder: Path, count: int = 3000) -> RankerTaskSettings:
    """That many duplicate questions."""
    lines = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
    for i in range(count):
        words = " ".join(WORDS.split()[i * step % 15] for step in range(1, 8))
        lines.append(f"{i}\t{2 * i}\t{2 * i + 1}\twhat is {words} {i % 97}\t{words} thing {i}\t1")
    (folder / "quora_duplicate_questions.tsv").write_text("\n".join(lines) + "\n")
    return RankerTaskSettings(name="qqp", path=str(folder))


def start(settings: RankerTaskSettings, cache: Path, script: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(script), settings.model_dump_json(), str(cache)]
    return subprocess.Popen(command, env=environment(PYTHONPATH=str(Path(__file__).parents[2])))


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)


def children(process: int) -> list[int]:
    return [int(name) for name in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def parts(cache: Path) -> list[Path]:
    return sorted((cache / "preparing").glob("*/train-*.npz"))


def content(cache: Path) -> dict[str, str]:
    files = (cache / "prepared").rglob("*.*")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(count_cores() == 1, reason="on one core nothing is done in processes of its own")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list a process's children")
def test_a_killed_preparation_goes_on(tmp_path):
    settings, cache, script = pairs(tmp_path), tmp_path / "cache", tmp_path / "script.py"
    script.write_text(PREPARE)
    process = start(settings, cache, script)
    until(lambda: len(parts(cache)) >= 5 and children(process.pid))
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: all(has_exited(get_machine_id(), worker) for worker in workers), 20)
    kept = {path: path.stat().st_mtime_ns for path in parts(cache)}
    assert 5 <= len(kept) < 60
    for damaged in (next(iter(kept)), *(cache / "preparing").glob("*/train-bm25-*/*/weights.npy")):
        flip(damaged)  # it is not taken for done
        kept.pop(damaged, None)
    assert not list((cache / "prepared").glob("*/*"))

    again = start(settings, cache, script)
    while again.poll() is None:
        for path in kept:
            with suppress(FileNotFoundError):  # the parts go when all is done
                assert path.stat().st_mtime_ns == kept[path]
        time.sleep(0.05)
    assert again.returncode == 0
    whole = prepare_data(settings, tmp_path / "alone")
    assert content(cache) == content(tmp_path / "alone")
    assert json.loads((whole.folder / "meta.json").read_text())["splits"]["train"]["queries"] == 2400
    assert not list((cache / "preparing").iterdir())
    assert [path.name for path in (cache / "prepared").iterdir()] == [whole.fingerprint]
