"""Plugin of pytest: the tests of a session see a pretend GPU, and with `--runs-on-gpu` their runs use it by default."""

import pytest

from tests.pretend_gpu.cuda import install

install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs-on-gpu", action="store_true", help="runs use the GPU unless a test says otherwise")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--runs-on-gpu"):
        from trainables.specs import environment

        for function in (environment.detect_environment, environment.has_bf16_units, environment.is_bf16_faster):
            function.__defaults__ = ("cuda",)
        environment.resolve_precision.__defaults__ = ("cuda",)
