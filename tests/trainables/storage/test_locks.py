"""One process computes a state and the others wait for it; one that died is replaced, one that lives is not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainables.storages import KINDS, place
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.storage.locks import Claims
from trainables.utils.system import gone, machine

ELSEWHERE = "0123abcd 1 0123456789abcdef"
"""A claim from another machine, of which nothing is known but its signs of life."""


class TestOnEveryStorage:
    @pytest.fixture(params=KINDS)
    def kept(self, request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
        return open_storage(place(request.param, tmp_path))

    def test_a_claim_is_held_for_the_block_and_then_free(self, kept: Storage) -> None:
        for _ in range(2):
            with Claims(kept).attempt("key") as held:
                assert held
                assert kept.peek("key.claim") is not None
            assert kept.peek("key.claim") is None

    def test_a_claim_is_given_up_by_an_error(self, kept: Storage) -> None:
        with pytest.raises(ZeroDivisionError), Claims(kept).attempt("key"):
            _ = 1 / 0
        assert kept.peek("key.claim") is None

    def test_a_claim_of_another_machine_is_respected_as_long_as_it_shows_signs_of_life(self, kept: Storage) -> None:
        kept.create("key.claim", ELSEWHERE)
        claims = Claims(kept, stale=0.2)
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            kept.renew("key.claim", ELSEWHERE)
            with claims.attempt("key") as held:
                assert not held
            time.sleep(0.02)
        time.sleep(0.25)
        with claims.attempt("key") as held:
            assert held

    def test_a_holder_shows_signs_of_life_however_long_its_steps_are(self, kept: Storage) -> None:
        with Claims(kept, beat=0.01).attempt("key"):
            before = kept.peek("key.claim")
            time.sleep(0.2)
            assert kept.peek("key.claim") != before

    def test_who_holds_a_claim_at_last_has_waited_for_it(self, kept: Storage) -> None:
        kept.create("key.claim", ELSEWHERE)
        looks = 0

        def waited() -> None:
            nonlocal looks
            looks += 1
            if looks == 3:
                kept.drop("key.claim", ELSEWHERE)

        with Claims(kept).held("key", waited):
            assert looks >= 3
            found = kept.peek("key.claim")
            assert found is not None
            assert found.text != ELSEWHERE
        assert kept.peek("key.claim") is None

    def test_what_was_taken_over_is_not_given_up_by_its_first_holder(self, kept: Storage) -> None:
        with Claims(kept).attempt("key"):
            found = kept.peek("key.claim")
            assert found is not None
            kept.drop("key.claim", found.text)
            kept.create("key.claim", ELSEWHERE)
        after = kept.peek("key.claim")
        assert after is not None
        assert after.text == ELSEWHERE


def test_a_process_of_this_machine_that_ended_holds_nothing(tmp_path: Path) -> None:
    kept = open_storage(str(tmp_path))
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    kept.create("key.claim", f"{machine()} {living.pid} 0123456789abcdef")
    with Claims(kept).attempt("key") as held:
        assert not held
    living.kill()
    while not gone(machine(), living.pid):  # known from the moment it ends, not only when its parent has taken note
        time.sleep(0.01)
    with Claims(kept).attempt("key") as held:
        assert held
    living.communicate()


@pytest.mark.parametrize("text", ["", "0123abcd", f"{ELSEWHERE} 7", "\n"])
def test_half_a_claim_is_respected_for_a_while(tmp_path: Path, text: str) -> None:
    kept = open_storage(str(tmp_path))
    kept.create("key.claim", text)
    claims = Claims(kept, stale=0.1)
    with claims.attempt("key") as held:
        assert not held
    time.sleep(0.15)
    with claims.attempt("key") as held:
        assert held
