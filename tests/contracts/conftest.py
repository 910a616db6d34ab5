from tests.trainables.difficulty.conftest import dialogues, docstrings  # noqa: F401
