"""The server keeps what it acknowledged and nothing else, whenever it is killed and however many ask at once."""

import gzip
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from wandb_server import Server, client
from wandb_server.database import Database, Document


def _send(server: Server, name: str, first: int, acknowledged: list[int]) -> None:
    """Send steps one by one, until the server is away."""
    for step in count(first):
        try:
            client.stream(server, "p", name, [{"_step": step, "x": step}])
        except (URLError, ConnectionError):
            return
        acknowledged.append(step)


def test_kills_lose_nothing(tmp_path: Path):
    names = [f"run{number}" for number in range(4)]
    with Server(tmp_path) as server, ThreadPoolExecutor(len(names)) as pool:
        for round_ in range(3):
            for name in names:
                client.upsert(server, "p", name, config=f'{{"round": {{"value": {round_}}}}}')
            acknowledged: dict[str, list[int]] = {name: [] for name in names}
            first = round_ * 10**6  # steps that no earlier round sent
            sending = [pool.submit(_send, server, name, first, steps) for name, steps in acknowledged.items()]
            while min(map(len, acknowledged.values())) < 20:
                time.sleep(0.01)
            server.kill()
            wait(sending)
            runs = server.runs("p")
            for name, steps in acknowledged.items():
                assert set(steps) <= set(runs[name].steps)
                assert runs[name].config == {"round": round_}
            server.start()
            assert server.runs("p") == runs


def test_fifty_runs_at_once(server: Server):
    def send(number: int) -> None:
        name = f"run{number}"
        client.upsert(server, "fifty", name)
        rows = [{"_step": step, "x": number * step} for step in range(100)]
        for start in range(0, 100, 20):
            client.stream(server, "fifty", name, rows[start : start + 20])
        client.stream(server, "fifty", name, [], complete=True, exitcode=0)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(50)))
    runs = server.runs("fifty")
    assert len(runs) == 50
    for number in range(50):
        assert [row["x"] for row in runs[f"run{number}"].history] == [number * step for step in range(100)]
        assert runs[f"run{number}"].state == "finished"


def test_a_refused_question_changes_nothing_and_is_kept(server: Server):
    query = 'mutation Wrong { upsertBucket(input: {modelName: "wrong", name: "a"}) { bucket { nonsense } } }'
    with pytest.raises(HTTPError, match="400"):
        client.post(server, "/graphql", {"query": query})
    assert server.runs("wrong") == {}
    last = server.requests[-1]
    assert (last.operation, last.status) == ("Wrong", 400)


def test_requests_without_a_key_are_an_error(server: Server):
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{server.url}/graphql", data=b'{"query": "query Who { viewer { id } }"}')


def test_a_failed_transaction_leaves_nothing(tmp_path: Path):
    database = Database(tmp_path / "file")

    def add_and_fail(name: str, inside: AbstractContextManager[None]) -> None:
        with inside:
            database.add(Document("Run", "p", name))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_and_fail("a", database.transaction())
    with database.transaction():
        with pytest.raises(ZeroDivisionError):
            add_and_fail("b", database.attempt())
        database.add(Document("Run", "p", "c"))
    assert [run.name for run in database.all("Run")] == ["c"]


def test_compressed_bodies_are_kept_as_they_read(server: Server):
    body = b'{"query": "query Compressed { viewer { username } }"}'
    credentials = b64encode(f"api:{server.key}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Encoding": "gzip"}
    with urlopen(Request(f"{server.url}/graphql", gzip.compress(body), headers)) as answer:
        assert b"somebody" in answer.read()
    assert any(body in sent for sent in server.everything())
