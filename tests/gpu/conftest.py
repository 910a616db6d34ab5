"""Tests of this folder run in a session with `-p tests.pretend_gpu.plugin`; `test_sessions` starts such sessions."""

import pytest


@pytest.fixture
def pretend_gpu(request: pytest.FixtureRequest) -> None:
    """Skip a test without a pretend GPU."""
    if not request.config.pluginmanager.hasplugin("tests.pretend_gpu.plugin"):
        pytest.skip("needs -p tests.pretend_gpu.plugin")
