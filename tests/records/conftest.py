from tests.analysis.conftest import study, written  # noqa: F401
