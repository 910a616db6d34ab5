"""One server for all tests of this folder; each has a project of its own."""

from collections.abc import Iterator

import pytest

from wandb_server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(autouse=True)
def healthy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Heals what a test breaks for the next one."""
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").heal()
