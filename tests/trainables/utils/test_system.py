"""Processes of one machine know each other, on any hardware; others do not pass for them."""

import re
import shutil
import subprocess
import sys

import pytest

from trainables.utils.system import get_machine_id

NAMED = "from trainables.utils.system import get_machine_id; print(get_machine_id())"
NO_CARD = f"import uuid; uuid._GETTERS = []; assert uuid.getnode() >> 40 & 1; {NAMED}"
"""Where Python finds no network card, it draws an address."""
NOTHING = """
import os, pathlib
def missing(*_, **__):
    raise FileNotFoundError
pathlib.Path.read_text = os.readlink = missing
"""
"""A system without /proc and machine-id."""
NAMESPACE = shutil.which("unshare") and subprocess.run(["unshare", "-rpf", "true"], capture_output=True).returncode == 0


def told(code: str, *before: str) -> str:
    done = subprocess.run([*before, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[0-9a-f]{8}\n", done.stdout)
    return done.stdout.strip()


def test_processes_of_one_machine_agree() -> None:
    assert {told(NAMED), told(NAMED)} == {get_machine_id()}


def test_processes_of_a_machine_without_a_network_card_agree() -> None:
    assert len({told(NO_CARD) for _ in range(3)}) == 1


def test_an_unknown_machine_is_no_other() -> None:
    """Two that shared a name would take each other's files for those of dead processes."""
    assert len({told(NOTHING + NO_CARD) for _ in range(3)}) == 3


def test_a_machine_without_proc_is_known_by_its_card() -> None:
    card = "import uuid; uuid.getnode = lambda: 0x02fc5dc9c101; "
    assert len({told(NOTHING + card + NAMED) for _ in range(3)}) == 1


@pytest.mark.skipif(not NAMESPACE, reason="this system gives nobody a process namespace of his own")
@pytest.mark.parametrize("code", [NAMED, NO_CARD], ids=["card", "no card"])
def test_containers_of_one_machine_differ(code: str) -> None:
    own = told(code)
    inside = {told(code, "unshare", "-rpf", "--mount-proc", "sh", "-c", '"$@"; true', "sh") for _ in range(2)}
    assert len(inside | {own}) >= 2
    assert own not in inside
