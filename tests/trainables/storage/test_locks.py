"""One process computes a state and the others wait for it; one that died is replaced, one that lives is not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainables.storages import KINDS, place
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.storage.leases import Leases
from trainables.utils.system import get_machine_id, has_exited

ELSEWHERE = "0123abcd 1 0123456789abcdef"
"""A claim from another machine; only its signs of life are known."""


class TestOnEveryStorage:
    @pytest.fixture(params=KINDS)
    def kept(self, request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
        return open_storage(place(request.param, tmp_path))

    def test_a_claim_is_held_for_the_block_and_then_free(self, kept: Storage) -> None:
        for _ in range(2):
            with Leases(kept).try_acquire("key") as held:
                assert held
                assert kept.read_marker("key.claim") is not None
            assert kept.read_marker("key.claim") is None

    def test_a_claim_is_given_up_by_an_error(self, kept: Storage) -> None:
        with pytest.raises(ZeroDivisionError), Leases(kept).try_acquire("key"):
            _ = 1 / 0
        assert kept.read_marker("key.claim") is None

    def test_a_claim_of_another_machine_is_respected_as_long_as_it_shows_signs_of_life(self, kept: Storage) -> None:
        kept.create_marker("key.claim", ELSEWHERE)
        claims = Leases(kept, timeout_s=0.2)
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            kept.refresh_marker("key.claim", ELSEWHERE)
            with claims.try_acquire("key") as held:
                assert not held
            time.sleep(0.02)
        time.sleep(0.25)
        with claims.try_acquire("key") as held:
            assert held

    def test_a_holder_shows_signs_of_life_however_long_its_steps_are(self, kept: Storage) -> None:
        with Leases(kept, heartbeat_s=0.01).try_acquire("key"):
            before = kept.read_marker("key.claim")
            time.sleep(0.2)
            assert kept.read_marker("key.claim") != before

    def test_who_holds_a_claim_at_last_has_waited_for_it(self, kept: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kept, "poll_interval_s", 0.01)
        kept.create_marker("key.claim", ELSEWHERE)
        looks = 0

        def waited() -> None:
            nonlocal looks
            looks += 1
            if looks == 3:
                kept.delete_marker("key.claim", ELSEWHERE)

        with Leases(kept).acquire("key", waited):
            assert looks >= 3
            found = kept.read_marker("key.claim")
            assert found.text != ELSEWHERE
        assert kept.read_marker("key.claim") is None

    def test_what_was_taken_over_is_not_given_up_by_its_first_holder(self, kept: Storage) -> None:
        with Leases(kept).try_acquire("key"):
            found = kept.read_marker("key.claim")
            kept.delete_marker("key.claim", found.text)
            kept.create_marker("key.claim", ELSEWHERE)
        after = kept.read_marker("key.claim")
        assert after.text == ELSEWHERE


def test_a_process_of_this_machine_that_ended_holds_nothing(tmp_path: Path) -> None:
    kept = open_storage(str(tmp_path))
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    kept.create_marker("key.claim", f"{get_machine_id()} {living.pid} 0123456789abcdef")
    with Leases(kept).try_acquire("key") as held:
        assert not held
    living.kill()
    while not has_exited(
        get_machine_id(), living.pid
    ):  # known from the moment it ends, not only when its parent has taken note
        time.sleep(0.01)
    with Leases(kept).try_acquire("key") as held:
        assert held
    living.communicate()


@pytest.mark.parametrize("text", ["", "0123abcd", f"{ELSEWHERE} 7", "\n"])
def test_half_a_claim_is_respected_for_a_while(tmp_path: Path, text: str) -> None:
    kept = open_storage(str(tmp_path))
    kept.create_marker("key.claim", text)
    claims = Leases(kept, timeout_s=0.1)
    with claims.try_acquire("key") as held:
        assert not held
    time.sleep(0.15)
    with claims.try_acquire("key") as held:
        assert held
